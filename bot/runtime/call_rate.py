"""How often each visitor may do something within a time. In memory of one process: with several,
each has its own count."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable

MOST_VISITORS = 10_000


class CallRate:
    """Counts by visitor, in a window of this many seconds that slides."""

    def __init__(self, window_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._window_s = window_s
        self._clock = clock
        self._calls: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_s(self, visitor: str, most: int) -> int:
        """Count a call; 0 where it may be answered, else the seconds until one may be."""
        now = self._clock()
        calls = self._calls.setdefault(visitor, deque())
        # Whoever has not called for longest stays in front, and is forgotten first.
        self._calls.move_to_end(visitor)
        if len(self._calls) > MOST_VISITORS:
            self._calls.popitem(last=False)
        while calls and now - calls[0] >= self._window_s:
            calls.popleft()
        if len(calls) >= most:
            # Rounded up, so that whoever waits that long may call.
            return int(calls[0] + self._window_s - now) + 1
        calls.append(now)
        return 0
