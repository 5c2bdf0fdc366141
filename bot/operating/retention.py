"""Retention in the worker: a sweep from time to time, in a separate thread, by one worker of all
at once."""

from __future__ import annotations

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from sqlalchemy import text

from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.free_pages import give_back
from faultline.bot.operating.sweep import Sweep
from faultline.bot.queue.engine_database import ENGINE_ERRORS, system_engine
from faultline.bot.runtime.background_loop import BackgroundLoop
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connections import PATIENT, connect
from faultline.bot.store.databases import engine_url, store_url
from faultline.bot.store.store import Store

SWEEP_LOCK = 0x73776570
"""PostgreSQL advisory lock of the one that sweeps."""
LOCK_FILE = "retention.lock"
FIRST_AFTER_S = 120.0
"""Starting has better things to do."""

log = logging.getLogger("faultline.retention")


class Retention(BackgroundLoop):
    """Sweeps every `retention.sweep_minutes`."""

    expected_errors = ENGINE_ERRORS

    def __init__(
        self,
        settings: Settings,
        store: Store,
        cases: CaseStore,
        *,
        first_after_s: float = FIRST_AFTER_S,
    ) -> None:
        super().__init__(
            "retention", every_s=settings.retention.sweep_minutes * 60, first_after_s=first_after_s
        )
        self._settings = settings
        self._store = store
        self._cases = cases

    def turn(self) -> bool:
        """One sweep, with a line in the log. A stop ends it after the current batch."""
        deleted = self.sweep()
        if deleted:
            log.info("deleted: %s", ", ".join(f"{n} {what}" for what, n in deleted.items()))
        return False

    def sweep(self) -> dict[str, int]:
        """One sweep, unless another worker is sweeping; returns the counts by kind."""
        with sweep_lock(self._settings, self._store) as mine:
            if not mine:
                return {}
            engine = system_engine(engine_url(self._settings), PATIENT)
            store = Store(connect(store_url(self._settings), PATIENT))
            try:
                rows, now = EngineRows(engine), datetime.now(UTC)
                sweep = Sweep(self._settings, store, self._cases, rows, now, self.stopping.is_set)
                deleted = dict(sweep.run())
                # After the sweep, because only deleting makes pages free.
                for database in (store.engine, engine):
                    give_back(database, self.stopping.is_set)
                return deleted
            finally:
                store.engine.dispose()
                engine.dispose()


@contextmanager
def sweep_lock(settings: Settings, store: Store) -> Iterator[bool]:
    """Yields whether this is the one that sweeps; the lock dies with its holder."""
    if store.engine.dialect.name == "sqlite":
        with (settings.store.directory / LOCK_FILE).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
        return
    with store.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
        mine = bool(
            session.execute(text("SELECT pg_try_advisory_lock(:key)"), {"key": SWEEP_LOCK}).scalar()
        )
        try:
            yield mine
        finally:
            if mine:
                session.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": SWEEP_LOCK})
