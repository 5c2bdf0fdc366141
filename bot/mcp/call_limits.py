"""How much one caller may call: at once, and in a minute."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from analysis.errors import FaultlineError
from bot.mcp.callers import Caller

AT_ONCE = 8
PER_MINUTE = 240
"""Four a second: an agent reads each result before its next call."""
MINUTE_S = 60.0
MOST_CALLERS = 10_000


class CallLimits:
    """Counts calls in memory of one process; with several, each has its own count."""

    def __init__(
        self,
        *,
        at_once: int = AT_ONCE,
        per_minute: int = PER_MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._at_once = at_once
        self._per_minute = per_minute
        self._clock = clock
        self._running: Counter[str] = Counter()
        self._began: OrderedDict[str, deque[float]] = OrderedDict()

    @contextmanager
    def call(self, caller: Caller) -> Iterator[None]:
        """One call, for the time of the block. Raises FaultlineError where it is one too many."""
        if self._running[caller.who] >= self._at_once:
            raise FaultlineError(
                f"{self._at_once} of your calls are running, which is the limit; wait for one"
            )
        self._count(caller.who)
        self._running[caller.who] += 1
        try:
            yield
        finally:
            self._running[caller.who] -= 1
            if not self._running[caller.who]:
                del self._running[caller.who]

    def _count(self, who: str) -> None:
        now = self._clock()
        began = self._began.setdefault(who, deque())
        self._began.move_to_end(who)
        if len(self._began) > MOST_CALLERS:
            self._began.popitem(last=False)
        while began and now - began[0] >= MINUTE_S:
            began.popleft()
        if len(began) >= self._per_minute:
            wait = MINUTE_S - (now - began[0])
            raise FaultlineError(
                f"you have reached your limit of {self._per_minute} calls per minute; the next "
                f"one counts in {wait:.0f} s"
            )
        began.append(now)
