"""The pool of analysis processes: the case at fault fails, with its own reason, and no other."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from faultline.analysis.errors import BudgetExceeded, ConnectorError, EvidenceError
from faultline.analysis.secrets.redaction import Rule, masked, use_rules
from faultline.bot.policy.priority import LOW, URGENT, USUAL
from faultline.bot.runtime import process_pool
from faultline.bot.runtime.process_pool import PrioritySlots, ProcessPool


def unreadable(_folder: Path) -> str:
    raise EvidenceError("metrics.csv", "is broken", "row 3")


def killed(_folder: Path) -> str:
    time.sleep(0.3)
    os._exit(9)


def endless(_folder: Path) -> str:
    time.sleep(60)
    return "never"


def usual(_folder: Path) -> str:
    time.sleep(1.0)
    return "analysed"


def greedy(_folder: Path) -> str:
    return str(len(bytearray(2_000_000_000)))


def test_a_case_that_needs_too_much_memory_is_told_so_and_its_process_lives(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1, memory_bytes=1_000_000_000)
    first, second = asyncio.run(_gather(pool, tmp_path, greedy, usual))
    pool.close()
    assert isinstance(first, MemoryError)
    assert second == "analysed"


def test_a_case_that_cannot_be_read_keeps_its_reason(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1)
    outcome = asyncio.run(_gather(pool, tmp_path, unreadable))
    pool.close()
    assert [str(o) for o in outcome] == ["metrics.csv, row 3: is broken"]


def test_a_killed_process_fails_its_own_case_only(tmp_path: Path) -> None:
    pool = ProcessPool(workers=2)
    first, *others = asyncio.run(_gather(pool, tmp_path, killed, usual, usual))
    pool.close()
    assert isinstance(first, BudgetExceeded)
    assert others == ["analysed", "analysed"]


def test_a_case_that_takes_too_long_fails_alone(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1, deadline_s=8.0)
    first, *others = asyncio.run(_gather(pool, tmp_path, endless, usual, usual))
    pool.close()
    assert isinstance(first, BudgetExceeded)
    assert others == ["analysed", "analysed"]


def test_waiting_behind_other_cases_is_no_fault(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1, deadline_s=8.0)
    outcome = asyncio.run(_gather(pool, tmp_path, *[usual] * 10))
    pool.close()
    assert outcome == ["analysed"] * 10


CLOSED = """
import asyncio, os, sys, time
from faultline.analysis.secrets.redaction import masked, use_rules
from faultline.analysis.secrets.redaction import Rule
from faultline.bot.policy.priority import LOW, URGENT, USUAL
from faultline.bot.runtime.process_pool import PrioritySlots, ProcessPool

async def story():
    pool = ProcessPool(workers=2)
    assert await pool.run(abs, -3) == 3
    tasks = [asyncio.create_task(pool.run(time.sleep, 60)) for _ in range(3)]
    await asyncio.sleep(float(sys.argv[1]))
    await asyncio.to_thread(pool.close)
    await asyncio.sleep(0.3)
    print([task.done() for task in tasks], flush=True)
    os._exit(0)

if __name__ == "__main__":
    asyncio.run(story())
"""


@pytest.mark.parametrize("after_s", ["0", "0.2", "2"])
def test_a_worker_that_ends_calls_no_case_failed_and_leaves_no_semaphore(
    tmp_path: Path, after_s: str
) -> None:
    program = tmp_path / "closed.py"
    program.write_text(CLOSED)
    environ = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run(
        [sys.executable, program, after_s],
        capture_output=True,
        text=True,
        env=environ,
        check=True,
        timeout=120,
    )
    assert (ended.stdout.strip(), ended.stderr) == ("[False, False, False]", "")


def test_errors_survive_a_restart() -> None:
    error = pickle.loads(
        pickle.dumps(ConnectorError("slack", "post", "is away", status=503, retryable=True))
    )
    assert isinstance(error, ConnectorError)
    assert (str(error), error.status, error.retryable) == (
        "slack post: is away (HTTP 503)",
        503,
        True,
    )


def away(_folder: Path) -> str:
    raise ConnectionResetError(104, "Connection reset by peer")


class NeedsTwo(Exception):
    """Packs, and does not unpack."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(first)


def unsendable(folder: Path) -> object:
    if folder.name == "error":
        raise NeedsTwo("one", "two")
    return lambda: folder


def process_id(_folder: Path) -> int:
    return os.getpid()


def test_an_error_of_the_connection_is_the_tasks_own_and_not_the_pipes(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1)
    first, second, third = asyncio.run(_gather(pool, tmp_path, process_id, away, process_id))
    pool.close()
    assert isinstance(second, ConnectionResetError)
    assert "in away" in "".join(second.__notes__)
    assert first == third, "the process lives"


def test_what_cannot_be_sent_back_is_an_error_and_the_process_lives(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1)

    async def story() -> list[object]:
        return [
            *await _gather(pool, tmp_path / "error", unsendable),
            *await _gather(pool, tmp_path, unsendable, usual),
        ]

    error, result, third = asyncio.run(story())
    pool.close()
    assert isinstance(error, RuntimeError)
    assert "NeedsTwo" in str(error)
    assert isinstance(result, RuntimeError)
    assert third == "analysed"


def test_an_idle_process_that_is_killed_is_replaced(tmp_path: Path) -> None:
    pool = ProcessPool(workers=2)

    async def story() -> tuple[int, int]:
        first = await pool.run(process_id, tmp_path)
        os.kill(first, signal.SIGKILL)
        return first, await pool.run(process_id, tmp_path)

    first, second = asyncio.run(story())
    pool.close()
    assert first != second


def test_a_process_is_replaced_after_many_tasks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_pool, "TASKS_PER_PROCESS", 2)
    pool = ProcessPool(workers=1)
    found = asyncio.run(_gather(pool, tmp_path, *[process_id] * 4))
    pool.close()
    assert found[0] == found[1] != found[2] == found[3]


def test_a_process_without_work_ends_and_comes_back_with_work(tmp_path: Path) -> None:
    pool = ProcessPool(workers=2, idle_s=0.2)

    async def story() -> tuple[list[object], object]:
        first = await _gather(pool, tmp_path, process_id, usual)
        await _until_gone(first[0])
        # A task takes longer than a process may be idle, and is not disturbed.
        return first, await pool.run(usual, tmp_path)

    (first, told), later = asyncio.run(story())
    pool.close()
    assert isinstance(first, int)
    assert told == later == "analysed"


async def _until_gone(pid: object) -> None:
    async with asyncio.timeout(60):
        while Path(f"/proc/{pid}").exists():
            await asyncio.sleep(0.01)


def test_work_that_comes_while_a_process_is_ended_is_done(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1, idle_s=0.0)

    async def story() -> list[str]:
        found = []
        for _ in range(5):
            found.append(await pool.run(str, tmp_path))
            await asyncio.sleep(0)
        return found

    assert asyncio.run(story()) == [str(tmp_path)] * 5
    pool.close()


def test_a_caller_that_is_cancelled_ends_its_task(tmp_path: Path) -> None:
    pool = ProcessPool(workers=1)

    async def story() -> str:
        await pool.run(process_id, tmp_path)
        running = asyncio.create_task(pool.run(endless, tmp_path))
        await asyncio.sleep(0.3)
        running.cancel()
        return await pool.run(usual, tmp_path)

    began = time.monotonic()
    assert asyncio.run(story()) == "analysed"
    pool.close()
    assert time.monotonic() - began < 50


async def _gather(pool: ProcessPool, folder: Path, *functions: object) -> list[object]:
    return await asyncio.gather(*(pool.run(f, folder) for f in functions), return_exceptions=True)  # type: ignore[arg-type]


def test_the_most_urgent_gets_the_next_process() -> None:
    order: list[str] = []

    async def work(slots: PrioritySlots, name: str, priority: int) -> None:
        async with slots.slot(priority):
            order.append(name)
            await asyncio.sleep(0.01)

    async def storm() -> None:
        slots = PrioritySlots(1)
        names = [("first", LOW), ("low", LOW), ("usual", USUAL), ("urgent", URGENT), ("late", LOW)]
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work(slots, *one)) for one in names]
            await asyncio.sleep(0.001)
            tasks[1].cancel()
        async with asyncio.timeout(1), slots.slot(USUAL):
            order.append("free again")

    asyncio.run(storm())
    assert order == ["first", "urgent", "usual", "late", "free again"]


def test_the_operators_rules_hold_in_its_processes_too() -> None:
    use_rules([Rule(r"customer-\d+")])
    try:
        pool = ProcessPool(workers=1)
    finally:
        use_rules(())
    shown = asyncio.run(pool.run(masked, "order of customer-4711 failed"))
    pool.close()
    assert shown == "order of [CUSTOM] failed"
