"""How fast, how many at once and how long a vendor may be asked.

A pace is shared by all connectors of a process that speak to the same server, from any thread or
event loop.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from analysis.errors import BudgetExceeded, ConnectorError
from connectors.limits import Limits
from connectors.watching import Asked, not_asked, watched

BURST_S = 0.5
"""So many seconds' requests may come at once. A vendor that counts by the second sees them and, a
moment late, those from before: together no more than a second's."""
NEARLY = 1e-9
STANDSTILL_S = 0.25
"""Who wakes so much later than planned was kept waiting by the process or the machine."""
RESERVE_S = 2.0
"""Kept back of a connector's deadline (a quarter of it at most), to hand over what has arrived
before time is up."""


@dataclass(frozen=True)
class Deadline:
    """A moment after which no more is asked. `seconds` is what was given, for messages."""

    at: float
    seconds: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The deadline so many seconds from now."""
        return cls(time.monotonic() + seconds, seconds)

    @classmethod
    def within(cls, limits: Limits) -> Deadline:
        """The deadline of one collection, a little before `collect_one` gives up."""
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


class TokenBucket:
    """At most `rate` requests a second on average, and `burst` of them at once.

    A token is taken in the moment in which it is used: one that was promised before a pause of this
    process would be used together with those that came during the pause.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._updated = self._stood_until = time.monotonic()
        self._lock = threading.Lock()

    def stood_still(self, since: float, until: float) -> None:
        """This process did nothing for that time (monotonic seconds): what it had sent before may
        not have left it yet, so the time earns no tokens."""
        with self._lock:
            lost = until - max(since, self._stood_until)
            if until - since > STANDSTILL_S and lost > 0:
                self._updated += lost
                self._stood_until = until

    def take(self) -> float:
        """Take a token if there is one: 0. Else the seconds until there may be one."""
        with self._lock:
            now = time.monotonic()
            if now > self._updated:
                self._tokens = min(self._burst, self._tokens + (now - self._updated) * self._rate)
                self._updated = now
            if self._tokens < 1 - NEARLY:
                return (1 - self._tokens) / self._rate
            self._tokens -= 1
            return 0.0


class Slots:
    """At most `count` requests at once; those who wait are served in the order in which they
    came."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    def claim(self) -> Future[None]:
        """A slot, or the promise of one. Hand it back with `release`, whether or not it was
        granted."""
        slot: Future[None] = Future()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                slot.set_result(None)
            else:
                self._waiting.append(slot)
        return slot

    def release(self, slot: Future[None]) -> None:
        """Give the slot to the next who waits."""
        if slot.cancel():
            return
        with self._lock:
            while self._waiting:
                following = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._free += 1


FAILURES_TO_OPEN = 5
OPEN_S = 20.0
"""So many requests in a row without an answer, and the server is left alone for so long, then asked
once: every investigation would wait for its own timeouts otherwise (Nygard, Release It!, "Circuit
Breaker")."""


class Breaker:
    """Counts requests that got no answer, or an answer that says the server is broken."""

    def __init__(
        self, vendor: str, server: str, failures: int = FAILURES_TO_OPEN, open_s: float = OPEN_S
    ) -> None:
        self._vendor = vendor
        self._server = server
        self._most = failures
        self._open_s = open_s
        self._failures = 0
        self._closed_at = 0.0
        self._lock = threading.Lock()

    def check(self) -> None:
        """Raise ConnectorError while the server is left alone. The first who asks after that is the
        one that tries."""
        with self._lock:
            left = self._closed_at - time.monotonic()
            if self._failures >= self._most and left > 0:
                failed = f"{self._failures} requests in a row got no answer or a server error"
                said = f"{failed}; it is asked again in {math.ceil(left)} s"
                raise ConnectorError(self._vendor, self._server, said)
            if self._failures >= self._most:
                self._closed_at = time.monotonic() + self._open_s

    @property
    def is_open(self) -> bool:
        """Whether the server is left alone just now."""
        with self._lock:
            return self._failures >= self._most and self._closed_at > time.monotonic()

    def note(self, *, failed: bool) -> None:
        """Whether a request failed: no answer in time, a broken connection, a 5xx. A refusal is an
        answer."""
        with self._lock:
            self._failures = self._failures + 1 if failed else 0
            if failed:
                self._closed_at = time.monotonic() + self._open_s


class Pace:
    """A token bucket, slots and a circuit breaker, for coroutines and for threads."""

    def __init__(self, limits: Limits, vendor: str = "", server: str = "") -> None:
        self.limits = limits
        self.vendor = vendor
        self.turns = 0
        """Taken so far."""
        self.breaker = Breaker(vendor, server)
        self._bucket = TokenBucket(
            limits.requests_per_s, max(1, round(limits.requests_per_s * BURST_S))
        )
        self._slots = Slots(limits.concurrency)

    @asynccontextmanager
    async def turn(self, deadline: Deadline) -> AsyncIterator[Asked]:
        """Wait for a turn; what the server answers may be noted on what is given. Raises
        BudgetExceeded when it would come after the deadline, ConnectorError while the server is
        left alone."""
        asked, slot = Asked(self.vendor), self._claimed()
        try:
            try:
                async with asyncio.timeout(deadline.remaining):
                    await asyncio.wrap_future(slot)
            except TimeoutError:
                raise self._too_late(deadline) from None
            while wait := self._wait(deadline):
                due = time.monotonic() + wait
                await asyncio.sleep(wait)
                self._bucket.stood_still(due, time.monotonic())
            with self._taken(asked):
                yield asked
        finally:
            self._slots.release(slot)

    @contextmanager
    def turn_in_thread(self, deadline: Deadline) -> Iterator[Asked]:
        """The same for a thread."""
        asked, slot = Asked(self.vendor), self._claimed()
        try:
            try:
                slot.result(timeout=deadline.remaining)
            except TimeoutError:
                raise self._too_late(deadline) from None
            while wait := self._wait(deadline):
                due = time.monotonic() + wait
                time.sleep(wait)
                self._bucket.stood_still(due, time.monotonic())
            with self._taken(asked):
                yield asked
        finally:
            self._slots.release(slot)

    def _claimed(self) -> Future[None]:
        try:
            self.breaker.check()
        except ConnectorError as error:
            not_asked(self.vendor, error)
            raise
        return self._slots.claim()

    def _wait(self, deadline: Deadline) -> float:
        wait = self._bucket.take()
        if wait > deadline.remaining:
            raise self._too_late(deadline)
        return wait

    def _too_late(self, deadline: Deadline) -> BudgetExceeded:
        error = deadline.exceeded()
        not_asked(self.vendor, error)
        return error

    @contextmanager
    def _taken(self, asked: Asked) -> Iterator[None]:
        self.turns += 1
        with watched(asked):
            yield


COLLECTIONS_PER_REQUEST = 2
LEAST_COLLECTIONS = 4
"""So many collections of one connector run at once for each request that it may have under way, and
at least these: enough that no turn is left unused. More would each hold what they have so far in
memory, and all end late."""

_collections: dict[str, Slots] = {}


@asynccontextmanager
async def collecting(connector: str, limits: Limits) -> AsyncIterator[None]:
    """Wait until this connector may collect for one more investigation, in the order in which they
    came."""
    most = max(LEAST_COLLECTIONS, COLLECTIONS_PER_REQUEST * limits.concurrency)
    with _paces_lock:
        slots = _collections.setdefault(connector, Slots(most))
    slot = slots.claim()
    try:
        await asyncio.wrap_future(slot)
        yield
    finally:
        slots.release(slot)


_paces: dict[tuple[str, str], Pace] = {}
_paces_lock = threading.Lock()


def pace_of(vendor: str, server: str, limits: Limits) -> Pace:
    """The pace shared by everybody in this process who asks that vendor's server; the first one's
    limits hold."""
    with _paces_lock:
        return _paces.setdefault((vendor, server), Pace(limits, vendor, server))


def paces_of(vendor: str) -> list[Pace]:
    """Every pace at which that vendor's servers are asked by this process."""
    with _paces_lock:
        return [pace for (name, _), pace in _paces.items() if name == vendor]


def open_circuits() -> dict[str, int]:
    """By vendor that was asked: how many of its servers are left alone just now."""
    with _paces_lock:
        paces = list(_paces.items())
    found: dict[str, int] = {}
    for (vendor, _), pace in paces:
        found[vendor] = found.get(vendor, 0) + pace.breaker.is_open
    return found
