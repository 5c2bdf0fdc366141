"""The server keeps one worker alive, and ends it with itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bot.processes import supervisor
from bot.processes.supervisor import Supervisor
from bot.processes.worker_process import ForkedWorker

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
    tmp_path: Path, *, stubborn: bool = False, first: ForkedWorker | None = None
) -> Supervisor:
    one = Supervisor(None, first=first)
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
    monkeypatch.setattr(supervisor, "MARGIN_S", 0.2)
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


def forked(tmp_path: Path) -> ForkedWorker:
    """The same worker as a fork; its first line is what it was told of its server."""

    def work(server: int, ready: int) -> None:
        with (tmp_path / "log").open("a") as file:
            file.write(f"{os.getpid()}\n")
        assert server == os.getppid()
        os.write(ready, b"1")
        time.sleep(600)

    return ForkedWorker(work)


def test_the_first_worker_is_a_fork_and_the_next_one_a_program(tmp_path: Path) -> None:
    one = supervised(tmp_path, first=forked(tmp_path))
    time.sleep(0.2)
    assert workers(tmp_path) == [], "the fork waits until the server is up"
    one.start()
    wait_for(lambda: len(workers(tmp_path)) == 1)
    first = workers(tmp_path)[0]
    assert Path(f"/proc/{first}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: len(workers(tmp_path)) == 2)
    assert (
        Path(f"/proc/{workers(tmp_path)[1]}/cmdline")
        .read_bytes()
        .startswith(os.fsencode(sys.executable) + b"\0-c\0")
    )
    one.stop()
    assert not any(alive(pid) for pid in workers(tmp_path))


def test_a_fork_that_works_ends_with_the_server(tmp_path: Path) -> None:
    one = supervised(tmp_path, first=forked(tmp_path))
    one.start()
    wait_for(lambda: len(workers(tmp_path)) == 1)
    one.stop()
    assert not alive(workers(tmp_path)[0])


def test_a_fork_that_never_works_ends_with_a_server_that_does_not_start(tmp_path: Path) -> None:
    first = forked(tmp_path)
    one = supervised(tmp_path, first=first)
    one.stop()
    assert not alive(first._pid)
    assert workers(tmp_path) == []


def test_a_fork_ends_when_its_server_is_killed_before_it_may_work(tmp_path: Path) -> None:
    script = """
import os, signal
from bot.processes.worker_process import ForkedWorker
first = ForkedWorker(lambda server, ready: None)
print(first._pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True, timeout=120
    )
    wait_for(lambda: not alive(int(ended.stdout)))


def test_an_error_of_a_fork_is_the_end_of_that_process_alone(tmp_path: Path) -> None:
    def broken(_server: int, _ready: int) -> None:
        raise RuntimeError("broken")

    first = ForkedWorker(broken)
    first.begin()
    assert not first.wait(), "it was never ready"


def test_a_fork_that_was_killed_while_it_waited_is_replaced(tmp_path: Path) -> None:
    first = forked(tmp_path)
    os.kill(first._pid, signal.SIGKILL)
    one = supervised(tmp_path, first=first)
    one.start()
    wait_for(lambda: len(workers(tmp_path)) == 1)
    assert workers(tmp_path) != [first._pid]
    one.stop()
