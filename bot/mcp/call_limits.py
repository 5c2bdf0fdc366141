"""How much one caller may call: at once, and in a minute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from faultline.analysis.errors import FaultlineError
from faultline.bot.mcp.callers import Caller
from faultline.bot.runtime.throttle import CallRate

AT_ONCE = 8
PER_MINUTE = 240
"""Four a second: an agent reads each result before its next call."""
MINUTE_S = 60.0


class CallLimits:
    """Counts calls in memory of one process; with several, each has its own count."""

    def __init__(
        self,
        *,
        at_once: int = AT_ONCE,
        per_minute: int = PER_MINUTE,
    ) -> None:
        self._at_once = at_once
        self._per_minute = per_minute
        self._calls = CallRate(MINUTE_S)
        self._running: Counter[str] = Counter()

    @contextmanager
    def call(self, caller: Caller) -> Iterator[None]:
        """One call, for the time of the block. Raises FaultlineError where it is one too many."""
        if self._running[caller.who] >= self._at_once:
            raise FaultlineError(
                f"{self._at_once} of your calls are running, which is the limit; wait for one"
            )
        most = caller.calls_per_minute or self._per_minute
        if wait := self._calls.wait_s(caller.who, most):
            raise FaultlineError(
                f"you have reached your limit of {most} calls per minute; the next one counts in "
                f"{wait} s"
            )
        self._running[caller.who] += 1
        try:
            yield
        finally:
            self._running[caller.who] -= 1
            if not self._running[caller.who]:
                del self._running[caller.who]
