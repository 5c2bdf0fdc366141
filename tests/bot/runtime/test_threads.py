"""Blocking calls pass two doors: one for the database, one for files."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading

import pytest

from bot.runtime import threads
from bot.runtime.measures import REGISTRY
from bot.runtime.threads import STORE_THREADS, in_store, in_thread
from bot.store.connect import POOL

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


def test_what_a_call_raises_is_raised_and_counted_as_failed() -> None:
    def slow_vendor() -> None:
        raise TimeoutError("its own")

    before = counted("failed")
    with pytest.raises(TimeoutError, match="its own"):
        asyncio.run(in_store(slow_vendor))
    assert counted("failed") == before + 1


def test_each_thread_of_the_store_finds_a_connection() -> None:
    assert 2 * POOL == STORE_THREADS  # as many connections as are kept again when it is busy
