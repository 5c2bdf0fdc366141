"""The server keeps one worker alive, and ends it with itself."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from faultline.bot.processes import launch
from faultline.bot.processes.launch import ForkedWorker, Supervisor, WorkerProcess
from faultline.bot.runtime.nursery import Nursery

WORKER = """
import os, signal, sys, time
log, ready, stubborn = sys.argv[1:4]
if stubborn == "yes":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with open(log, "a") as file:
    file.write(f"{os.getpid()}\\n")
os.write(int(sys.argv[-1]), b"1")
time.sleep(600)
"""


def supervised(
    tmp_path: Path, *, stubborn: bool = False, fork: Callable[[], WorkerProcess] | None = None
) -> Supervisor:
    one = Supervisor(None, fork=fork)
    arguments = [str(tmp_path / "log"), "ready", "yes" if stubborn else "no"]
    one._command = [sys.executable, "-c", WORKER, *arguments]
    return one


def workers(tmp_path: Path) -> list[int]:
    log = tmp_path / "log"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_worker_that_dies_is_started_again_and_ends_with_the_server(tmp_path: Path) -> None:
    one = supervised(tmp_path)
    one.start()
    wait_for(lambda: len(workers(tmp_path)) == 1)
    os.kill(workers(tmp_path)[0], signal.SIGKILL)
    wait_for(lambda: len(workers(tmp_path)) == 2)
    one.stop()
    assert not any(alive(pid) for pid in workers(tmp_path))
    time.sleep(0.3)
    assert len(workers(tmp_path)) == 2, "none is started after the stop"


def test_a_worker_that_does_not_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "MARGIN_S", 0.2)
    one = supervised(tmp_path, stubborn=True)
    one.start()
    wait_for(lambda: len(workers(tmp_path)) == 1)
    one.stop()
    assert not alive(workers(tmp_path)[0])


def test_one_that_is_stopped_before_its_start_starts_no_worker(tmp_path: Path) -> None:
    one = supervised(tmp_path)
    one.stop()
    one.start()
    one.stop()
    assert workers(tmp_path) == []


def work(log: Path, ready: int) -> None:
    """The same worker as a fork."""
    with log.open("a") as file:
        file.write(f"{os.getpid()}\n")
    os.write(ready, b"1")
    time.sleep(600)


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


def test_every_worker_is_a_fork_as_long_as_there_is_a_nursery(
    tmp_path: Path, nursery: Nursery
) -> None:
    one = supervised(tmp_path, fork=partial(ForkedWorker, nursery.start, work, tmp_path / "log"))
    one.start()
    for number in (1, 2):
        wait_for(lambda number=number: len(workers(tmp_path)) == number)  # type: ignore[misc]
        pid = workers(tmp_path)[-1]
        assert Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: len(workers(tmp_path)) == 3)
    os.kill(nursery.pid, signal.SIGKILL)
    wait_for(lambda: len(workers(tmp_path)) == 4)
    program = Path(f"/proc/{workers(tmp_path)[-1]}/cmdline").read_bytes()
    assert program.startswith(os.fsencode(sys.executable) + b"\0-c\0")
    one.stop()
    wait_for(lambda: not any(alive(pid) for pid in workers(tmp_path)))


def test_a_fork_that_works_ends_with_the_server(tmp_path: Path, nursery: Nursery) -> None:
    one = supervised(tmp_path, fork=partial(ForkedWorker, nursery.start, work, tmp_path / "log"))
    one.start()
    wait_for(lambda: len(workers(tmp_path)) == 1)
    one.stop()
    wait_for(lambda: not alive(workers(tmp_path)[0]))
