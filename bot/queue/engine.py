"""The durable engine: DBOS Transact on SQLite (WAL) or PostgreSQL, with what it lacks: takeover
from a dead worker.

Every executor holds a lock on its id for as long as it lives (a file lock, or a PostgreSQL advisory
lock). A worker that can take the lock of an executor with pending work knows that it is dead, and
puts that work back on the queue.
"""

from __future__ import annotations

import fcntl
import logging
import math
import os
import socket
import sqlite3
import threading
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from dbos import DBOS, DBOSConfig, WorkflowStatus
from dbos import error as dbos_error
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from analysis.errors import FaultlineError
from bot.queue.capacity import urgent_concurrency
from bot.queue.changes import LOOK_AT_LEAST_EVERY_S, QUEUES, STORE, changes_in
from bot.queue.pollers import SHORTEST_WAIT_S, Pollers, can_be_woken
from bot.runtime.background_loop import BackgroundLoop
from bot.runtime.measures import TAKEOVERS
from bot.store.bounded_connections import bound
from bot.store.connect import WAL_KEPT_BYTES
from bot.store.waits import Waits, bounded_address

INVESTIGATIONS = "investigations"
URGENT_INVESTIGATIONS = "investigations-urgent"
WORKFLOW_INVESTIGATE = "investigate"
WORKFLOW_REPLY = "reply"
APPLICATION = "faultline"
APPLICATION_VERSION = "1"
"""Pinned: DBOS's default is a hash of the source, which strands running work at every upgrade.
Raise it only when a change to a workflow's steps makes half-done work of the older version
unreadable."""
TAKEOVER_INTERVAL_S = 2.0
LOCK_SPACE = 0x6661756C
"""First key of our PostgreSQL advisory locks, apart from those of other users of the database."""
DUTY_SPACE = LOCK_SPACE + 1
"""First key of the locks of duties that one worker does at a time."""
WORKERS_COUNTED_EVERY_S = 2.0
POOL = 6
"""Connections of the engine's own that a worker keeps, and as many more when it is busy: one is the
executor's lock, one listens, and the queues, at most eight of them, look in turn."""
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
HELD_LOCKS = (
    "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = :space"
    " AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
END_SESSION = (
    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
    " AND classid = :space AND granted AND objid::bigint = :key"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)
POOL_TIMEOUT_S = 10
"""DBOS asks again for a connection that it did not get in time."""
WAITS = Waits(statement_s=40.0, lock_s=0.0, transaction_s=60.0, leave_after_s=20.0)
"""A statement that our side left is one that DBOS makes again on another connection. One that the
server ended would fail its workflow, so the server's limit only ends what nobody waits for."""

WAITING = (
    "SELECT DISTINCT queue_name FROM {}workflow_status WHERE status = 'ENQUEUED'"
    " AND queue_name IS NOT NULL AND coalesce(application_version, :version) = :version"
)
OWNERS = (
    "SELECT DISTINCT executor_id FROM {}workflow_status WHERE status = 'PENDING'"
    " AND executor_id IS NOT NULL"
)
"""Columns as in https://docs.dbos.dev/explanations/system-tables."""
ENGINE_ERRORS = (*BackgroundLoop.expected_errors, dbos_error.DBOSException)
"""The expected errors of a loop that speaks with the engine."""

log = logging.getLogger("faultline.engine")


def reply_queue(place: str) -> str:
    """The queue of one place's replies: a place that is down keeps no other's waiting."""
    return f"replies-{place}"


def system_engine(url: str, waits: Waits = WAITS) -> Engine:
    """The SQLAlchemy engine for DBOS's own tables."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        engine = create_engine(
            bounded_address(parsed), pool_size=POOL, max_overflow=POOL, pool_timeout=POOL_TIMEOUT_S
        )
        bound(engine, waits)
        return engine
    engine = create_engine(url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=60)

    @event.listens_for(engine, "connect")
    def _wal(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout=30000")
        if connection.execute("PRAGMA page_count").fetchone() == (0,):
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(f"PRAGMA journal_size_limit={WAL_KEPT_BYTES}")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


class ExecutorLocks(Protocol):
    """Locks by executor id that die with their holder."""

    def hold(self, executor_id: str) -> None:
        """Take the lock for the life of this process. Raises FaultlineError when it cannot be
        had."""

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
        self._held: IO[str] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, executor_id: str) -> None:
        """Keep the file open and locked. Waits for a peer that looks at it just now."""
        self._held = (self._directory / f"{executor_id}.lock").open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX)

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
        if self._held is not None:
            self._held.close()

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
        found = 0
        for path in self._directory.glob("*.lock"):
            with suppress(FileNotFoundError), path.open("r") as file:
                found += not _locked(file, fcntl.LOCK_SH)
        return found


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class AdvisoryLocks:
    """PostgreSQL session advisory locks, for workers on any machine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: Connection | None = None
        self._id = ""
        self._epoch = 0

    def hold(self, executor_id: str) -> None:
        """Lock in a separate session, kept open, and begin to give signs of life."""
        self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not _advisory(self._session, "pg_try_advisory_lock", executor_id):
            raise FaultlineError(f"executor {executor_id} is running already")
        self._id = executor_id
        given = {"id": executor_id, "host": socket.gethostname()}
        self._epoch = int(self._session.execute(text(BEGIN_BEATS), given).scalar_one())
        self._session.execute(text(FORGET_BEATS))

    def beat(self) -> bool:
        """Give a sign of life; whether nobody has declared this executor lost."""
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
            given = {"id": self._id, "epoch": self._epoch}
            return session.execute(text(BEAT), given).rowcount == 1

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
            given = {"id": self._id, "epoch": self._epoch}
            if connection.execute(text(CURRENT), given).first() is None:
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
            held = set(session.execute(text(HELD_LOCKS), {"space": LOCK_SPACE}).scalars())
            lost = set(session.execute(text(LOST), {"silent": LOST_AFTER_S}).scalars())
        return len(held - {_lock_number(one) & 0xFFFFFFFF for one in lost})

    def _declare_lost(self, executor_id: str) -> None:
        """Where a holder is silent: fence it off, and end its session, which the server may keep
        for hours after its host is gone."""
        key = _lock_number(executor_id) & 0xFFFFFFFF
        with self._engine.begin() as session:
            given = {"id": executor_id, "silent": LOST_AFTER_S}
            if session.execute(text(FENCE), given).rowcount:
                log.warning("%s is lost: no sign of life for %g s", executor_id, LOST_AFTER_S)
            lost = session.execute(text(f"{LOST} AND id = :id"), given).scalar()
        if lost is None:
            return
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
    given = {"space": space, "key": _lock_number(name)}
    return bool(session.execute(text(f"SELECT {function}(:space, :key)"), given).scalar())


def _lock_number(name: str) -> int:
    return zlib.crc32(name.encode()) - 2**31


class WorkerEngine:
    """DBOS in a worker process: registers its workflows, launches, and takes over from the dead."""

    def __init__(
        self, url: str, directory: Path, *, concurrency: int, polling_interval_s: float
    ) -> None:
        self.executor_id = f"worker-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.database = self._engine = system_engine(url)
        self._locks: ExecutorLocks = (
            FileLocks(directory / "executors")
            if url.startswith("sqlite")
            else AdvisoryLocks(self._engine)
        )
        self._concurrency = concurrency
        self._polling = polling_interval_s
        self.changes = changes_in(self._engine, polling_s=polling_interval_s)
        self._pollers: Pollers | None = None
        self._watch: QueueWatch | None = None
        self._takeover: Takeover | None = None
        self._beats: Beats | None = None
        self._workers = (1, -WORKERS_COUNTED_EVERY_S)
        config = DBOSConfig(
            name=APPLICATION,
            system_database_engine=self._engine,
            application_version=APPLICATION_VERSION,
            executor_id=self.executor_id,
            log_level="WARNING",
            max_executor_threads=16,
            # Of messages and streams between workflows, which nothing here uses.
            use_listen_notify=False,
            notification_listener_polling_interval_sec=1.0,
        )
        self._instance = DBOS(config=config)

    def launch(
        self,
        *,
        on_lock_lost: Callable[[], None],
        places: Sequence[str] = (),
        more_queues: Mapping[str, int] | None = None,
        store: Engine | None = None,
    ) -> None:
        """Start working; `more_queues` are names and how many at once. `on_lock_lost` must end the
        process: another may already do its work. `store` then commits nothing any more."""
        self._locks.hold(self.executor_id)
        if store is not None:
            self._locks.fence(store, on_lock_lost)
        queues = {
            INVESTIGATIONS: self._concurrency,
            URGENT_INVESTIGATIONS: urgent_concurrency(self._concurrency),
        }
        queues |= {reply_queue(p): 4 * self._concurrency for p in places}
        queues |= more_queues or {}
        wakeable = can_be_woken(self._instance)
        DBOS.listen_queues([] if wakeable else list(queues))
        DBOS.launch()
        registered = [
            DBOS.register_queue(
                queue,
                worker_concurrency=concurrency,
                polling_interval_sec=self._polling,
                on_conflict="always_update",
            )
            for queue, concurrency in queues.items()
        ]
        if wakeable:
            self._pollers = Pollers(self._instance, registered)
            self._pollers.start()
            self._watch = QueueWatch(self._engine, self._pollers.wake, every_s=self._polling)
            self._watch.start()
            self.changes.on(QUEUES, self._watch.wake)
        if store is not None:
            self.changes.see(STORE, store)
        self.changes.start()
        self._takeover = Takeover(self, on_lock_lost)
        self._takeover.start()
        self._beats = Beats(self._locks, on_lock_lost)
        self._beats.start()

    def enqueue(self, investigation_id: str, queue: str = INVESTIGATIONS) -> None:
        """Queue one investigation; the same id again changes nothing."""
        self.enqueue_on(queue, WORKFLOW_INVESTIGATE, investigation_id, investigation_id)

    def enqueue_on(self, queue: str, workflow: str, workflow_id: str, *arguments: str) -> None:
        """Queue one workflow; the same id again changes nothing."""
        DBOS.enqueue_workflow_with_options(
            {
                "workflow_name": workflow,
                "queue_name": queue,
                "workflow_id": workflow_id,
                "app_version": APPLICATION_VERSION,
            },
            *arguments,
        )
        self._wake(queue)

    def exclusive(self, lock: str) -> AbstractContextManager[bool]:
        """Yields whether no other worker does this duty just now; none does inside the block."""
        return self._locks.exclusive(lock)

    def workers(self) -> int:
        """How many workers live, this one counted; looked at every two seconds."""
        count, at = self._workers
        if time.monotonic() - at >= WORKERS_COUNTED_EVERY_S:
            count = max(1, self._locks.live_executors())
            self._workers = (count, time.monotonic())
        return count

    @staticmethod
    def in_hand(queue: str) -> list[str]:
        """The investigations that are queued there, or run from there."""
        found = DBOS.list_workflows(
            status=["ENQUEUED", "PENDING"],
            queue_name=queue,
            name=WORKFLOW_INVESTIGATE,
            load_input=False,
            load_output=False,
        )
        return [status.workflow_id.partition(":")[0] for status in found]

    def take_no_more(self, within_s: float) -> None:
        """Stop taking work off the queues, and over from others. What runs goes on for `within_s`
        at most."""
        self._stop_looking()
        ending = {"workflow_completion_timeout_sec": math.ceil(within_s)}
        threading.Thread(
            target=DBOS.destroy, kwargs=ending, name="engine-ending", daemon=True
        ).start()

    def stop(self) -> None:
        """Stop at once: what runs is taken over by the next worker."""
        self._stop_looking()
        if self._beats is not None:
            self._beats.stop_soon()
        DBOS.destroy(workflow_completion_timeout_sec=0)

    def running(self) -> set[str]:
        """The workflows that this worker has begun and not ended."""
        return {status.workflow_id for status in self._pending(self.executor_id)}

    def lost_lock(self) -> bool:
        """Whether this executor's lock is gone: another worker may already do its work."""
        return self._locks.lost()

    def _wake(self, queue: str) -> None:
        if self._pollers is not None:
            self._pollers.wake(queue)

    def _stop_looking(self) -> None:
        # Without waiting for a turn: one that hangs in the database must not delay the stop.
        self.changes.stop_soon()
        if self._watch is not None:
            self._watch.stop_soon()
        if self._pollers is not None:
            self._pollers.stop()
        if self._takeover is not None:
            self._takeover.stop_soon()
            self._takeover = None

    def take_over(self) -> int:
        """Put the pending work of dead executors back on its queue; says how many workflows that
        were."""
        with self._engine.connect() as session:
            owners = set(session.scalars(text(OWNERS.format(_tables(self._engine)))))
        resumed = 0
        for owner in sorted(owners - {self.executor_id}):
            with self._locks.take_if_dead(owner) as dead:
                resumed += self._resume_work_of(owner) if dead else 0
        return resumed

    def _resume_work_of(self, owner: str) -> int:
        """Listed again under the lock: a peer may have been here since."""
        by_queue: dict[str, list[str]] = defaultdict(list)
        for status in self._pending(owner):
            by_queue[status.queue_name or INVESTIGATIONS].append(status.workflow_id)
        for queue, ids in by_queue.items():
            DBOS.resume_workflows(ids, queue_name=queue)
            self._wake(queue)
        return sum(len(ids) for ids in by_queue.values())

    @staticmethod
    def _pending(owner: str | None = None) -> list[WorkflowStatus]:
        return DBOS.list_workflows(
            status="PENDING", executor_id=owner, load_input=False, load_output=False
        )


class QueueWatch(BackgroundLoop):
    """Looks which queues have work, and wakes their pollers: at once when told, a polling interval
    later while there is work left, and now and then in case that nobody told."""

    expected_errors = ENGINE_ERRORS

    def __init__(self, engine: Engine, wake: Callable[[str], bool], *, every_s: float) -> None:
        """`wake` says whether this worker takes from that queue."""
        super().__init__("queue watch", every_s=every_s, rest_s=SHORTEST_WAIT_S)
        self._engine = engine
        self._wake_queue = wake
        self._busy_s, self._idle_s = every_s, max(every_s, LOOK_AT_LEAST_EVERY_S)

    def turn(self) -> bool:
        """Look once."""
        # A look that fails is tried again soon.
        self.every_s = self._busy_s
        with self._engine.connect() as session:
            query = text(WAITING.format(_tables(self._engine)))
            queues = set(session.scalars(query, {"version": APPLICATION_VERSION}))
        ours = [queue for queue in queues if self._wake_queue(queue)]
        self.every_s = self._busy_s if ours else self._idle_s
        return False


def _tables(engine: Engine) -> str:
    """What stands before the names of the engine's tables."""
    return "" if engine.dialect.name == "sqlite" else "dbos."


class Takeover(BackgroundLoop):
    """Looks for dead workers, and whether this one still holds its own lock."""

    expected_errors = ENGINE_ERRORS

    def __init__(self, engine: WorkerEngine, on_lock_lost: Callable[[], None]) -> None:
        super().__init__("takeover", every_s=TAKEOVER_INTERVAL_S, part="takeover")
        self._engine = engine
        self._on_lock_lost = on_lock_lost

    def turn(self) -> bool:
        """Look once."""
        if self._engine.lost_lock():
            self._on_lock_lost()
        TAKEOVERS.inc(self._engine.take_over())
        return False


class Beats(BackgroundLoop):
    """Signs of life of this executor. It ends when another has declared it lost, or when it could
    give none for so long that another may have."""

    expected_errors = ENGINE_ERRORS

    def __init__(self, locks: ExecutorLocks, on_lost: Callable[[], None]) -> None:
        super().__init__("beats", every_s=BEAT_EVERY_S)
        self._locks = locks
        self._on_lost = on_lost
        self._last = time.monotonic()

    def turn(self) -> bool:
        """One sign."""
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
