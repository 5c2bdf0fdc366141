"""Analyze and rank, in processes of their own so that a heavy case never delays another's first
message."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import resource
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from analysis.case.folder import read_case, read_diagnosis
from analysis.errors import BudgetExceeded
from analysis.vocabulary import Diagnosis
from bot.runtime.process_life import die_with_parent

A = TypeVar("A")
R = TypeVar("R")

ANALYSIS_DEADLINE_S = 300.0
"""A case is analysed in seconds; minutes mean that something is wrong with it."""
START_DEADLINE_S = 120.0
"""A process starts in one second, on a machine that is busy in ten."""
TRIES = 2
"""A process may be killed by what another one did: short memory takes the largest."""


class AnalysisPool:
    """Processes that die with this one, one task at a time each; one that was killed or ran too
    long is replaced.

    `memory_bytes` bounds what each process may allocate: a task that needs more gets a MemoryError.
    """

    def __init__(
        self,
        *,
        deadline_s: float = ANALYSIS_DEADLINE_S,
        workers: int | None = None,
        memory_bytes: int | None = None,
        niceness: int = 0,
    ) -> None:
        self._deadline_s = deadline_s
        self._start = (os.getpid(), memory_bytes, niceness)
        count = workers or os.cpu_count() or 1
        self._free = [self._fresh() for _ in range(count)]
        self._processes = set(self._free)
        self._slots = asyncio.Semaphore(count)
        self._closed = False

    async def run(self, function: Callable[[A], R], argument: A) -> R:
        """`function(argument)` in a process. Raises BudgetExceeded after the deadline, or when the
        process was killed at each of TRIES.

        The deadline counts from when a process is ready: waiting behind others is nobody's fault.
        Of a pool that was closed nothing returns: this process ends, and whoever takes its work
        over begins it anew.
        """
        async with self._slots:
            for _ in range(TRIES):
                try:
                    if not self._closed:
                        return await self._run_once(function, argument)
                except RuntimeError as error:
                    if not isinstance(error, BrokenProcessPool) and not self._closed:
                        raise
                if self._closed:
                    await asyncio.Event().wait()
            raise BudgetExceeded("memory", "an analysis process")

    async def _run_once(self, function: Callable[[A], R], argument: A) -> R:
        process = self._free.pop()  # the one used last: the others need not even be started
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(START_DEADLINE_S):
                await loop.run_in_executor(process, os.getpid)
            async with asyncio.timeout(self._deadline_s):
                return await loop.run_in_executor(process, function, argument)
        except TimeoutError:
            process = self._replaced(process)
            raise BudgetExceeded("analysis time", f"{self._deadline_s:g} s") from None
        except (BrokenProcessPool, asyncio.CancelledError):
            process = self._replaced(process)
            raise
        finally:
            self._free.append(process)

    def close(self) -> None:
        """End the processes, and wait until they gave their semaphores back: that takes some
        milliseconds."""
        self._closed = True
        for process in list(self._processes):
            self._kill(process, wait=True)
        gc.collect()

    def _replaced(self, process: ProcessPoolExecutor) -> ProcessPoolExecutor:
        if self._closed:
            return process
        self._kill(process)
        self._processes.discard(process)
        fresh = self._fresh()
        self._processes.add(fresh)
        return fresh

    @staticmethod
    def _kill(pool: ProcessPoolExecutor, *, wait: bool = False) -> None:
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=wait)

    def _fresh(self) -> ProcessPoolExecutor:
        """Its process starts with the first task."""
        return ProcessPoolExecutor(
            max_workers=1,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_process,
            initargs=self._start,
        )


def _start_process(parent: int, memory_bytes: int | None, niceness: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)
    os.nice(niceness)
    if memory_bytes is not None:
        resource.setrlimit(
            resource.RLIMIT_DATA, (memory_bytes, memory_bytes)
        )  # getrlimit(2): private memory, Linux 4.7


def analyze_case(folder: Path) -> Diagnosis:
    """Diagnose the case in `folder`. Imports late: the pool's processes pay for it, not the web
    process."""
    from analysis.diagnosis import diagnose

    return diagnose(read_case(folder))


def render_chart(folder: Path) -> bytes | None:
    """The PNG of the decisive signal of a case that has been diagnosed."""
    from bot.answer.charts import decisive_chart

    return decisive_chart(read_case(folder), read_diagnosis(folder))
