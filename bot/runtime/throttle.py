"""Where a visitor is, on this machine or at the address that a proxy of ours vouches for, and
limits by address: how often somebody may do something, and failed attempts with logins, and with
the tokens and signatures of alert sources.

One rule for failed attempts: what is right is let in, however often somebody at the same address
was wrong before, so that nobody can lock another out. Whoever compares does so first and asks here
only about what was wrong. So this slows nobody who guesses a right token: that a token is long does
(docs/security.md). It bounds what wrong ones cost, in lines of logs and in work.

In memory of one process: with several, each has its own count.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from starlette.requests import Request

from faultline.bot.settings.processes import ip_address_of, is_loopback, names_this_machine

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""A request that carries one of these came through a proxy, so its loopback address is not the
visitor's."""
MAX_HOPS = 32


def is_local(request: Request) -> bool:
    """Whether the visitor is on this machine and named it so.

    The Host header is checked too: a foreign page whose name resolves to 127.0.0.1 (DNS rebinding)
    carries its own.
    """
    if any(name in request.headers for name in FORWARDED):
        return False
    named = names_this_machine("//" + request.headers.get("host", ""))
    return named and request.client is not None and is_loopback(request.client.host)


def client_address(request: Request, trusted: Sequence[str]) -> str:
    """The visitor's address: the last of X-Forwarded-For that no trusted proxy has, if a trusted
    one sent it.

    Each proxy appends the address that it got the request from. What stands before the first
    untrusted address is therefore that sender's claim.
    """
    here = request.client.host if request.client else ""
    networks = [ipaddress.ip_network(t) for t in trusted]
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    # Foreign input: look at the last hops only, because their number has no bound.
    for hop in reversed(hops[-MAX_HOPS:]):
        if not _is_in(here, networks):
            break
        named = ip_address_of(hop.strip())
        if named is None:
            break
        here = str(named)
    return here


def _is_in(host: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    address = ip_address_of(host)
    return address is not None and any(address in network for network in networks)


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
