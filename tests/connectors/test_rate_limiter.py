"""Rate, circuit breaker, deadline and budget hold from coroutines and threads alike."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from faultline.analysis.errors import BudgetExceeded, ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import (
    ByteBudget,
    CircuitBreaker,
    Deadline,
)
from faultline.connectors.shared.transport.rate_limiter import (
    RateLimiter,
    TokenBucket,
    collecting,
    rate_limiter_of,
)


class Meter:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = self.most = self.total = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.total += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.inside -= 1


def test_no_more_than_the_slots_run_at_once_over_two_event_loops_and_threads() -> None:
    limiter, meter = RateLimiter(Limits(concurrency=3, requests_per_s=10_000)), Meter()

    async def one() -> None:
        async with limiter.permit(Deadline.after(10)):
            with meter:
                await asyncio.sleep(0.005)

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(20)))

    def in_thread() -> None:
        with limiter.permit_in_thread(Deadline.after(10)), meter:
            time.sleep(0.005)

    with ThreadPoolExecutor(6) as pool:
        running = [pool.submit(asyncio.run, many()) for _ in range(2)] + [
            pool.submit(in_thread) for _ in range(20)
        ]
        for one_of_them in running:
            one_of_them.result(timeout=20)
    assert meter.total == 60
    assert meter.most == 3


def test_requests_are_spread_to_the_rate() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    assert [bucket.take(), bucket.take()] == [0, 0]
    assert bucket.take() == pytest.approx(0.1, abs=0.02)
    bucket._updated -= 0.1
    assert bucket.take() == 0


def test_after_a_pause_of_the_process_no_more_come_at_once_than_before() -> None:
    bucket = TokenBucket(rate=10, burst=2)
    bucket._updated -= 3600
    assert [bucket.take() == 0 for _ in range(4)] == [True, True, False, False]


def test_time_in_which_the_process_stood_still_earns_no_tokens_and_counts_once() -> None:
    bucket = TokenBucket(rate=0.01, burst=1)
    assert bucket.take() == 0
    began = bucket._updated
    bucket._updated = bucket._suspended_until = began - 90
    for _ in range(2):  # two who waited woke up late
        bucket.process_suspended(began - 80, began)
    assert bucket.take() == pytest.approx(90, abs=2)
    bucket.process_suspended(began, began + 0.1)  # a moment is no standstill
    assert bucket._suspended_until == began


def test_who_waits_for_the_rate_gets_a_permit() -> None:
    limiter = RateLimiter(Limits(requests_per_s=50, concurrency=5))

    async def many() -> None:
        await asyncio.gather(*(_enter(limiter) for _ in range(60)))

    asyncio.run(many())
    assert limiter.permits == 60


def test_few_investigations_are_collected_for_at_once_and_all_in_the_end() -> None:
    meter = Meter()

    async def one() -> None:
        async with collecting("test of the gate", Limits(concurrency=1)):
            with meter:
                await asyncio.sleep(0.001)

    async def many() -> None:
        await asyncio.gather(*(one() for _ in range(50)))

    asyncio.run(many())
    assert (meter.total, meter.most) == (50, 4)


def test_one_who_gave_up_waiting_does_not_hold_a_slot() -> None:
    async def story() -> None:
        limiter = RateLimiter(Limits(concurrency=1, requests_per_s=10_000))
        async with limiter.permit(Deadline.after(5)):
            with pytest.raises(BudgetExceeded, match=r"time limit of 0\.05 s"):
                async with limiter.permit(Deadline.after(0.05)):
                    pytest.fail("two in one slot")
            cancelled = asyncio.create_task(_enter(limiter))
            await asyncio.sleep(0.01)
            cancelled.cancel()
            await asyncio.gather(cancelled, return_exceptions=True)
        async with asyncio.timeout(1), limiter.permit(Deadline.after(1)):
            pass

    asyncio.run(story())


async def _enter(limiter: RateLimiter) -> None:
    async with limiter.permit(Deadline.after(5)):
        pass


def test_a_permit_that_would_come_too_late_is_refused_at_once() -> None:
    limiter = RateLimiter(Limits(requests_per_s=0.1))

    async def twice() -> None:
        await asyncio.gather(*(_soon(limiter) for _ in range(2)))

    started = time.monotonic()
    with pytest.raises(BudgetExceeded):
        asyncio.run(twice())
    assert time.monotonic() - started < 8


async def _soon(limiter: RateLimiter) -> None:
    async with limiter.permit(Deadline.after(1)):
        pass


def test_a_rate_limiter_is_shared_by_server() -> None:
    assert rate_limiter_of("v", "http://a", Limits()) is rate_limiter_of("v", "http://a", Limits())
    assert rate_limiter_of("v", "http://a", Limits()) is not rate_limiter_of(
        "v", "http://b", Limits()
    )


def test_a_byte_budget_is_for_all_answers_together() -> None:
    budget = ByteBudget("size", 10)
    budget.take(6)
    assert budget.left == 4
    with pytest.raises(BudgetExceeded, match="size limit of 10 bytes"):
        budget.take(5)


def test_a_server_that_does_not_answer_is_left_alone_and_then_asked_once() -> None:
    breaker = CircuitBreaker("prometheus", "http://127.0.0.1:9", failures=3, open_s=60)
    for _ in range(3):
        breaker.check()
        breaker.record(failed=True, why="no answer in time")
    with pytest.raises(ConnectorError) as refused:
        breaker.check()
    assert str(refused.value) == (
        "prometheus http://127.0.0.1:9: its last 3 requests failed (no answer in time), so it was "
        "not asked (circuit open). Next attempt in 60 s"
    )
    breaker._open_until = 0.0  # the time is over
    breaker.check()
    with pytest.raises(ConnectorError):
        breaker.check()  # a second one waits for what the first one learns
    breaker.record(failed=False)
    breaker.check()


def test_within_the_last_second_a_server_is_still_left_alone() -> None:
    breaker = CircuitBreaker("prometheus", "", failures=1, open_s=0.9)
    breaker.record(failed=True)
    with pytest.raises(ConnectorError, match="Next attempt in 1 s"):
        breaker.check()


def test_an_answer_between_failures_starts_the_count_again() -> None:
    breaker = CircuitBreaker("prometheus", "", failures=2)
    for failed in (True, False, True):
        breaker.record(failed=failed)
    breaker.check()
