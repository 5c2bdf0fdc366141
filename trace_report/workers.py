"""Several ranks on several cores: a process per file, so that one that is killed or out of memory
fails alone."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Generic, TypeVar

from faultline.analysis.errors import BudgetExceeded, EvidenceError, FaultlineError

T = TypeVar("T")
R = TypeVar("R")
Say = Callable[[str], None]
"""What a task calls to tell what it is doing."""

log = logging.getLogger("faultline.traces")

SMALL_BYTES = 4_000_000
"""Files that together are smaller than this are read in this process: starting others would take
longer."""
BYTES_PER_PACKED_BYTE = 15
"""Traces pack to about a fifteenth (measured: 5 to 40)."""
MEMORY_PER_BYTE = 3
"""Memory that one rank needs at most, per byte of its unpacked trace."""
CGROUP = Path("/sys/fs/cgroup")
MEMORY_SHARE = 0.6
"""Share of the free memory that all ranks together may take."""


@dataclass(frozen=True)
class Task(Generic[T]):
    """One call of the function: its argument, its name for errors, and the bytes of its file on
    disk."""

    argument: T
    name: str
    bytes: int
    packed: bool = False


@dataclass(frozen=True)
class Update(Generic[R]):
    """What happened to task `number`: it says what it does, or it is done, or it failed."""

    number: int
    doing: str = ""
    result: R | None = None
    error: FaultlineError | None = None

    @property
    def done(self) -> bool:
        """Whether the task has ended."""
        return self.result is not None or self.error is not None


def run_tasks(
    function: Callable[[T, Say], R], tasks: Sequence[Task[T]], jobs: int | None
) -> Iterator[Update[R]]:
    """Run all tasks, at most `jobs` at once (default: one per core, less where memory is short)."""
    if len(tasks) <= 1 or jobs == 1 or unpacked_bytes(tasks) < SMALL_BYTES:
        for number, task in enumerate(tasks):
            yield _ended(number, task, function, lambda _: None)
        return
    yield from _Running(function, tasks, jobs or _jobs_that_fit(tasks)).updates()


def run_in_threads(
    function: Callable[[T, Say], R], tasks: Sequence[Task[T]], jobs: int | None
) -> Iterator[Update[R]]:
    """Run all tasks in this process, in their order: for what hands back more than a pipe should
    carry."""
    with ThreadPoolExecutor(min(jobs or _jobs_that_fit(tasks), max(len(tasks), 1))) as pool:
        running = [
            pool.submit(_ended, number, task, function, lambda _: None)
            for number, task in enumerate(tasks)
        ]
        for done in running:
            yield done.result()


def unpacked_bytes(tasks: Sequence[Task[T]]) -> int:
    """About how long the tasks' files are, unpacked."""
    return sum(task.bytes * _expansion(task) for task in tasks)


def _ended(number: int, task: Task[T], function: Callable[[T, Say], R], say: Say) -> Update[R]:
    """The outcome; a rank that breaks its analysis fails alone, and is named."""
    try:
        return Update(number, result=function(task.argument, say))
    except FaultlineError as error:
        return Update(number, error=error)
    except MemoryError:
        return Update(number, error=BudgetExceeded("memory", "this machine"))
    except Exception as error:
        log.debug("%s", task.name, exc_info=True)
        why = f"cannot be analysed ({type(error).__name__}: {error})"
        return Update(number, error=EvidenceError(task.name, why[:300]))


def _expansion(task: Task[T]) -> int:
    return BYTES_PER_PACKED_BYTE if task.packed else 1


def _jobs_that_fit(tasks: Sequence[Task[T]]) -> int:
    largest = max((t.bytes * _expansion(t) for t in tasks), default=0) * MEMORY_PER_BYTE
    fit = int(free_memory() * MEMORY_SHARE // max(largest, 1))
    return max(
        1,
        min(
            len(os.sched_getaffinity(0))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count() or 1,
            fit,
        ),
    )


def free_memory() -> int:
    """Bytes; where the system does not say, as much as the largest job may need."""
    return min(_free_of_machine(), _free_of_container())


def _free_of_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            return next(
                int(line.split()[1]) * 1024 for line in file if line.startswith("MemAvailable")
            )
    except (OSError, StopIteration, ValueError, IndexError):
        return 1 << 40


def _free_of_container() -> int:
    """What a container's limit leaves (cgroup v2). Files that are cached give way, so they do not
    count as used."""
    try:
        limit = (CGROUP / "memory.max").read_text().strip()
        used = dict(line.split() for line in (CGROUP / "memory.stat").read_text().splitlines())
        return max(int(limit) - int(used["anon"]), 0)
    except (OSError, ValueError, KeyError):
        # "max" is no limit.
        return 1 << 40


class _Running(Generic[T, R]):
    def __init__(
        self, function: Callable[[T, Say], R], tasks: Sequence[Task[T]], jobs: int
    ) -> None:
        self._function, self._tasks, self._jobs = function, tasks, jobs
        # A fork of a process with threads may copy a lock that is held.
        alone = threading.active_count() == 1 and "fork" in multiprocessing.get_all_start_methods()
        self._context = multiprocessing.get_context("fork" if alone else "spawn")
        self._open: dict[Connection, tuple[int, BaseProcess]] = {}

    def updates(self) -> Iterator[Update[R]]:
        # The largest file first: `pop` takes from the end.
        waiting = sorted(range(len(self._tasks)), key=lambda n: self._tasks[n].bytes)
        try:
            while waiting or self._open:
                while waiting and len(self._open) < self._jobs:
                    self._start(waiting.pop())
                for pipe in wait(list(self._open)):
                    assert isinstance(pipe, Connection)
                    yield self._received(pipe)
        finally:
            for _, process in self._open.values():
                process.kill()
                process.join()

    def _start(self, number: int) -> None:
        ours, theirs = self._context.Pipe(duplex=False)
        target = (self._function, self._tasks[number], number, theirs)
        process = self._context.Process(target=_work, args=target, daemon=True)  # type: ignore[attr-defined]
        process.start()
        # Close our copy, else the end of the process does not end the pipe.
        theirs.close()
        self._open[ours] = (number, process)

    def _received(self, pipe: Connection) -> Update[R]:
        number, process = self._open[pipe]
        try:
            update: Update[R] = pipe.recv()
        except (EOFError, OSError):
            process.join()
            why = f"its process ended (code {process.exitcode})"
            update = Update(number, error=EvidenceError(self._tasks[number].name, why))
        if update.done:
            del self._open[pipe]
            pipe.close()
            process.join()
        return update


def _work(function: Callable[[T, Say], R], task: Task[T], number: int, pipe: Connection) -> None:
    # Ctrl-C reaches every process: the parent ends its workers itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    pipe.send(_ended(number, task, function, lambda doing: pipe.send(Update(number, doing=doing))))
    pipe.close()
