"""Blocking calls pass two doors: one for the database, one for files."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time

import pytest

from faultline.bot.runtime import threads
from faultline.bot.runtime.measures import REGISTRY
from faultline.bot.runtime.threads import (
    STORE_THREADS,
    ReplacedThreads,
    go_first,
    in_store,
    in_thread,
)
from faultline.bot.store.connections import POOL

PATIENT_S = 60.0
investigation = contextvars.ContextVar("investigation", default="none")


def counted(outcome: str) -> float:
    found = REGISTRY.get_sample_value("faultline_store_call_seconds_count", {"outcome": outcome})
    return found or 0.0


def test_a_call_has_the_callers_context_and_its_result_comes_back() -> None:
    async def story() -> list[str]:
        investigation.set("inv-1")
        return [await in_store(investigation.get), await in_thread(investigation.get)]

    assert asyncio.run(story()) == ["inv-1", "inv-1"]


def test_those_who_go_first_overtake_others_but_for_one_in_four() -> None:
    pool = ReplacedThreads(1, hangs_after_s=PATIENT_S, name="test")
    busy, release = threading.Event(), threading.Event()
    order: list[str] = []

    def hold() -> None:
        busy.set()
        release.wait(PATIENT_S)

    pool.submit(hold)
    assert busy.wait(PATIENT_S)
    calls = [pool.submit(order.append, name) for name in ("usual 1", "usual 2")]
    calls += [pool.first.submit(order.append, f"first {n}") for n in range(1, 6)]
    release.set()
    for one in calls:
        one.result(PATIENT_S)
    assert order == ["first 1", "first 2", "first 3", "usual 1", "first 4", "first 5", "usual 2"]


def test_a_task_goes_first_from_when_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = ReplacedThreads(1, hangs_after_s=PATIENT_S, name="test")
    monkeypatch.setattr(threads, "_store", pool)
    release = threading.Event()
    order: list[str] = []

    async def call(name: str, *, first: bool) -> None:
        go_first(first)
        await in_store(order.append, name)

    async def story() -> None:
        busy = asyncio.create_task(in_store(release.wait, PATIENT_S))
        await asyncio.sleep(0)
        usual = asyncio.create_task(call("usual", first=False))
        await asyncio.sleep(0)
        urgent = asyncio.create_task(call("urgent", first=True))
        await asyncio.sleep(0)
        release.set()
        await asyncio.gather(busy, usual, urgent)

    asyncio.run(story())
    assert order == ["urgent", "usual"]


def test_a_database_that_hangs_keeps_no_file_waiting() -> None:
    release = threading.Event()

    async def story() -> str:
        hanging = [
            asyncio.create_task(in_store(release.wait, PATIENT_S)) for _ in range(STORE_THREADS + 1)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENT_S / 2):
            read = await in_thread(str, "a file")
        release.set()
        await asyncio.gather(*hanging)
        return read

    assert asyncio.run(story()) == "a file"


def test_a_call_that_hangs_is_given_up_at_the_deadline_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "STORE_DEADLINE_S", 0.05)
    monkeypatch.setattr(threads, "SLOW_S", 0.05)
    release = threading.Event()
    before = counted("late")

    async def story() -> None:
        with pytest.raises(TimeoutError):
            await in_store(release.wait, PATIENT_S)
        release.set()

    with caplog.at_level(logging.WARNING, "faultline.store"):
        asyncio.run(story())
    assert counted("late") == before + 1
    assert "Event.wait: late after" in caplog.text


def test_a_thread_that_hangs_is_counted_and_replaced_and_ends_after_its_call() -> None:
    pool, release = ReplacedThreads(2, hangs_after_s=0.05, name="t"), threading.Event()
    hanging = [pool.submit(release.wait, PATIENT_S) for _ in range(2)]
    waiting = pool.submit(threading.current_thread)
    with pytest.raises(TimeoutError):
        waiting.result(0.1)
    assert pool.hanging() == 2
    pool.replace_hanging()
    assert waiting.result(PATIENT_S).name == "t"
    release.set()
    assert [one.result(PATIENT_S) for one in hanging] == [True, True]
    # Of the four threads two are left.
    names = {pool.submit(_named).result(PATIENT_S) for _ in range(20)}
    assert len(names) <= 2
    assert pool.hanging() == 0


def _named() -> int:
    return threading.get_ident()


def test_at_most_so_many_threads_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "MOST_REPLACED", 3)
    pool, release = ReplacedThreads(1, hangs_after_s=0.0, name="t"), threading.Event()
    calls = [pool.submit(release.wait, PATIENT_S) for _ in range(10)]
    until = time.monotonic() + PATIENT_S / 2
    while pool.hanging() < 4 and time.monotonic() < until:
        pool.replace_hanging()
        time.sleep(0.01)
    for _ in range(10):
        pool.replace_hanging()
        time.sleep(0.01)
    assert pool.hanging() == 4
    release.set()
    assert all(one.result(PATIENT_S) for one in calls)


def test_a_call_that_was_cancelled_before_its_turn_is_not_made() -> None:
    pool, release = ReplacedThreads(1, hangs_after_s=60, name="t"), threading.Event()
    made: list[int] = []
    first, second = pool.submit(release.wait, PATIENT_S), pool.submit(made.append, 1)
    assert second.cancel()
    release.set()
    assert first.result(PATIENT_S)
    assert pool.submit(len, made).result(PATIENT_S) == 0


def test_calls_of_a_store_whose_threads_all_hang_go_on_in_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    release = threading.Event()
    monkeypatch.setattr(threads, "HANGS_S", 0.1)
    pool = ReplacedThreads(STORE_THREADS, hangs_after_s=0.1, name="store")
    monkeypatch.setattr(threads, "_store", pool)

    async def story() -> str:
        hung = [
            asyncio.create_task(in_store(release.wait, PATIENT_S)) for _ in range(STORE_THREADS)
        ]
        await asyncio.sleep(0)
        async with asyncio.timeout(PATIENT_S / 2):
            answer = await in_store(str, "an answer")
        assert threads.hanging()
        release.set()
        await asyncio.gather(*hung)
        return answer

    assert asyncio.run(story()) == "an answer"


def test_what_a_call_raises_is_raised_and_counted_as_failed() -> None:
    def slow_vendor() -> None:
        raise TimeoutError("its own")

    before = counted("failed")
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(in_store(slow_vendor))
    assert counted("failed") == before + 1


def test_each_thread_of_the_store_finds_a_connection() -> None:
    assert 2 * POOL == STORE_THREADS  # as many connections as are kept again when it is busy
