"""Which workers are alive, by the locks that die with them.

`bot.queue.engine` says what the locks are: flock on a file per worker (SQLite), or PostgreSQL
advisory locks.
"""

from __future__ import annotations

import fcntl
import zlib
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, text

from bot.queue.engine import LOCK_SPACE

HELD = (
    "SELECT l.objid::bigint AS lock, host(a.client_addr) AS host FROM pg_locks l"
    " JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = :space"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Locks of two keys: the first is `classid`, the second `objid`
(https://www.postgresql.org/docs/current/view-pg-locks.html)."""


@dataclass(frozen=True)
class Executors:
    """The living. `names` where their names can be read; `locks` where only their locks' numbers
    can."""

    names: frozenset[str] = frozenset()
    locks: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    """Addresses that they reach the database from; empty where that is a socket file."""

    @property
    def count(self) -> int:
        """How many."""
        return len(self.names) + len(self.locks)

    def lives(self, name: str) -> bool:
        """Whether this one does."""
        return name in self.names or lock_number(name) in self.locks


def living_by_files(directory: Path) -> Executors:
    """Of workers that share a directory of lock files."""
    files = sorted(directory.glob("*.lock")) if directory.is_dir() else []
    return Executors(names=frozenset(file.stem for file in files if _is_held(file)))


def living_by_database(connection: Connection) -> Executors:
    """Of workers on one PostgreSQL."""
    rows = connection.execute(text(HELD), {"space": LOCK_SPACE}).all()
    return Executors(
        locks=frozenset(int(row.lock) for row in rows),
        hosts=frozenset(row.host for row in rows if row.host),
    )


def lock_number(executor: str) -> int:
    """The second key of its advisory lock, as PostgreSQL lists it: without a sign."""
    return (zlib.crc32(executor.encode()) - 2**31) & 0xFFFFFFFF


def _is_held(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it went while we looked
        return False
    return False
