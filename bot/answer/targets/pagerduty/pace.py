"""How fast one account of PagerDuty is written to: shared by all replies of a process.

PagerDuty takes 960 requests a minute of one key and answers 429 to more, with the seconds until it
takes the next (https://developer.pagerduty.com/docs/rest-api-rate-limits). Other processes that
use the key are noticed by that answer.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Mapping

from faultline.connectors.shared.transport.rate_limiter import TokenBucket
from faultline.connectors.shared.transport.transport import retry_after

JOINED_PER_S = 3.0
"""Notes on incidents that joined. Each takes two requests, so that these notes take 360 of the 960
a minute. The connector that reads takes up to 600."""
JOINED_AT_ONCE = 20
"""The incidents of a small storm do not wait for each other."""
LONGEST_HOLD_S = 60.0
"""PagerDuty counts requests by the minute."""
USUAL_HOLD_S = 1.0
"""Where its answer names no time."""


class Pace:
    """Of one account; used from any thread and event loop."""

    def __init__(self) -> None:
        self._joined = TokenBucket(JOINED_PER_S, JOINED_AT_ONCE)
        self._blocked_until = 0.0

    def refused(self, headers: Mapping[str, str]) -> None:
        """PagerDuty answered 429: nobody of this process asks before the time that it names."""
        ratelimit_reset = headers.get("ratelimit-reset") or headers.get("retry-after") or ""
        hold = retry_after({"retry-after": ratelimit_reset}, USUAL_HOLD_S)
        until = time.monotonic() + min(hold, LONGEST_HOLD_S)
        # Of two refusals the longer hold wins.
        self._blocked_until = max(self._blocked_until, until)

    async def open(self) -> None:
        """Wait until PagerDuty takes requests again."""
        await asyncio.sleep(max(0.0, self._blocked_until - time.monotonic()))

    async def joined(self) -> None:
        """Wait for the turn of one more note on an incident that joined."""
        while wait := self._joined.take():
            due = time.monotonic() + wait
            await asyncio.sleep(wait)
            self._joined.process_suspended(due, time.monotonic())


_paces: dict[tuple[str, str], Pace] = {}
_lock = threading.Lock()


def pace_of(account: str, url: str) -> Pace:
    """The one that everybody in this process shares who writes to that account."""
    # Two paces for one account would write at twice the rate.
    with _lock:
        return _paces.setdefault((account, url), Pace())
