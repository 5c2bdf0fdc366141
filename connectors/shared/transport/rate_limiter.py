"""How fast a vendor is asked and how many requests are under way at once.

A rate limiter is shared by all connectors of a process that speak to the same server, from any
thread or event loop. That, and two more things, is why it is our own code:

- aiolimiter (1.3) belongs to one event loop: used in another it warns and forgets who waits. Some
  vendors' clients are blocking and run in threads, and a process has several loops.
- pyrate-limiter (4) takes threads and loops, but earns permits while the process is suspended: a
  machine that wakes up sends what it had promised before together with what is due now.
- Neither refuses a permit at once when it would come after the caller's deadline, and neither
  bounds how many requests are under way, first come first served, under the same permit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import CircuitBreaker, Deadline
from faultline.connectors.shared.transport.watching import VendorRequest, tell_skipped, watched

BURST_S = 0.5
"""The requests of that many seconds may come at once. A vendor that counts by the second sees them
and, a moment later, those from before: together no more than a second's."""
NEARLY = 1e-9
SUSPENDED_S = 0.25
"""A waiter that wakes up later than planned by more than this was held up by the process or the
machine."""
COLLECTIONS_PER_REQUEST = 2
LEAST_COLLECTIONS = 4
"""Collections of one connector that run at once, for each request that it may have under way and at
least: enough that no permit is left unused. More would each hold what they have so far in memory,
and all end late."""


class TokenBucket:
    """At most `rate` requests a second on average, and `burst` of them at once.

    A token is taken in the moment in which it is used: one that was promised before a pause of this
    process would be used together with those that came during the pause.
    """

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = float(burst)
        self._updated = self._suspended_until = time.monotonic()
        self._lock = threading.Lock()

    def process_suspended(self, since: float, until: float) -> None:
        """This process did nothing for that time (monotonic seconds), so it earns no tokens.

        What it had sent before may not have left the machine yet.
        """
        with self._lock:
            # Several waiters report one pause, so count each part of it once.
            lost = until - max(since, self._suspended_until)
            if until - since > SUSPENDED_S and lost > 0:
                self._updated += lost
                self._suspended_until = until

    def take(self) -> float:
        """Take a token if there is one: 0. Else the seconds until there may be one."""
        with self._lock:
            now = time.monotonic()
            if now > self._updated:
                earned = (now - self._updated) * self._rate
                self._tokens = min(self._burst, self._tokens + earned)
                self._updated = now
            # Rounding may leave a token a hair short, and nobody should sleep for that.
            if self._tokens < 1 - NEARLY:
                return (1 - self._tokens) / self._rate
            self._tokens -= 1
            return 0.0


class FairSemaphore:
    """At most `count` holders at once, served in the order in which they came.

    Unlike those of asyncio and threading it can be waited for from threads and loops alike.
    """

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: deque[Future[None]] = deque()
        self._lock = threading.Lock()

    def acquire(self) -> Future[None]:
        """A slot, or the promise of one. Pass it to `release`, granted or not."""
        slot: Future[None] = Future()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                slot.set_result(None)
            else:
                self._waiting.append(slot)
        return slot

    def release(self, slot: Future[None]) -> None:
        """Give the slot to the next one that waits."""
        # A slot that still waited holds nothing that could be passed on.
        if slot.cancel():
            return
        with self._lock:
            while self._waiting:
                following = self._waiting.popleft()
                # Skip those that have stopped waiting; from here on this one cannot cancel.
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._free += 1


class RateLimiter:
    """Permits to send one request each: a token bucket, a semaphore and a circuit breaker."""

    def __init__(self, limits: Limits, vendor: str = "", server: str = "") -> None:
        self.limits = limits
        self.vendor = vendor
        self.permits = 0
        """Granted so far."""
        self.breaker = CircuitBreaker(vendor, server)
        burst = max(1, round(limits.requests_per_s * BURST_S))
        self._bucket = TokenBucket(limits.requests_per_s, burst)
        self._semaphore = FairSemaphore(limits.concurrency)

    @asynccontextmanager
    async def permit(self, deadline: Deadline) -> AsyncIterator[VendorRequest]:
        """Wait for a permit; the server's answer may be noted on the request that it gives.

        Raises BudgetExceeded when the permit would come after the deadline, ConnectorError while
        the circuit is open.
        """
        request = VendorRequest(self.vendor)
        slot = self._acquire()
        try:
            try:
                async with asyncio.timeout(deadline.remaining):
                    await asyncio.wrap_future(slot)
            except TimeoutError:
                raise self._too_late(deadline) from None
            # Another caller may take the token during the sleep, so ask again.
            while wait := self._wait(deadline):
                due = time.monotonic() + wait
                await asyncio.sleep(wait)
                self._bucket.process_suspended(due, time.monotonic())
            with self._granted(request):
                yield request
        finally:
            self._semaphore.release(slot)

    @contextmanager
    def permit_in_thread(self, deadline: Deadline) -> Iterator[VendorRequest]:
        """The same for a thread."""
        request = VendorRequest(self.vendor)
        slot = self._acquire()
        try:
            try:
                slot.result(timeout=deadline.remaining)
            except TimeoutError:
                raise self._too_late(deadline) from None
            while wait := self._wait(deadline):
                due = time.monotonic() + wait
                time.sleep(wait)
                self._bucket.process_suspended(due, time.monotonic())
            with self._granted(request):
                yield request
        finally:
            self._semaphore.release(slot)

    def _acquire(self) -> Future[None]:
        try:
            self.breaker.check()
        except ConnectorError as error:
            tell_skipped(self.vendor, error)
            raise
        return self._semaphore.acquire()

    def _wait(self, deadline: Deadline) -> float:
        wait = self._bucket.take()
        # Fail at once: the caller can still use the time that the wait would cost.
        if wait > deadline.remaining:
            raise self._too_late(deadline)
        return wait

    def _too_late(self, deadline: Deadline) -> BudgetExceeded:
        error = deadline.exceeded()
        tell_skipped(self.vendor, error)
        return error

    @contextmanager
    def _granted(self, request: VendorRequest) -> Iterator[None]:
        self.permits += 1
        with watched(request):
            yield


_instance: ContextVar[str] = ContextVar("instance", default="")
"""The instance of the connector that asks just now, where a vendor has several."""
_limiters: dict[tuple[str, str], RateLimiter] = {}
_collections: dict[str, FairSemaphore] = {}
_lock = threading.Lock()


def rate_limiter_of(vendor: str, server: str, limits: Limits) -> RateLimiter:
    """The one that everybody in this process shares who asks that vendor's server.

    The first caller's limits hold. Two instances have one each, also at the same address: vendors
    count the requests of each account.
    """
    instance = _instance.get()
    name = f"{vendor} {instance}" if instance else vendor
    # Under a lock: two threads must not make a limiter each for one server.
    with _lock:
        return _limiters.setdefault((name, server), RateLimiter(limits, name, server))


@contextmanager
def asking_instance(name: str) -> Iterator[None]:
    """What is asked meanwhile, is asked by the instance of that name."""
    before = _instance.set(name)
    try:
        yield
    finally:
        _instance.reset(before)


def rate_limiters_of(vendor: str) -> list[RateLimiter]:
    """Every rate limiter of that vendor's servers in this process."""
    with _lock:
        return [limiter for (name, _), limiter in _limiters.items() if name == vendor]


def open_circuits() -> dict[str, int]:
    """By vendor that was asked: how many of its servers have an open circuit now."""
    # Copy, because each breaker takes its own lock while it is read.
    with _lock:
        limiters = list(_limiters.items())
    counts: dict[str, int] = {}
    for (vendor, _), limiter in limiters:
        counts[vendor] = counts.get(vendor, 0) + limiter.breaker.is_open
    return counts


@asynccontextmanager
async def collecting(connector: str, limits: Limits) -> AsyncIterator[None]:
    """Wait until this connector may collect for one more investigation, first come first served."""
    most = max(LEAST_COLLECTIONS, COLLECTIONS_PER_REQUEST * limits.concurrency)
    with _lock:
        semaphore = _collections.setdefault(connector, FairSemaphore(most))
    slot = semaphore.acquire()
    try:
        await asyncio.wrap_future(slot)
        yield
    finally:
        semaphore.release(slot)
