"""Which workers are alive, and which are lost.

By the locks that die with them (flock on a file per worker on SQLite, advisory locks on PostgreSQL:
`faultline.bot.queue.executor_locks`). On PostgreSQL also by their signs of life: a server may keep
the session, and so the lock, of a host that is gone.
"""

from __future__ import annotations

import fcntl
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Connection, inspect, text

from faultline.bot.operating.check_results import lasting
from faultline.bot.queue.advisory_locks import LOCK_SPACE, LOST_AFTER_S

EXECUTOR_LOCKS = (
    "SELECT l.objid::bigint AS lock, host(a.client_addr) AS host FROM pg_locks l"
    " JOIN pg_stat_activity a ON a.pid = l.pid"
    " WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2 AND l.classid = :space"
    " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
"""Locks of two keys: the first is `classid`, the second `objid`
(https://www.postgresql.org/docs/current/view-pg-locks.html)."""
SILENT = (
    "SELECT id, host, role, extract(epoch FROM clock_timestamp() - beat_at)::float AS silent_s"
    " FROM executors WHERE beat_at < clock_timestamp() - make_interval(secs => :silent)"
)


@dataclass(frozen=True)
class LostWorker:
    """A worker without a sign of life for more than `LOST_AFTER_S`. `declared`: another worker has
    declared it lost, to take its work over."""

    name: str
    host: str
    silent: timedelta
    declared: bool

    @property
    def who(self) -> str:
        """In words."""
        return f"worker {self.host}/{self.name}"

    @property
    def summary(self) -> str:
        """What is wrong with it, in words."""
        return f"{self.who} has not answered for {lasting(self.silent)}"


@dataclass(frozen=True)
class Executors:
    """The living. `names` where their names can be read; `locks` where only their locks' numbers
    can."""

    names: frozenset[str] = frozenset()
    locks: frozenset[int] = frozenset()
    hosts: frozenset[str] = frozenset()
    """Addresses that they reach the database from; empty where that is a socket file."""
    lost: Mapping[str, LostWorker] = field(default_factory=dict)
    """By name; processes that died long ago are among them."""

    @property
    def count(self) -> int:
        """How many."""
        return len(self.names) + len(self.locks)

    def lives(self, name: str) -> bool:
        """Whether this one does."""
        return name in self.names or lock_number(name) in self.locks

    def why_dead(self, name: str) -> str:
        """In words, of one that does not live."""
        lost = self.lost.get(name)
        return lost.summary if lost else f"worker {name} died"


def living_by_files(directory: Path) -> Executors:
    """Of workers that share a directory of lock files."""
    files = sorted(directory.glob("*.lock")) if directory.is_dir() else []
    return Executors(names=frozenset(file.stem for file in files if _is_locked(file)))


def living_by_database(connection: Connection) -> Executors:
    """Of workers on one PostgreSQL."""
    lost = _lost(connection)
    # A lost worker's session, and so its lock, may outlive its host.
    not_theirs = {lock_number(name) for name in lost}
    lock_rows = connection.execute(text(EXECUTOR_LOCKS), {"space": LOCK_SPACE}).all()
    rows = [row for row in lock_rows if int(row.lock) not in not_theirs]
    return Executors(
        locks=frozenset(int(row.lock) for row in rows),
        hosts=frozenset(row.host for row in rows if row.host),
        lost=lost,
    )


def _lost(connection: Connection) -> dict[str, LostWorker]:
    if not inspect(connection).has_table("executors"):  # tables of an earlier version
        return {}
    rows = connection.execute(text(SILENT), {"silent": LOST_AFTER_S})
    return {
        row.id: LostWorker(row.id, row.host, timedelta(seconds=row.silent_s), row.role == "lost")
        for row in rows
    }


def lock_number(executor: str) -> int:
    """The second key of its advisory lock, as PostgreSQL lists it: without a sign."""
    return (zlib.crc32(executor.encode()) - 2**31) & 0xFFFFFFFF


def _is_locked(file: Path) -> bool:
    try:
        with file.open("rb") as opened:
            # A shared lock, so that two looks at once do not take each other for a worker.
            fcntl.flock(opened, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # it went while we looked
        return False
    return False
