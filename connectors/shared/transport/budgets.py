"""What one collection may spend: time until a deadline, and bytes."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from faultline.analysis.errors import BudgetExceeded
from faultline.connectors.shared.settings.connector_settings import Limits

RESERVE_S = 2.0
"""Kept back of a connector's deadline (a quarter of it at most), so that what has arrived can be
handed over before time is up."""


@dataclass(frozen=True)
class Deadline:
    """A moment after which nothing more is requested.

    `at` is by the monotonic clock; `seconds` is what was given, for messages.
    """

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline that many seconds from now."""
        return cls(time.monotonic() + seconds, seconds)

    @classmethod
    def within(cls, limits: Limits) -> Deadline:
        """The deadline of one collection, a little before `collect_from` gives up."""
        return cls.after(limits.deadline_s - min(RESERVE_S, limits.deadline_s / 4))

    @property
    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    def exceeded(self) -> BudgetExceeded:
        """The error that says so."""
        return BudgetExceeded("time", f"{self.seconds:g} s")

    def check(self) -> None:
        """Raise BudgetExceeded when the time is up."""
        if self.remaining <= 0:
            raise self.exceeded()


class ByteBudget:
    """Bytes that one collection may still take, over all its answers."""

    def __init__(self, what: str, limit: int) -> None:
        self._what = what
        self._limit = limit
        self._left = limit
        # Blocking clients take from one budget in several threads.
        self._lock = threading.Lock()

    @property
    def left(self) -> int:
        """Bytes left."""
        return self._left

    def take(self, count: int) -> None:
        """Raise BudgetExceeded when fewer bytes are left."""
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise BudgetExceeded(self._what, f"{self._limit:,} bytes")
