"""The database of the durable engine: DBOS's own tables, on SQLite (WAL) or PostgreSQL; what its
queues and workflows are called, and the version kept with their work."""

from __future__ import annotations

import sqlite3
from typing import Any

from dbos import DBOS
from dbos import error as dbos_error
from sqlalchemy import Engine, QueuePool, create_engine, event
from sqlalchemy.engine import make_url

from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.store.bounded_connections import bound
from faultline.bot.store.connections import WAL_LIMIT_BYTES, Waits, bounded_address

INVESTIGATIONS = "investigations"
URGENT_INVESTIGATIONS = "investigations-urgent"
WORKFLOW_INVESTIGATE = "investigate"
WORKFLOW_REPLY = "reply"
APPLICATION = "faultline"
APPLICATION_VERSION = "1"
"""Pinned: DBOS's default is a hash of the source, which strands running work at every upgrade.
Raise it only when a change to a workflow's steps makes half-done work of the older version
unreadable."""


def reply_queue(place: str) -> str:
    """The queue of one place's replies: a place that is down keeps no other's waiting."""
    return f"replies-{place}"


POOL = 6
"""Connections of the engine's own that a worker keeps, and as many more when it is busy: one is the
executor's lock, one listens, and the queues, at most eight of them, look in turn."""
POOL_TIMEOUT_S = 10
"""DBOS asks again for a connection that it did not get in time."""
WAITS = Waits(statement_s=40.0, lock_s=0.0, transaction_s=60.0, leave_after_s=20.0)
"""A statement that our side left is one that DBOS makes again on another connection. One that the
server ended would fail its workflow, so the server's limit only ends what nobody waits for."""

ENGINE_ERRORS = (*BackgroundLoop.expected_errors, dbos_error.DBOSException)
"""The expected errors of a loop that speaks with the engine."""


def system_engine(url: str, waits: Waits = WAITS) -> Engine:
    """The SQLAlchemy engine for DBOS's own tables."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        engine = create_engine(
            bounded_address(parsed), pool_size=POOL, max_overflow=POOL, pool_timeout=POOL_TIMEOUT_S
        )
        bound(engine, waits)
        return engine
    # SQLite has one writer at a time, so more connections would only wait for each other's lock.
    engine = create_engine(url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=60)

    @event.listens_for(engine, "connect")
    def _wal(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout=30000")
        # Before the first table only: later, auto_vacuum changes nothing without VACUUM.
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA journal_size_limit={WAL_LIMIT_BYTES}")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


def tables_prefix(engine: Engine) -> str:
    """What stands before the names of the engine's tables."""
    return "" if engine.dialect.name == "sqlite" else "dbos."


def migrate_engine(url: str) -> None:
    """Create or update DBOS's own tables."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        parsed = bounded_address(parsed)
    else:
        # DBOS would make the file so that it never shrinks.
        first = system_engine(url)
        first.connect().close()
        first.dispose()
    DBOS.migrate(parsed.render_as_string(hide_password=False))
