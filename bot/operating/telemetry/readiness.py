"""Whether a web process should be sent requests, and whether it should go on: alerts get into the
database, its tables are there, it is not about to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from faultline.bot.intake.moving import IntakeHealth
from faultline.bot.intake.watchdog import Watchdog
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.databases import all_versions, current_version
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow

log = logging.getLogger("faultline.server")

DEADLINE_S = 2.0


class Readiness:
    """Asked by `/readyz` and `/healthz`. Without `intake`, of a process that takes no alerts."""

    def __init__(
        self, store: Store, intake: IntakeHealth | None = None, watchdog: Watchdog | None = None
    ) -> None:
        self._store = store
        self._intake = intake
        self.watchdog = watchdog
        self._versions = [version.number for version in all_versions()]
        self.stopping = False

    def stop(self) -> None:
        """From now on nothing should be sent here."""
        self.stopping = True

    async def problem(self) -> str | None:
        """Why nothing should be sent here, in words that anybody may read; None where all is
        well."""
        if self.stopping:
            return "stopping"
        if self._intake is not None and (problem := self._intake.not_storing()) is not None:
            # A database that is known to hang is not asked: that would take another thread.
            return problem
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await in_store(self._problem_of_store)
        except (SQLAlchemyError, OSError, TimeoutError):
            return "the store does not answer"

    @property
    def intake(self) -> IntakeHealth | None:
        """How alerts get into the database."""
        return self._intake

    async def problem_for_alerts(self) -> str | None:
        """Why no alert should be sent here. While the database is away, the spool takes them: then
        there is nothing better than this process."""
        if self.stopping:
            return "stopping"
        return self._intake.not_taking() if self._intake is not None else await self.problem()

    async def hung(self) -> str | None:
        """Why this process should be started again."""
        problem = self._intake.hung() if self._intake is not None else None
        if problem is not None and self._intake is not None:
            # Where the disk hangs as well, a restart is all the more due.
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(DEADLINE_S):
                    await in_thread(self._intake.note_restart)
        return problem

    def _problem_of_store(self) -> str | None:
        with self._store.engine.execution_options(reads_only=True).connect() as connection:
            # Our own name.
            connection.exec_driver_sql(f"SELECT 1 FROM {InvestigationRow.__tablename__} LIMIT 1")  # noqa: S608
            current = current_version(connection)
        # tables of a version unknown here were made by a newer release, beside which this one still
        # works
        behind = current is None or (current in self._versions and current != self._versions[-1])
        return "the tables are not up to date" if behind else None


class DrainingServer(uvicorn.Server):
    """Told to stop, it first says for a while that it is not ready. Told a second time, it stops at
    once."""

    def __init__(
        self, config: uvicorn.Config, *, drain_s: float, stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._drain_s = drain_s
        self._stopping = stopping
        self._draining: threading.Timer | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called at any moment, as a signal handler."""
        self._stopping()
        if self._drain_s <= 0 or self._draining is not None or sig == signal.SIGINT:
            if self._draining is not None:
                self._draining.cancel()
            super().handle_exit(sig, frame)
            return
        self._draining = threading.Timer(self._drain_s, super().handle_exit, args=(sig, frame))
        self._draining.daemon = True
        self._draining.start()
