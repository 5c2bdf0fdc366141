"""The table of machines that took part in training jobs that were investigated."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ForeignKey
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class FleetHostRow(Base):
    """A machine of the job that an investigation was about; it goes with the investigation.

    `fault` is "" for one that the answer does not blame, `part` what it blames of it, such as
    `gpu3`.
    """

    __tablename__ = "fleet_hosts"

    investigation_id: Mapped[str] = mapped_column(
        ForeignKey("investigations.id", ondelete="CASCADE"), primary_key=True
    )
    host: Mapped[str] = mapped_column(primary_key=True, index=True)
    at: Mapped[datetime] = mapped_column(index=True)
    job: Mapped[str]
    fault: Mapped[str]
    part: Mapped[str]
