"""The pool of analysis processes: the case at fault fails, with its own reason, and no other."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import pytest

from analysis.errors import BudgetExceeded, ConnectorError, EvidenceError
from bot.investigation.analyzing import AnalysisPool


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
    pool = AnalysisPool(workers=1, memory_bytes=1_000_000_000)
    first, second = asyncio.run(_gather(pool, tmp_path, greedy, usual))
    pool.close()
    assert isinstance(first, MemoryError)
    assert second == "analysed"


def test_a_case_that_cannot_be_read_keeps_its_reason(tmp_path: Path) -> None:
    pool = AnalysisPool(workers=1)
    outcome = asyncio.run(_gather(pool, tmp_path, unreadable))
    pool.close()
    assert [str(o) for o in outcome] == ["metrics.csv, row 3: is broken"]


def test_a_killed_process_fails_its_own_case_only(tmp_path: Path) -> None:
    pool = AnalysisPool(workers=2)
    first, *others = asyncio.run(_gather(pool, tmp_path, killed, usual, usual))
    pool.close()
    assert isinstance(first, BudgetExceeded)
    assert others == ["analysed", "analysed"]


def test_a_case_that_takes_too_long_fails_alone(tmp_path: Path) -> None:
    pool = AnalysisPool(workers=1, deadline_s=8.0)
    first, *others = asyncio.run(_gather(pool, tmp_path, endless, usual, usual))
    pool.close()
    assert isinstance(first, BudgetExceeded)
    assert others == ["analysed", "analysed"]


def test_waiting_behind_other_cases_is_no_fault(tmp_path: Path) -> None:
    pool = AnalysisPool(workers=1, deadline_s=8.0)
    outcome = asyncio.run(_gather(pool, tmp_path, *[usual] * 10))
    pool.close()
    assert outcome == ["analysed"] * 10


CLOSED = """
import asyncio, os, sys, time
from bot.investigation.analyzing import AnalysisPool

async def story():
    pool = AnalysisPool(workers=2)
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


async def _gather(pool: AnalysisPool, folder: Path, *functions: object) -> list[object]:
    return await asyncio.gather(*(pool.run(f, folder) for f in functions), return_exceptions=True)  # type: ignore[arg-type]
