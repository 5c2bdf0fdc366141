"""Retention in the worker: a sweep from time to time, in a separate thread, by one worker of all at
once; and what bounds each table and each directory that the bot writes, so that nothing grows for
ever.

A test walks the tables of the store and of the engine, so a new one needs its line here.
PostgreSQL's autovacuum frees rows for new ones by itself; on SQLite the pages that retention freed
are given back to the disk.
"""

from __future__ import annotations

import fcntl
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import cast

from sqlalchemy import Engine, text

from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.sweep import Sweep
from faultline.bot.queue.engine_database import ENGINE_ERRORS, system_engine
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connections import PATIENT, connect
from faultline.bot.store.databases import engine_url, store_url
from faultline.bot.store.store import Store

SWEPT = {
    "investigations": "retention.investigations_days",
    "deliveries": "retention.deliveries_days",
    "progress": "retention.progress_days",
    "captures": "retention.investigations_days",
    "questions": "retention.conversations_days",
    "quiet_threads": "retention.investigations_days",
    "reported_changes": "retention.changes_days",
    "learned_calls": "retention.calls_days",
    "mutes": "retention.investigations_days",
    "held_alerts": "30 days",
    "visits": "login.audit_days",
    "visitors": "login.audit_days",
    "sessions": "their end",
    "api_tokens": "login.audit_days after their end",
    "asked_requests": "retention.deliveries_days",
    "deploy_checks": "retention.deliveries_days",
    "slack_channels": "no investigation came from there",
    "executors": "7 days",
    "last_times": "30 days",
    "person_acts": "2 days",
    "model_spending": "31 days",
    "workflow_status": "retention.engine_days",
}
"""Tables from which `faultline.bot.operating.sweep` deletes, and by which age or condition."""

FOLLOW = {
    "posts": "investigations",
    "labels": "investigations",
    "remembered": "investigations",
    "remembered_services": "remembered",
    "fleet_hosts": "investigations",
    "grouped_alerts": "investigations",
    "alert_keys": "investigations",
    "further_investigations": "investigations",
    "question_posts": "questions",
    "workflow_input": "workflow_status",
    "workflow_output": "workflow_status",
    "operation_outputs": "workflow_status",
    "notifications": "workflow_status",
    "workflow_events": "workflow_status",
    "workflow_events_history": "workflow_status",
    "streams": "workflow_status",
}
"""Tables whose rows go with those of another one."""

BY_NATURE = {
    "watches": "one row for each name that a [[watch]] ever had",
    "application_versions": "one row for each version of the program",
    "queues": "one row for each queue",
    "workflow_schedules": "one row for each schedule; the bot has none",
}


FREE_SHARE = 0.1
"""This share of all pages stays free for what comes next."""
PAGES_AT_ONCE = 500
"""2 MiB in each transaction, while which alerts wait."""
INCREMENTAL = 2
"""https://www.sqlite.org/pragma.html#pragma_auto_vacuum"""


def give_back(engine: Engine, stop: Callable[[], bool] = lambda: False) -> int:
    """Cut the file in small steps; how many bytes it is shorter. A file that an older release made
    keeps its pages and uses them again."""
    if engine.dialect.name != "sqlite":
        return 0
    pooled = engine.raw_connection()
    try:
        connection = cast(sqlite3.Connection, pooled.driver_connection)
        before = free = _pragma(connection, "freelist_count")
        if _pragma(connection, "auto_vacuum") != INCREMENTAL:
            return 0
        reserve = int(FREE_SHARE * _pragma(connection, "page_count"))
        while free > reserve and not stop():
            pages = min(PAGES_AT_ONCE, free - reserve)
            # `execute` would end after the first page: it steps once where no columns come.
            connection.executescript(f"PRAGMA incremental_vacuum({pages})")
            left = _pragma(connection, "freelist_count")
            # Without progress this would never end.
            if left >= free:
                break
            free = left
        return (before - free) * _pragma(connection, "page_size")
    finally:
        pooled.close()


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


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
