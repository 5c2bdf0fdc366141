"""Connecting to the database: embedded SQLite in WAL mode, or PostgreSQL; bringing its tables up to
date, and its size.

Every wait for PostgreSQL has an end: to connect, for a packet, for a statement, for a lock, and
inside a transaction. A server that is lost without a word (its host or the network between) ends no
statement, so the limits hold on both sides. On ours, the kernel abandons a silent connection, and
`BoundedConnection` leaves a statement without an answer, even where something on the way still
acknowledges packets. On the server's, a client that is lost inside a transaction holds its locks
for some seconds. What an operator says wins: parameters of the address, and `ALTER ROLE` or
`ALTER DATABASE ... SET`.
"""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Engine, create_engine, event, func, inspect, select, table, text
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session

from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.threads import STORE_THREADS

if TYPE_CHECKING:
    from sqlalchemy import URL

NETWORK = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
}
"""Parameters of libpq
(https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS): a host that is
gone is noticed after about 11 s. Seconds, but `tcp_user_timeout` in ms."""
MARGIN_S = 2.0
"""The server ends a statement first, where it can still say so."""


@dataclass(frozen=True)
class Waits:
    """How long a statement may take (`statement_s`), and of that wait for a lock (`lock_s`; 0: for
    all of it), how long a transaction may stand still (`idle_s`) and how long it may take
    (`transaction_s`, from PostgreSQL 17 on; 0: any time). A client that is lost in the middle of a
    message does not count as standing still. `leave_after_s`: when our side leaves a statement
    without an answer, where that is before the server's limit."""

    statement_s: float = 10.0
    lock_s: float = 5.0
    idle_s: float = 10.0
    transaction_s: float = 30.0
    leave_after_s: float | None = None


USUAL = Waits()
"""Statements of the store take milliseconds."""
PATIENT = Waits(statement_s=600.0, lock_s=60.0, idle_s=60.0, transaction_s=0.0)
"""What changes or deletes many rows: migrations and retention."""


def bounded_address(url: URL) -> URL:
    """The address with the limits of the network, where it does not say its own."""
    missing = {key: value for key, value in NETWORK.items() if key not in url.query}
    return url.set(drivername="postgresql+psycopg").update_query_dict(missing)


POOL = STORE_THREADS // 2
"""Connections that a process keeps, and as many more when it is busy, so that each thread of
`in_store` finds one: each statement takes some milliseconds, so these carry hundreds a second, and
PostgreSQL takes a hundred connections in all unless told otherwise."""
POOL_TIMEOUT_S = 5
WAL_LIMIT_BYTES = 64 * 2**20
"""SQLite cuts its log to this once it is written into the database."""
LOCK_WITHIN_S = 30.0
CHECKPOINT_PAGES = 8_000
"""32 MB, where no web process makes checkpoints beside its commits (`Checkpoints`)."""
LOOK_EVERY_S = 0.002
"""How often SQLite's lock is looked for: a transaction takes about as long."""


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


def reading(engine: Engine) -> Session:
    """One that only reads: on SQLite it waits for no writer."""
    return Session(engine.execution_options(reads_only=True), expire_on_commit=False)


def storable(text: str, limit: int) -> str:
    """Text as both databases take it: no NUL, no lone surrogate, and not without end."""
    return text[:limit].replace("\x00", " ").encode("utf-8", "replace").decode()


CHECKPOINT_EVERY_S = 1.0
WORTH_BYTES = 2 * 1024 * 1024
"""Below this a checkpoint costs more than it saves."""


class Checkpoints(BackgroundLoop):
    """Of the store of one web process. Does nothing on PostgreSQL."""

    def __init__(self, engine: Engine, *, every_s: float = CHECKPOINT_EVERY_S) -> None:
        is_sqlite = engine.dialect.name == "sqlite" and engine.url.database
        super().__init__("checkpoints", every_s=every_s if is_sqlite else None)
        self._engine = engine
        self._file = Path(f"{engine.url.database}-wal") if is_sqlite else None
        self._done_at = 0

    def turn(self) -> bool:
        """Look at the file, and move what is worth it. Waits for nobody who reads or writes."""
        if self._file is None:
            return False
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return False
        # The file keeps its size when it is written from its beginning again.
        if stat.st_size < WORTH_BYTES or stat.st_mtime_ns == self._done_at:
            return False
        with self._engine.execution_options(reads_only=True).connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._done_at = stat.st_mtime_ns
        return False


PG_TABLES = """
SELECT c.relname, greatest(c.reltuples, 0)::bigint, pg_total_relation_size(c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'r' AND n.nspname IN (current_schema(), 'dbos')
"""
"""Rows as the last VACUUM or ANALYZE estimated them: counting takes long on large tables
(https://www.postgresql.org/docs/current/catalog-pg-class.html)."""

WORDS_INDEX = "remembered_search"
"""SQLite keeps a full-text index as tables."""


@dataclass(frozen=True)
class TableSize:
    """`bytes` with its indexes; None on SQLite, which would have to read the whole file."""

    name: str
    rows: int
    bytes: int | None


def database_bytes(engine: Engine) -> int:
    """The room on disk, the engine's tables and SQLite's logs included."""
    if engine.dialect.name == "sqlite":
        file = Path(engine.url.database or "")
        # `*.sqlite*` matches the engine's file and the write-ahead logs too.
        return sum(path.stat().st_size for path in file.parent.glob(f"*{file.suffix}*"))
    with engine.connect() as connection:
        requested_text = text("SELECT pg_database_size(current_database())")
        return int(connection.execute(requested_text).scalar_one())


def unused_bytes(engine: Engine) -> int:
    """Freed pages of an SQLite file, which are used again before it grows; 0 for PostgreSQL."""
    if engine.dialect.name != "sqlite":
        return 0
    with engine.execution_options(reads_only=True).connect() as connection:
        free = connection.exec_driver_sql("PRAGMA freelist_count").scalar_one()
        page = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
    return int(free) * int(page)


def table_sizes(engine: Engine) -> list[TableSize]:
    """The tables of one database, the largest first."""
    with engine.execution_options(reads_only=True).connect() as connection:
        if engine.dialect.name != "sqlite":
            sizes = [TableSize(*row) for row in connection.execute(text(PG_TABLES)).tuples()]
            return sorted(sizes, key=lambda size: size.bytes or 0, reverse=True)
        names = [n for n in inspect(connection).get_table_names() if not n.startswith(WORDS_INDEX)]
        counts = [connection.scalar(select(func.count()).select_from(table(n))) for n in names]
    sizes = [TableSize(name, rows or 0, None) for name, rows in zip(names, counts, strict=True)]
    return sorted(sizes, key=lambda size: size.rows, reverse=True)
