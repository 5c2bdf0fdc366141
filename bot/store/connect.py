"""Connecting to the database: embedded SQLite in WAL mode, or PostgreSQL; and bringing its tables
up to date."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import make_url

from faultline.bot.runtime.threads import STORE_THREADS
from faultline.bot.store.waits import PATIENT, USUAL, Waits, bounded_address

POOL = STORE_THREADS // 2
"""Connections that a process keeps, and as many more when it is busy, so that each thread of
`in_store` finds one: each statement takes some milliseconds, so these carry hundreds a second, and
PostgreSQL takes a hundred connections in all unless told otherwise."""
POOL_TIMEOUT_S = 5
WAL_LIMIT_BYTES = 64 * 2**20
"""SQLite cuts its log to this once it is written into the database."""
LOCK_WITHIN_S = 30.0
CHECKPOINT_PAGES = 8_000
"""32 MB, where no web process makes checkpoints beside its commits
(`faultline.bot.store.checkpoints`)."""
LOOK_EVERY_S = 0.002
"""How often SQLite's lock is looked for: a transaction takes about as long."""
MIGRATIONS = Path(__file__).parent / "migrations"


def connect(url: str, waits: Waits = USUAL) -> Engine:
    """An engine for `sqlite:///file` or `postgresql://...`; on PostgreSQL every wait has an end."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(url)
    from faultline.bot.store.bounded_connections import bound  # late: it loads the driver

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
    from faultline.bot.store.versions import (
        upgrade,  # late: only the process that migrates pays for it
    )

    if engine.dialect.name == "sqlite":
        upgrade(engine)
        return
    patient = connect(engine.url.render_as_string(hide_password=False), PATIENT)
    try:
        upgrade(patient)
    finally:
        patient.dispose()


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": LOCK_WITHIN_S})

    @event.listens_for(engine, "connect")
    def _wal(connection: sqlite3.Connection, _record: Any) -> None:
        # The driver must begin no transaction by itself: `_lock` does.
        connection.isolation_level = None
        cursor = connection.cursor()
        # Only before the first table: later it takes the lock, and changes nothing without VACUUM.
        if cursor.execute("PRAGMA page_count").fetchone() == (0,):
            cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
        # An acknowledged alert must survive a loss of power, which NORMAL does not promise.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
        cursor.execute("PRAGMA foreign_keys=ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _take_lock_first(connection: Connection) -> None:
        if connection.get_execution_options().get("reads_only", False):
            connection.exec_driver_sql("BEGIN")
        else:
            _lock(connection)

    return engine


def _lock(connection: Connection) -> None:
    """Begin with SQLite's one lock for writing. Raises OperationalError after LOCK_WITHIN_S.

    SQLite itself looks for the lock ever more seldom, at last each 100 ms, so that a process that
    has waited for long meets another that has just come.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    until = time.monotonic() + LOCK_WITHIN_S
    driver.execute("PRAGMA busy_timeout=0")
    try:
        while True:
            try:
                driver.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.Error as error:
                # The low byte of an extended code, such as SQLITE_BUSY_SNAPSHOT, is its primary.
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                if code != sqlite3.SQLITE_BUSY or time.monotonic() >= until:
                    break
            time.sleep(LOOK_EVERY_S)
        # What it raises is SQLAlchemy's error, as everybody expects.
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    finally:
        driver.execute(f"PRAGMA busy_timeout={LOCK_WITHIN_S * 1000:.0f}")
