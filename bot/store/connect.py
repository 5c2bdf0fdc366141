"""Connecting to the database: embedded SQLite in WAL mode, or PostgreSQL; and bringing its tables
up to date."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url

from bot.runtime.threads import STORE_THREADS
from bot.store.waits import PATIENT, USUAL, Waits, bound, bounded_address

POOL = STORE_THREADS // 2
"""Connections that a process keeps, and as many more when it is busy, so that each thread of
`in_store` finds one: each statement takes some milliseconds, so these carry hundreds a second, and
PostgreSQL takes a hundred connections in all unless told otherwise."""
POOL_TIMEOUT_S = 5
WAL_KEPT_BYTES = 64 * 2**20
"""SQLite cuts its log to this once it is written into the database."""
MIGRATIONS = Path(__file__).parent / "migrations"


def connect(url: str, waits: Waits = USUAL) -> Engine:
    """An engine for `sqlite:///file` or `postgresql://...`; on PostgreSQL every wait has an end."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(url)
    engine = create_engine(
        bounded_address(parsed),
        pool_size=POOL,
        max_overflow=POOL,
        pool_timeout=POOL_TIMEOUT_S,
        pool_pre_ping=True,
    )
    bound(engine, waits)
    return engine


def migrate(engine: Engine) -> None:
    """Bring the tables to the newest version; safe when several processes start at once.

    Raises FaultlineError where a newer release made them.
    """
    from bot.store.versions import upgrade  # late: only the process that migrates pays for it

    if engine.dialect.name == "sqlite":
        upgrade(engine)
        return
    patient = connect(engine.url.render_as_string(hide_password=False), PATIENT)
    try:
        upgrade(patient)
    finally:
        patient.dispose()


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": 30})

    @event.listens_for(engine, "connect")
    def _wal(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        # Only before the first table: later it takes the lock, and changes nothing without VACUUM.
        if cursor.execute("PRAGMA page_count").fetchone() == (0,):
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA journal_size_limit={WAL_KEPT_BYTES}")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _take_lock_first(connection: Connection) -> None:
        reads_only = connection.get_execution_options().get("reads_only", False)
        connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")

    return engine
