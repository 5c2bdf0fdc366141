"""A circuit breaker: a server that keeps failing is not asked for a while.

Every investigation would otherwise wait for its own timeouts (Nygard, Release It!, "Circuit
Breaker").
"""

from __future__ import annotations

import math
import threading
import time

from faultline.analysis.errors import ConnectorError

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
