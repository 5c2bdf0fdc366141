"""Analyze and rank, in processes of their own so that a heavy case never delays another's first message."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TypeVar

from analysis.case_folder import read_case, read_diagnosis
from analysis.errors import BudgetExceeded
from analysis.vocabulary import Diagnosis
from bot.supervisor import die_with_parent

R = TypeVar("R")

ANALYSIS_DEADLINE_S = 300.0
"""A case is analysed in seconds; minutes mean that something is wrong with it."""


class AnalysisPool:
    """Fresh processes, one per core, that die with this one; replaced when one of them was killed or ran too long."""

    def __init__(self, *, deadline_s: float = ANALYSIS_DEADLINE_S, workers: int | None = None) -> None:
        self._deadline_s = deadline_s
        self._workers = workers or os.cpu_count() or 1
        self._pool = self._fresh(self._workers)
        self._slots = asyncio.Semaphore(self._workers)
        self._alone = asyncio.Semaphore(self._workers)

    async def run(self, function: Callable[[Path], R], folder: Path) -> R:
        """`function(folder)` in the pool. Raises BudgetExceeded after the deadline, or when its process was killed.

        The deadline counts from when a process is free: waiting behind others is nobody's fault.

        A killed process breaks the pool for every case in it: each is tried once more in a process of its own, so
        that only the case at fault fails.
        """
        async with self._slots:
            pool = self._pool
            try:
                return await self._run_in(pool, function, folder)
            except BrokenProcessPool:
                self._replace(pool)
        async with self._alone:
            pool = self._fresh(1)
            try:
                return await self._run_in(pool, function, folder)
            except BrokenProcessPool:
                raise BudgetExceeded("memory", "an analysis process") from None
            finally:
                self._kill(pool)

    async def _run_in(self, pool: ProcessPoolExecutor, function: Callable[[Path], R], folder: Path) -> R:
        try:
            async with asyncio.timeout(self._deadline_s):
                return await asyncio.get_running_loop().run_in_executor(pool, function, folder)
        except TimeoutError:
            self._replace(pool)
            raise BudgetExceeded("analysis time", f"{self._deadline_s:g} s") from None

    def close(self) -> None:
        """End the processes."""
        self._kill(self._pool)

    def _replace(self, broken: ProcessPoolExecutor) -> None:
        if self._pool is broken:
            self._pool = self._fresh(self._workers)
            self._kill(broken)

    @staticmethod
    def _kill(pool: ProcessPoolExecutor) -> None:
        for process in list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown(wait=False)  # without cancelling: what waits gets BrokenProcessPool, and is tried again

    @staticmethod
    def _fresh(workers: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            max_workers=workers,
            mp_context=multiprocessing.get_context("spawn"),
            initializer=_start_process,
            initargs=(os.getpid(),),
        )


def _start_process(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(parent)


def analyze_case(folder: Path) -> Diagnosis:
    """Diagnose the case in `folder`. Imports late: the pool's processes pay for it, not the web process."""
    from analysis.diagnosis import diagnose

    return diagnose(read_case(folder))


def render_chart(folder: Path) -> bytes | None:
    """The PNG of the decisive signal of a case that has been diagnosed."""
    from bot.replies.charts import decisive_chart

    return decisive_chart(read_case(folder), read_diagnosis(folder))
