"""Once, a while after the start: whether each connector's credential can read, and whether it could also write.

What is wrong goes into the log and onto the health page; the bot works on, for evidence that is missing is a gap.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence

from connectors.base import Check, Connector

START_S = 10.0
"""A bot that starts again and again shall ask no vendor each time."""
WARNING = "warning: "
"""How a connector's check begins what it says of a credential that can do more than read."""

log = logging.getLogger("faultline.credentials")


class Credentials:
    """What the checks said; None until they have."""

    def __init__(self, connectors: Sequence[Connector]) -> None:
        self._connectors = connectors
        self._stopping = threading.Event()
        self.checks: tuple[Check, ...] | None = None

    def look_later(self, after_s: float = START_S) -> None:
        """Look in a thread of its own."""
        threading.Thread(target=self._wait_and_look, args=(after_s,), name="credentials", daemon=True).start()

    def stop(self) -> None:
        """Do not look any more."""
        self._stopping.set()

    def _wait_and_look(self, after_s: float) -> None:
        if not self._stopping.wait(after_s):
            asyncio.run(self.look())

    async def look(self) -> None:
        """Ask every connector, side by side."""
        from bot.check import bounded  # late: what it loads is needed once, and not for the start

        checks = await asyncio.gather(*(bounded(c.name, c.check) for c in self._connectors))
        self.checks = tuple(checks)
        for check in checks:
            problem = problem_of(check)
            if problem is not None:
                log.warning("%s: %s", check.name, problem)


def problem_of(check: Check) -> str | None:
    """What somebody should do something about, on one line; None where nothing is."""
    line = " ".join(check.line.split())
    if not check.ok:
        return line
    _, found, warning = line.partition(WARNING)
    return warning if found else None
