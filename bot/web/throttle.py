"""Limits failed logins, for each address and for all addresses together.

In memory of one process: with several, each has its own count.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

PER_ADDRESS = 10
IN_ALL = 200
WINDOW_S = 300.0
MAX_ADDRESSES = 10_000
IPV6_NETWORK = 64
"""One visitor commands a whole network of IPv6 addresses."""


@dataclass
class _Count:
    since: float
    failures: int = 0


class Throttle:
    """Counts failures in windows of five minutes. Who got in before is not kept out by the failures
    of others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._addresses: OrderedDict[str, _Count] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        self._all = _Count(clock())

    def wait_s(self, address: str) -> int:
        """Seconds until this address may try again; 0 when it may now."""
        now, place = self._clock(), _place(address)
        mine = self._addresses.get(place)
        if mine is not None and mine.failures >= PER_ADDRESS and now - mine.since < WINDOW_S:
            return int(mine.since + WINDOW_S - now) + 1
        if (
            self._all.failures >= IN_ALL
            and now - self._all.since < WINDOW_S
            and place not in self._known
        ):
            return int(self._all.since + WINDOW_S - now) + 1
        return 0

    def failed(self, address: str) -> None:
        """Somebody there tried, and was wrong."""
        now, place = self._clock(), _place(address)
        mine = self._addresses.get(place)
        if mine is None or now - mine.since >= WINDOW_S:
            mine = self._addresses[place] = _Count(now)
        if now - self._all.since >= WINDOW_S:
            self._all = _Count(now)
        mine.failures += 1
        self._all.failures += 1
        self._addresses.move_to_end(place)
        if len(self._addresses) > MAX_ADDRESSES:
            self._addresses.popitem(last=False)

    def got_in(self, address: str) -> None:
        """Somebody there was right."""
        place = _place(address)
        self._known[place] = None
        self._known.move_to_end(place)
        if len(self._known) > MAX_ADDRESSES:
            self._known.popitem(last=False)


def _place(address: str) -> str:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:64]
    if parsed.version == 4:
        return address
    return str(ipaddress.ip_network((parsed, IPV6_NETWORK), strict=False))
