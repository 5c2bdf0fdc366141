"""Forks of a process that has everything loaded, made by one that has no threads."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from faultline.bot.runtime import nursery as nurseries
from faultline.bot.runtime.nursery import Nursery, fork_here
from faultline.bot.runtime.process_pool import ProcessPool

PATIENT_S = 60.0


def tell(word: str, answer: int) -> None:
    Connection(answer).send((word, os.getpid(), os.getppid()))


def sleep(answer: int) -> None:
    tell("sleeps", answer)
    time.sleep(600)


def fail(_answer: int) -> None:
    raise ValueError("of its own")


def parent_id(_folder: Path) -> int:
    return os.getppid()


@pytest.fixture
def nursery() -> Iterator[Nursery]:
    one = Nursery()
    yield one
    one.close()


def test_what_it_forks_gets_arguments_and_files_and_is_its_child(nursery: Nursery) -> None:
    ours, theirs = Pipe()
    long = "x" * 1_000_000
    child = nursery.start(tell, long, descriptors=[theirs.fileno()])
    theirs.close()
    assert ours.recv() == (long, child.pid, nursery.pid)
    assert child.join(PATIENT_S)
    with pytest.raises(EOFError):
        ours.recv()


def test_one_that_has_ended_is_waited_for_and_forgotten(nursery: Nursery) -> None:
    ours, theirs = Pipe()
    failed = nursery.start(fail, descriptors=[theirs.fileno()])
    asleep = nursery.start(sleep, descriptors=[theirs.fileno()])
    assert ours.recv()[0] == "sleeps"
    assert failed.join(PATIENT_S)
    assert not asleep.join(0)
    asleep.kill()
    assert asleep.join(PATIENT_S)
    ends = time.monotonic() + PATIENT_S
    while any(Path(f"/proc/{child.pid}").exists() for child in (failed, asleep)):
        assert time.monotonic() < ends
    asleep.kill()


def test_a_signal_to_all_ends_no_nursery(nursery: Nursery) -> None:
    # What it has started once shows that it has come as far as to ignore them.
    mine, its = Pipe()
    nursery.start(tell, "is ready", descriptors=[its.fileno()])
    assert mine.recv()[0] == "is ready"
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(nursery.pid, number)
    ours, theirs = Pipe()
    nursery.start(tell, "is there", descriptors=[theirs.fileno()])
    assert ours.recv()[0] == "is there"


def test_one_that_was_killed_says_so_and_took_its_forks_along() -> None:
    one = Nursery()
    ours, theirs = Pipe()
    asleep = one.start(sleep, descriptors=[theirs.fileno()])
    ours.recv()
    os.kill(one.pid, signal.SIGKILL)
    assert asleep.join(PATIENT_S)
    with pytest.raises(OSError):
        one.start(tell, "nobody", descriptors=[theirs.fileno()])
    one.close()


def test_a_pool_begins_its_processes_there_until_it_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nursery: Nursery
) -> None:
    monkeypatch.setattr(nurseries, "_nursery", nursery)
    pool = ProcessPool(workers=1)

    async def story() -> None:
        assert await pool.run(parent_id, tmp_path) == nursery.pid
        os.kill(nursery.pid, signal.SIGKILL)
        # The process that it left may just live to do one more.
        while (parent := await pool.run(parent_id, tmp_path)) == nursery.pid:
            pass
        assert parent == os.getpid()

    asyncio.run(story())
    pool.close()


def say_whether_loaded(module: str, answer: int) -> None:
    Connection(answer).send(module in sys.modules)


def test_what_a_fork_calls_is_imported_in_the_fork_and_not_in_the_nursery(
    nursery: Nursery,
) -> None:
    # Nothing else here needs it.
    import nturl2path

    ours, theirs = Pipe()
    nursery.start(nturl2path.url2pathname, "//x").join(PATIENT_S)
    nursery.start(say_whether_loaded, nturl2path.__name__, descriptors=[theirs.fileno()])
    assert ours.recv() is False


def test_what_a_later_fork_asked_for_ends_with_it_and_the_nursery_goes_on(nursery: Nursery) -> None:
    ours, theirs = Pipe()
    user = fork_here(ask_and_wait, nursery, theirs)
    asleep = ours.recv()[1]
    user.kill()
    assert user.join(PATIENT_S)
    wait_for_end_of(asleep)
    nursery.start(tell, "is there", descriptors=[theirs.fileno()])
    assert ours.recv()[0] == "is there"


def ask_and_wait(nursery: Nursery, answer: Connection) -> None:
    nursery.start(sleep, descriptors=[answer.fileno()])
    time.sleep(600)


def test_what_it_forks_is_as_nice_as_who_asked(nursery: Nursery) -> None:
    ours, theirs = Pipe()
    fork_here(ask_nicely, nursery, theirs)
    assert [ours.recv() - os.nice(0) for _ in range(2)] == [3, 3]


def ask_nicely(nursery: Nursery, answer: Connection) -> None:
    os.nice(3)
    for loads in (None, load):
        nursery.start(tell_niceness, descriptors=[answer.fileno()], load=loads).join()


def tell_niceness(answer: int) -> None:
    Connection(answer).send(os.nice(0))


LOADED: list[int] = []


def load() -> None:
    if not LOADED:
        LOADED.append(os.getpid())


def tell_loaded(answer: int) -> None:
    Connection(answer).send(LOADED)


def test_what_its_forks_need_is_loaded_once_in_a_copy_of_it() -> None:
    one = Nursery()
    ours, theirs = Pipe()
    asleep = one.start(sleep, descriptors=[theirs.fileno()], load=load)
    _, _, copy = ours.recv()
    for _ in range(2):
        one.start(tell_loaded, descriptors=[theirs.fileno()], load=load)
        assert ours.recv() == [copy]
    # Others are forked while the copy lives, and have nothing loaded.
    one.start(tell_loaded, descriptors=[theirs.fileno()])
    assert ours.recv() == []
    asleep.kill()
    wait_for_end_of(copy)
    one.start(tell_loaded, descriptors=[theirs.fileno()], load=load)
    ((third,),) = [ours.recv()]
    assert third not in (copy, one.pid)
    one.close()
    wait_for_end_of(third)
    assert LOADED == []


def wait_for_end_of(pid: int) -> None:
    ends = time.monotonic() + PATIENT_S
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_copy_that_cannot_load_has_ended(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where a log is set up, it leaves out the words of the error.
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)
    one = Nursery()
    with pytest.raises(OSError):
        one.start(time.sleep, 600, load=broken)
    said, until = "", time.monotonic() + PATIENT_S
    while "ImportError" not in said:
        # The nursery writes why while it ends, which nobody waits for.
        assert time.monotonic() < until
        said += capfd.readouterr().err
        time.sleep(0.01)
    # What needs nothing loaded is forked as before.
    assert one.start(time.sleep, 0).join(PATIENT_S)
    one.close()


def broken() -> None:
    raise ImportError


KILLED = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
from faultline.bot.runtime.nursery import open_nursery
print(open_nursery().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_ends_when_its_process_is_killed() -> None:
    ended = subprocess.run([sys.executable, "-c", KILLED], check=False, stdout=subprocess.PIPE)
    ends = time.monotonic() + PATIENT_S
    while Path(f"/proc/{int(ended.stdout)}").exists():
        assert time.monotonic() < ends
