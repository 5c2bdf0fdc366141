"""Locks by which a worker shows that it lives, and finds out which others are dead.

Every executor holds a lock on its id for as long as it lives. A worker that can take the lock of
another knows that it is dead. On one machine a lock is a locked file. For workers on any machine it
is a session advisory lock of PostgreSQL, with signs of life, because a server may keep the session
of a host that is gone.
"""

from __future__ import annotations

import fcntl
import logging
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.queue.engine_database import ENGINE_ERRORS
from faultline.bot.runtime.components import BackgroundLoop


class ExecutorLocks(Protocol):
    """Locks by executor id that die with their holder."""

    def hold(self, executor_id: str) -> None:
        """Take the lock for the life of this process. Raises FaultlineError when another process
        holds it."""

    def lost(self) -> bool:
        """Whether the lock taken by `hold` is gone."""

    def beat(self) -> bool:
        """Give a sign of life; whether nobody has declared this executor lost."""

    def fence(self, engine: Engine, on_lost: Callable[[], None]) -> None:
        """From now on the engine commits nothing once another has declared this executor lost."""

    def release(self) -> None:
        """Give the lock back: from now on this executor counts as dead."""

    def take_if_dead(self, executor_id: str) -> AbstractContextManager[bool]:
        """Yields whether the executor is dead; its lock is held inside the block."""

    def exclusive(self, lock: str) -> AbstractContextManager[bool]:
        """Yields whether nobody else does this duty just now; nobody else does inside the block."""

    def live_executors(self) -> int:
        """How many executors hold their lock."""


class FileLocks:
    """flock on a file per executor, for workers that share a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock_file: IO[str] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, executor_id: str) -> None:
        """Keep the file open and locked. Waits for a peer that looks at it just now."""
        # The open file is the lock: the kernel releases it however the process dies.
        self._lock_file = (self._directory / f"{executor_id}.lock").open("w")
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)

    def lost(self) -> bool:
        """A file lock is lost only with the process."""
        return False

    def beat(self) -> bool:
        """Not needed: the lock's host is the machine itself."""
        return True

    def fence(self, engine: Engine, on_lost: Callable[[], None]) -> None:
        """Not needed: nobody takes the lock of a process that lives."""

    def release(self) -> None:
        """Close the file."""
        if self._lock_file is not None:
            self._lock_file.close()

    @contextmanager
    def take_if_dead(self, executor_id: str) -> Iterator[bool]:
        """Try the lock without waiting."""
        path = self._directory / f"{executor_id}.lock"
        with path.open("a") as file:
            if not _locked(file, fcntl.LOCK_EX):
                yield False
                return
            yield True
            path.unlink(missing_ok=True)

    @contextmanager
    def exclusive(self, lock: str) -> Iterator[bool]:
        """A lock on a file that stays."""
        with (self._directory / f"{lock}.duty").open("a") as file:
            yield _locked(file, fcntl.LOCK_EX)

    def live_executors(self) -> int:
        """How many files are locked."""
        live_executors = 0
        for path in self._directory.glob("*.lock"):
            with suppress(FileNotFoundError), path.open("r") as file:
                # A shared lock: two processes that count at once do not see each other's.
                live_executors += not _locked(file, fcntl.LOCK_SH)
        return live_executors


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


LOCK_SPACE = 0x6661756C
"""First key of our PostgreSQL advisory locks, apart from those of other users of the database."""
DUTY_SPACE = LOCK_SPACE + 1
"""First key of the locks of duties that one worker does at a time."""
BEAT_EVERY_S = 5.0
LOST_AFTER_S = 30.0
"""Six signs of life that did not come."""
BEGIN_BEATS = (
    "INSERT INTO executors (id, epoch, host, role, beat_at)"
    " VALUES (:id, 1, :host, 'worker', clock_timestamp())"
    " ON CONFLICT (id) DO UPDATE SET epoch = executors.epoch + 1, host = excluded.host,"
    " beat_at = excluded.beat_at RETURNING epoch"
)
BEAT = "UPDATE executors SET beat_at = clock_timestamp() WHERE id = :id AND epoch = :epoch"
FORGET_BEATS = "DELETE FROM executors WHERE beat_at < clock_timestamp() - interval '7 days'"
LOST = "SELECT id FROM executors WHERE beat_at < clock_timestamp() - make_interval(secs => :silent)"
FENCE = (
    "WITH silent AS (SELECT id FROM executors WHERE id = :id AND role <> 'lost'"
    " AND beat_at < clock_timestamp() - make_interval(secs => :silent) FOR UPDATE)"
    " UPDATE executors SET epoch = epoch + 1, role = 'lost' FROM silent"
    " WHERE executors.id = silent.id"
)
"""FOR UPDATE waits for the transactions that have checked their epoch and not yet ended."""
CURRENT = "SELECT 1 FROM executors WHERE id = :id AND epoch = :epoch FOR KEY SHARE"
"""Held to the transaction's end, against `FENCE` but not against `BEAT`
(https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS)."""
# pg_locks lists the locks of all databases of the server, hence the condition on `database`.
EXECUTOR_LOCKS = (
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = :space"
    " AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
END_SESSION = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    " AND classid = :space AND granted AND objid::bigint = :key"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)

log = logging.getLogger("faultline.engine")


class AdvisoryLocks:
    """PostgreSQL session advisory locks, for workers on any machine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: Connection | None = None
        self._id = ""
        self._epoch = 0

    def hold(self, executor_id: str) -> None:
        """Lock in a separate session, kept open, and begin to give signs of life."""
        # AUTOCOMMIT: the session stays open for hours, and the server ends idle transactions.
        self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not _advisory(self._session, "pg_try_advisory_lock", executor_id):
            raise FaultlineError(f"executor {executor_id} is running already")
        self._id = executor_id
        parameters = {"id": executor_id, "host": socket.gethostname()}
        self._epoch = int(self._session.execute(text(BEGIN_BEATS), parameters).scalar_one())
        self._session.execute(text(FORGET_BEATS))

    def beat(self) -> bool:
        """Give a sign of life; whether nobody has declared this executor lost."""
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
            parameters = {"id": self._id, "epoch": self._epoch}
            return session.execute(text(BEAT), parameters).rowcount == 1

    def lost(self) -> bool:
        """Whether the session has gone, and the lock with it."""
        try:
            assert self._session is not None
            self._session.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return True
        return False

    def fence(self, engine: Engine, on_lost: Callable[[], None]) -> None:
        """Check the epoch at the end of each transaction of that engine. One that comes too late
        calls `on_lost`, and raises FaultlineError where that returns."""

        @event.listens_for(engine, "commit")
        def _check(connection: Connection) -> None:
            if not self._epoch:
                return
            parameters = {"id": self._id, "epoch": self._epoch}
            if connection.execute(text(CURRENT), parameters).first() is None:
                on_lost()
                raise FaultlineError(f"{self._id} was declared lost: it writes nothing any more")

    def release(self) -> None:
        """Unlock, and close the session."""
        if self._session is not None:
            with suppress(SQLAlchemyError):
                self._session.execute(
                    text("DELETE FROM executors WHERE id = :id"), {"id": self._id}
                )
                self._session.execute(text("SELECT pg_advisory_unlock_all()"))
            self._session.close()

    @contextmanager
    def take_if_dead(self, executor_id: str) -> Iterator[bool]:
        """Try the lock in a separate session; a silent holder is declared lost and its session
        ended first."""
        self._declare_lost(executor_id)
        with self._trying(executor_id, LOCK_SPACE) as dead:
            yield dead

    @contextmanager
    def exclusive(self, lock: str) -> Iterator[bool]:
        """Try the duty's lock in a separate session."""
        with self._trying(lock, DUTY_SPACE) as mine:
            yield mine

    def live_executors(self) -> int:
        """How many locks of executors are held in this database."""
        with self._engine.connect() as session:
            execute = set(session.execute(text(EXECUTOR_LOCKS), {"space": LOCK_SPACE}).scalars())
            lost = set(session.execute(text(LOST), {"silent": LOST_AFTER_S}).scalars())
        # objid is an unsigned oid, while the keys that we lock are signed.
        return len(execute - {_lock_number(executor_id) & 0xFFFFFFFF for executor_id in lost})

    def _declare_lost(self, executor_id: str) -> None:
        """Where a holder is silent: fence it off, and end its session, which the server may keep
        for hours after its host is gone."""
        key = _lock_number(executor_id) & 0xFFFFFFFF
        with self._engine.begin() as session:
            parameters = {"id": executor_id, "silent": LOST_AFTER_S}
            if session.execute(text(FENCE), parameters).rowcount:
                log.warning("%s is lost: no sign of life for %g s", executor_id, LOST_AFTER_S)
            # Ask again, whoever fenced it: the server may still keep the session with its lock.
            lost = session.execute(text(f"{LOST} AND id = :id"), parameters).scalar()
        if lost is None:
            return
        # A role without the right to end sessions still has the fence.
        with (
            suppress(SQLAlchemyError),
            self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session,
        ):
            session.execute(text(END_SESSION), {"space": LOCK_SPACE, "key": key})

    @contextmanager
    def _trying(self, name: str, space: int) -> Iterator[bool]:
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
            mine = _advisory(session, "pg_try_advisory_lock", name, space)
            try:
                yield mine
            finally:
                if mine:
                    _advisory(session, "pg_advisory_unlock", name, space)


def _advisory(session: Connection, function: str, name: str, space: int = LOCK_SPACE) -> bool:
    parameters = {"space": space, "key": _lock_number(name)}
    return bool(session.execute(text(f"SELECT {function}(:space, :key)"), parameters).scalar())


def _lock_number(name: str) -> int:
    # An advisory lock of two keys takes signed 32-bit integers.
    return zlib.crc32(name.encode()) - 2**31


class Beats(BackgroundLoop):
    """Signs of life of this executor. It ends when another has declared it lost, or when it has
    given none for so long that another may have done so."""

    expected_errors = ENGINE_ERRORS

    def __init__(self, locks: ExecutorLocks, on_lost: Callable[[], None]) -> None:
        super().__init__("beats", every_s=BEAT_EVERY_S)
        self._locks = locks
        self._on_lost = on_lost
        self._last = time.monotonic()

    def turn(self) -> bool:
        """One sign."""
        # The time before the call: a sign that took long is already that old for the others.
        began = time.monotonic()
        try:
            current = self._locks.beat()
        except SQLAlchemyError:
            if time.monotonic() - self._last > LOST_AFTER_S:
                self._on_lost()
            raise
        if not current:
            self._on_lost()
        self._last = began
        return False
