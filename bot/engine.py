"""The durable engine: DBOS Transact on SQLite (WAL) or PostgreSQL, with what it lacks: takeover from a dead worker.

Every executor holds a lock on its id for as long as it lives (a file lock, or a PostgreSQL advisory lock). A worker
that can take the lock of an executor with pending work knows that it is dead, and puts that work back on the queue.
"""

from __future__ import annotations

import fcntl
import logging
import os
import sqlite3
import threading
import uuid
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from dbos import DBOS, DBOSConfig, WorkflowStatus
from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, text
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from analysis.errors import FaultlineError

INVESTIGATIONS = "investigations"
WORKFLOW_INVESTIGATE = "investigate"
WORKFLOW_REPLY = "reply"
APPLICATION = "faultline"
APPLICATION_VERSION = "1"
"""Pinned: DBOS's default is a hash of the source, which strands running work at every upgrade. Raise it only when a
change to a workflow's steps makes half-done work of the older version unreadable."""
TAKEOVER_INTERVAL_S = 1.0
LOCK_SPACE = 0x6661756C
"""First key of our PostgreSQL advisory locks, apart from those of other users of the database."""

log = logging.getLogger("faultline.engine")


def reply_queue(place: str) -> str:
    """The queue of one place's replies: a place that is down keeps no other's waiting."""
    return f"replies-{place}"


def system_engine(url: str) -> Engine:
    """The SQLAlchemy engine for DBOS's own tables."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"), pool_size=10, max_overflow=10, pool_timeout=30
        )
    engine = create_engine(url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=60)

    @event.listens_for(engine, "connect")
    def _wal(connection: sqlite3.Connection, _record: Any) -> None:
        connection.isolation_level = "IMMEDIATE"
        connection.execute("PRAGMA busy_timeout=30000")
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


class ExecutorLocks(Protocol):
    """Locks by executor id that die with their holder."""

    def hold(self, executor_id: str) -> None:
        """Take the lock for the life of this process. Raises FaultlineError when it cannot be had."""

    def lost(self) -> bool:
        """Whether the lock taken by `hold` is gone."""

    def take_if_dead(self, executor_id: str) -> AbstractContextManager[bool]:
        """Yields whether the executor is dead; its lock is held inside the block."""


class FileLocks:
    """flock on a file per executor, for workers that share a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: IO[str] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, executor_id: str) -> None:
        """Keep the file open and locked."""
        self._held = (self._directory / f"{executor_id}.lock").open("w")
        fcntl.flock(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def lost(self) -> bool:
        """A file lock is lost only with the process."""
        return False

    @contextmanager
    def take_if_dead(self, executor_id: str) -> Iterator[bool]:
        """Try the lock without waiting."""
        path = self._directory / f"{executor_id}.lock"
        with path.open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True
            path.unlink(missing_ok=True)


class AdvisoryLocks:
    """PostgreSQL session advisory locks, for workers on any machine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._session: Connection | None = None

    def hold(self, executor_id: str) -> None:
        """Lock in a session of its own, kept open."""
        self._session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if not _advisory(self._session, "pg_try_advisory_lock", executor_id):
            raise FaultlineError(f"executor {executor_id} is running already")

    def lost(self) -> bool:
        """Whether the session has gone, and the lock with it."""
        try:
            assert self._session is not None
            self._session.execute(text("SELECT 1"))
        except SQLAlchemyError:
            return True
        return False

    @contextmanager
    def take_if_dead(self, executor_id: str) -> Iterator[bool]:
        """Try the lock in a session of its own."""
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
            dead = _advisory(session, "pg_try_advisory_lock", executor_id)
            try:
                yield dead
            finally:
                if dead:
                    _advisory(session, "pg_advisory_unlock", executor_id)


def _advisory(session: Connection, function: str, executor_id: str) -> bool:
    key = zlib.crc32(executor_id.encode()) - 2**31
    return bool(session.execute(text(f"SELECT {function}(:space, :key)"), {"space": LOCK_SPACE, "key": key}).scalar())


class WorkerEngine:
    """DBOS in a worker process: registers its workflows, launches, and takes over from the dead."""

    def __init__(self, url: str, directory: Path, *, concurrency: int, polling_interval_s: float) -> None:
        self.executor_id = f"worker-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._engine = system_engine(url)
        self._locks: ExecutorLocks = (
            FileLocks(directory / "executors") if url.startswith("sqlite") else AdvisoryLocks(self._engine)
        )
        self._concurrency = concurrency
        self._polling = polling_interval_s
        self._stopping = threading.Event()
        config = DBOSConfig(
            name=APPLICATION,
            system_database_engine=self._engine,
            application_version=APPLICATION_VERSION,
            executor_id=self.executor_id,
            log_level="WARNING",
            max_executor_threads=16,
            notification_listener_polling_interval_sec=1.0,
        )
        DBOS(config=config)

    def launch(
        self,
        *,
        on_lock_lost: Callable[[], None],
        places: Sequence[str] = (),
        more_queues: Mapping[str, int] | None = None,
    ) -> None:
        """Start working; `more_queues` are names and how many at once. `on_lock_lost` must end the process: another may
        already do its work."""
        self._locks.hold(self.executor_id)
        queues = {INVESTIGATIONS: self._concurrency} | {reply_queue(p): 4 * self._concurrency for p in places}
        queues |= more_queues or {}
        DBOS.listen_queues(list(queues))
        DBOS.launch()
        for queue, concurrency in queues.items():
            DBOS.register_queue(
                queue,
                worker_concurrency=concurrency,
                polling_interval_sec=self._polling,
                on_conflict="always_update",
            )
        threading.Thread(target=self._take_over_for_ever, args=(on_lock_lost,), daemon=True).start()

    def enqueue(self, investigation_id: str) -> None:
        """Queue one investigation; the same id again changes nothing."""
        self.enqueue_on(INVESTIGATIONS, WORKFLOW_INVESTIGATE, investigation_id, investigation_id)

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

    def stop(self) -> None:
        """Stop taking work; what is running is taken over by the next worker."""
        self._stopping.set()
        DBOS.destroy(workflow_completion_timeout_sec=0)

    def _take_over_for_ever(self, on_lock_lost: Callable[[], None]) -> None:
        while not self._stopping.is_set():
            try:
                if self._locks.lost():
                    on_lock_lost()
                self.take_over()
            except (SQLAlchemyError, OSError) as error:
                log.warning("takeover: %s", type(error).__name__)
            self._stopping.wait(TAKEOVER_INTERVAL_S)

    def take_over(self) -> int:
        """Put the pending work of dead executors back on its queue; says how many workflows that were."""
        owners = {status.executor_id for status in self._pending()} - {self.executor_id, None}
        resumed = 0
        for owner in sorted(filter(None, owners)):
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
        return sum(len(ids) for ids in by_queue.values())

    @staticmethod
    def _pending(owner: str | None = None) -> list[WorkflowStatus]:
        return DBOS.list_workflows(status="PENDING", executor_id=owner, load_input=False, load_output=False)


def migrate_engine(url: str) -> None:
    """Create or update DBOS's own tables."""
    parsed = make_url(url)
    postgres = parsed.get_backend_name() != "sqlite"
    DBOS.migrate(
        (parsed.set(drivername="postgresql+psycopg") if postgres else parsed).render_as_string(hide_password=False)
    )
