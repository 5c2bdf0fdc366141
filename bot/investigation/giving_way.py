"""Usual investigations of a worker rest between their steps while an urgent one is under way.

They share the process, its threads and the database: with six beside it, an urgent one in a storm
waits for each of its steps as long as they do.
"""

from __future__ import annotations

import asyncio
import time

from faultline.bot.runtime.threads import go_first

REST_S = 3.0
"""Before one step, at most: an investigation has six, so that many urgent ones delay a usual one by
some 20 s, and never stop it."""
URGENT_FOR_S = 30.0
"""An urgent one that is not answered by then waits for a vendor or for another worker."""


class GivingWay:
    """Which urgent investigations this worker has in hand. For one event loop."""

    def __init__(self, *, rest_s: float = REST_S, urgent_for_s: float = URGENT_FOR_S) -> None:
        self._rest_s = rest_s
        self._urgent_for_s = urgent_for_s
        self._urgent: dict[str, float] = {}
        """Until when each counts as under way."""
        self._ended = asyncio.Event()

    def begin(self, investigation_id: str) -> None:
        """An urgent one is under way."""
        now = time.monotonic()
        # One that has no place to answer in does not say that it has ended.
        self._urgent = {
            urgent_id: until for urgent_id, until in self._urgent.items() if until > now
        }
        self._urgent[investigation_id] = now + self._urgent_for_s

    def end(self, investigation_id: str) -> None:
        """It is answered, or waits for a model. Of a usual one this says nothing."""
        if self._urgent.pop(investigation_id, None) is not None:
            self._ended.set()
            self._ended = asyncio.Event()

    async def rest(self, investigation_id: str) -> None:
        """Wait until no urgent one is under way, and no longer than `rest_s`. An urgent one waits
        for none, and its calls of the store go first."""
        if investigation_id in self._urgent:
            go_first()
            return
        until = time.monotonic() + self._rest_s
        while True:
            now = time.monotonic()
            under_way = max(self._urgent.values(), default=now)
            if min(until, under_way) <= now:
                return
            try:
                async with asyncio.timeout(min(until, under_way) - now):
                    await self._ended.wait()
            except TimeoutError:
                pass
