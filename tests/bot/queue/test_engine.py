"""The engine: a dead worker's work is taken over, a living one's never."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from bot.queue.engine import AdvisoryLocks, ExecutorLocks, FileLocks, migrate_engine, system_engine

HOLDER = """
import sys, time
from pathlib import Path
from bot.queue.engine import AdvisoryLocks, FileLocks, system_engine
url, directory = sys.argv[1], Path(sys.argv[2])
locks = FileLocks(directory) if url.startswith("sqlite") else AdvisoryLocks(system_engine(url))
locks.hold("worker-a")
print("held", flush=True)
time.sleep(60)
"""

WORKER = """
import asyncio, os, sys, time
from pathlib import Path
from dbos import DBOS
from bot.queue.engine import WORKFLOW_INVESTIGATE, WorkerEngine
url, directory = sys.argv[1], Path(sys.argv[2])
engine = WorkerEngine(url, directory, concurrency=4, polling_interval_s=0.1)

@DBOS.workflow(name=WORKFLOW_INVESTIGATE)
async def work(name):
    async def step(number):
        with (directory / "done.txt").open("a") as log:
            log.write(f"{name} {number}\\n")
        await asyncio.sleep(0.4)
    for number in range(5):
        await DBOS.run_step_async({"name": str(number)}, step, number)

engine.launch(on_lock_lost=lambda: os._exit(70))
for name in sys.argv[3:]:
    engine.enqueue(name)
print("ready", flush=True)
time.sleep(60)
"""


def start(program: str, url: str, directory: Path, *names: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, url, str(directory), *names],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() in {"held", "ready"}
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_a_lock_is_free_only_after_its_holder_died(database_url: str, tmp_path: Path) -> None:
    engine = system_engine(database_url)
    locks: ExecutorLocks = (
        FileLocks(tmp_path) if database_url.startswith("sqlite") else AdvisoryLocks(engine)
    )
    holder = start(HOLDER, database_url, tmp_path)
    with locks.take_if_dead("worker-a") as dead:
        assert not dead
    end(holder)
    time.sleep(0.3)
    with locks.take_if_dead("worker-a") as dead:
        assert dead
    engine.dispose()


def steps_done(directory: Path) -> list[str]:
    file = directory / "done.txt"
    return file.read_text().splitlines() if file.exists() else []


def wait_for_step(directory: Path, number: int) -> list[str]:
    deadline = time.monotonic() + 30
    while True:
        done = steps_done(directory)
        if any(line.endswith(f" {number}") for line in done):
            return done
        assert time.monotonic() < deadline, done
        time.sleep(0.05)


def test_the_next_worker_goes_on_where_a_killed_one_was(database_url: str, tmp_path: Path) -> None:
    migrate_engine(database_url)
    killed = start(WORKER, database_url, tmp_path, "first", "first")
    wait_for_step(tmp_path, 2)
    end(killed)
    survivor = start(WORKER, database_url, tmp_path)
    done = wait_for_step(tmp_path, 4)
    time.sleep(1.0)
    end(survivor)
    numbers = [int(line.split()[1]) for line in done]
    assert numbers in ([0, 1, 2, 3, 4], [0, 1, 2, 2, 3, 4]), (
        "only the step that was interrupted may run twice"
    )


def test_a_living_worker_keeps_its_work_when_another_joins(
    postgres_url: str, tmp_path: Path
) -> None:
    migrate_engine(postgres_url)
    first = start(WORKER, postgres_url, tmp_path, "only")
    wait_for_step(tmp_path, 0)
    second = start(WORKER, postgres_url, tmp_path)
    wait_for_step(tmp_path, 4)
    time.sleep(2.5)
    assert steps_done(tmp_path) == [f"only {n}" for n in range(5)]
    end(first)
    end(second)
