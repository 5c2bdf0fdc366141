"""The table of calls between services that investigations learned."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class LearnedCallRow(Base):
    """One source's word of one call, in one environment, cluster and region, for one team. `id` is
    made of these; the text "" says that the alert did not say. `investigation_id` is the last that
    saw it."""

    __tablename__ = "learned_calls"

    id: Mapped[str] = mapped_column(primary_key=True)
    team: Mapped[str]
    environment: Mapped[str]
    cluster: Mapped[str]
    region: Mapped[str]
    caller: Mapped[str]
    callee: Mapped[str]
    source: Mapped[str]
    last_seen: Mapped[datetime] = mapped_column(index=True)
    investigation_id: Mapped[str] = mapped_column(index=True)
