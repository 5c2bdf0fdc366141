"""Whether a web process should be sent requests: its store answers, its tables are there, it is not
about to stop."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Callable
from types import FrameType

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from bot.runtime.threads import in_store
from bot.store.models import InvestigationRow
from bot.store.store import Store
from bot.store.versions import current_version, known_versions

log = logging.getLogger("faultline.server")

DEADLINE_S = 2.0


class Readiness:
    """Asked by `/readyz`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known = [version.number for version in known_versions()]
        self.stopping = False

    def stop(self) -> None:
        """From now on nothing should be sent here."""
        self.stopping = True

    async def problem(self) -> str | None:
        """Why nothing should be sent here, in words that anybody may read; None where all is
        well."""
        if self.stopping:
            return "stopping"
        try:
            async with asyncio.timeout(DEADLINE_S):
                return await in_store(self._problem_of_store)
        except (SQLAlchemyError, OSError, TimeoutError):
            return "the store does not answer"

    def _problem_of_store(self) -> str | None:
        with self._store.engine.execution_options(reads_only=True).connect() as connection:
            # Our own name.
            connection.exec_driver_sql(f"SELECT 1 FROM {InvestigationRow.__tablename__} LIMIT 1")  # noqa: S608
            current = current_version(connection)
        # tables of a version unknown here were made by a newer release, beside which this one still
        # works
        behind = current is None or (current in self._known and current != self._known[-1])
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
            super().handle_exit(sig, frame)
            return
        self._draining = threading.Timer(self._drain_s, super().handle_exit, args=(sig, frame))
        self._draining.daemon = True
        self._draining.start()
