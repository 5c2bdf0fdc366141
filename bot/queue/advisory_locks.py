"""Executors' locks in PostgreSQL, for workers on any machine: session advisory locks, and signs of
life, because a server may keep the session of a host that is gone."""

from __future__ import annotations

import logging
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.queue.engine_database import ENGINE_ERRORS
from faultline.bot.queue.executor_locks import ExecutorLocks
from faultline.bot.runtime.background_loop import BackgroundLoop

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
