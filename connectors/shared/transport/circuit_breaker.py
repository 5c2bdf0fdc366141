"""A circuit breaker: a server that keeps failing is not asked for a while.

Every investigation would otherwise wait for its own timeouts (Nygard, Release It!, "Circuit
Breaker").
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits

FAILURES_TO_OPEN = 5
"""Consecutive failures that open the circuit."""
OPEN_S = 20.0
"""How long it then stays open, until one request may try again."""


class CircuitBreaker:
    """Counts requests that got no answer, or an answer that says the server is broken.

    Shared between threads and event loops.
    """

    def __init__(
        self,
        vendor: str,
        server: str,
        failures: int = FAILURES_TO_OPEN,
        open_s: float = OPEN_S,
    ) -> None:
        self._vendor = vendor
        self._server = server
        self._failures_to_open = failures
        self._open_s = open_s
        self._failures = 0
        self._last = ""
        self._open_until = 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise ConnectorError while the circuit is open.

        The first caller after that is the one whose request tries again.
        """
        with self._lock:
            if self._failures < self._failures_to_open:
                return
            left = self._open_until - time.monotonic()
            if left > 0:
                problem = (
                    f"its last {self._failures} requests failed ({self._last}), so it was not "
                    f"asked (circuit open). Next attempt in {math.ceil(left)} s"
                )
                raise ConnectorError(self._vendor, self._server, problem)
            # This caller tries; the others wait for what it learns.
            self._open_until = time.monotonic() + self._open_s

    @property
    def is_open(self) -> bool:
        """Whether requests are refused now."""
        with self._lock:
            is_failing = self._failures >= self._failures_to_open
            return is_failing and self._open_until > time.monotonic()

    def record(self, *, failed: bool, why: str = "it failed") -> None:
        """Record the result of a request; `why` it failed is said while the circuit is open.

        No answer in time, a broken connection and a 5xx are failures. A refusal is an answer.
        """
        with self._lock:
            if failed:
                self._failures += 1
                self._last = why
                self._open_until = time.monotonic() + self._open_s
            else:
                # One answer closes the circuit, because only failures in a row open it.
                self._failures = 0


# What one collection may spend: time until a deadline, and bytes.

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
