"""The table of what the language model took, by day and channel."""

from __future__ import annotations

from sqlalchemy import BigInteger
from sqlalchemy.orm import Mapped, mapped_column

from faultline.bot.store.models import Base


class ModelSpendingRow(Base):
    """One day (UTC, `2026-11-23`) of one channel; "" for what belongs to none."""

    __tablename__ = "model_spending"

    day: Mapped[str] = mapped_column(primary_key=True)
    channel: Mapped[str] = mapped_column(primary_key=True)
    tokens: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[float]
