"""Work that a page asks for and that takes seconds: in one process beside the server, one at a
time, within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.runtime.process_pool import ProcessPool

R = TypeVar("R")

DEADLINE_S = 120.0
MAX_WAITING = 8
"""People who may wait for their page. The next one is asked to come back."""


class HeavyWork:
    """Runs functions of a case folder; the process starts with the first."""

    def __init__(self, *, deadline_s: float = DEADLINE_S) -> None:
        self._deadline_s = deadline_s
        self._pool: ProcessPool | None = None
        self._waiting = 0

    async def run(self, function: Callable[[Path], R], folder: Path) -> R:
        """`function(folder)`. Raises BudgetExceeded when it takes too long, or too many wait
        already."""
        if self._waiting >= MAX_WAITING:
            raise BudgetExceeded("waiting", f"{MAX_WAITING} others; try again in a minute")
        self._pool = self._pool or ProcessPool(deadline_s=self._deadline_s, workers=1)
        self._waiting += 1
        try:
            return await self._pool.run(function, folder)
        except asyncio.CancelledError:  # the server ends: its exit would wait for the process
            if self._waiting == 1:
                self.close()
            raise
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None
