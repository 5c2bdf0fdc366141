"""Once, a while after the start: whether each connector's credential can read, and whether it could
also write.

What is wrong goes into the log and onto the health page; the bot works on, for evidence that is
missing is a gap.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from faultline.analysis.errors import BudgetExceeded
from faultline.bot.operating.asking import ask_connectors
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.settings import Settings

if TYPE_CHECKING:
    from faultline.connectors.shared.contract.base import Check

START_S = 10.0
"""A bot that restarts again and again must not ask the vendors each time."""
DEADLINE_S = 120.0
NICER = 10
LOOK_EVERY_S = 0.2
LONGEST_STOP_S = 3.0
"""The process that asks ends within this time."""
WARNING = "warning: "
"""Begins the part of a connector's check about a credential that can do more than read."""

log = logging.getLogger("faultline.credentials")


class Credentials(BackgroundLoop):
    """What the checks said; None until they have. They are made once, `after_s` after the start.

    `look` asks every connector; it blocks, and raises BudgetExceeded soon after its argument is
    set.
    """

    def __init__(
        self, look: Callable[[threading.Event], Sequence[Check]], *, after_s: float = START_S
    ) -> None:
        super().__init__(
            "credentials", every_s=None, first_after_s=after_s, stop_deadline_s=LONGEST_STOP_S
        )
        self._look = look
        self.checks: tuple[Check, ...] | None = None

    def look(self) -> None:
        """Ask, and say in the log what is wrong."""
        self.checks = tuple(self._look(self.stopping))
        for check in self.checks:
            problem = problem_of(check)
            if problem is not None:
                log.warning("%s: %s", check.name, problem)

    def turn(self) -> bool:
        """Look once; the bot works on without what cannot be found out."""
        try:
            self.look()
        except BudgetExceeded as error:
            # A stop ends the look on purpose, so it is not worth a line.
            if not self.stopping.is_set():
                log.warning("credentials were not checked: %s", error)
        return False


def checks_beside(settings: Settings, stopping: threading.Event) -> Sequence[Check]:
    """Check credentials in a subprocess, so that vendor SDK imports neither delay alerts nor stay
    resident. Blocks. Raises BudgetExceeded when the process is killed
    or takes too long, and when the bot stops."""

    async def ask() -> Sequence[Check]:
        pool = ProcessPool(deadline_s=DEADLINE_S, workers=1, niceness=NICER)
        asking = asyncio.create_task(pool.run(ask_connectors, settings))
        try:
            while not (await asyncio.wait({asking}, timeout=LOOK_EVERY_S))[0]:
                # Vendors may take minutes to answer, and the stop must not wait for them.
                if stopping.is_set():
                    raise BudgetExceeded("time", "the bot stops")
            return asking.result()
        finally:
            pool.close()

    return asyncio.run(ask())


def problem_of(check: Check) -> str | None:
    """What somebody should fix, on one line, or None."""
    line = " ".join(check.line.split())
    if not check.ok:
        return line
    _, separator, warning = line.partition(WARNING)
    problems = [*check.unread, warning] if separator else [*check.unread]
    return "; ".join(problems) or None
