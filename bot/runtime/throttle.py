"""Limits failed attempts by address: logins, and the tokens and signatures of alert sources.

One rule for all: what is right is let in, however often somebody at the same address was wrong
before, so that nobody can lock another out. Whoever compares does so first and asks here only about
what was wrong. So this slows nobody who guesses a right token: that a token is long does
(docs/security.md). It bounds what wrong ones cost, in lines of logs and in work.

In memory of one process: with several, each has its own count.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

PER_ADDRESS = 10
WINDOW_S = 300.0
MAX_ADDRESSES = 10_000
IPV6_NETWORK = 64
"""One visitor commands a whole network of IPv6 addresses."""


@dataclass
class _Count:
    since: float
    failures: int = 0


class Throttle:
    """Counts failures of each address in windows of five minutes."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Count] = OrderedDict()

    def wait_s(self, address: str) -> int:
        """Seconds until a failure of this address is answered as one again; 0 when it is now."""
        now = self._clock()
        mine = self._addresses.get(_place(address))
        if mine is not None and mine.failures >= PER_ADDRESS and now - mine.since < WINDOW_S:
            # Rounded up, so that whoever waits that long is past the window.
            return int(mine.since + WINDOW_S - now) + 1
        return 0

    def failed(self, address: str) -> int:
        """Somebody there was wrong. Seconds to wait, 0 for the first ones in a window."""
        wait = self.wait_s(address)
        if wait:
            return wait
        now, place = self._clock(), _place(address)
        mine = self._addresses.get(place)
        if mine is None or now - mine.since >= WINDOW_S:
            mine = self._addresses[place] = _Count(now)
        mine.failures += 1
        # The address that failed longest ago stays in front, and is forgotten first.
        self._addresses.move_to_end(place)
        if len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)
        return 0


def _place(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        # Not an IP address: shorten it, because thousands of them are kept.
        return address[:64]
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK), strict=False))
