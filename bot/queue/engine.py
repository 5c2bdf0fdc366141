"""The durable engine: DBOS Transact, with what it lacks: takeover from a dead worker, whose pending
work a living one puts back on the queue."""

from __future__ import annotations

import math
import os
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from dbos import DBOS, DBOSConfig, WorkflowStatus
from sqlalchemy import Engine, text

from faultline.bot.queue.backlog import urgent_concurrency
from faultline.bot.queue.changes import QUEUES, STORE, changes_in
from faultline.bot.queue.engine_database import (
    APPLICATION,
    APPLICATION_VERSION,
    ENGINE_ERRORS,
    INVESTIGATIONS,
    URGENT_INVESTIGATIONS,
    WORKFLOW_INVESTIGATE,
    reply_queue,
    system_engine,
    tables_prefix,
)
from faultline.bot.queue.executor_locks import AdvisoryLocks, Beats, ExecutorLocks, FileLocks
from faultline.bot.queue.pollers import Pollers, QueueWatch, can_be_woken
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.measures import TAKEOVERS

TAKEOVER_INTERVAL_S = 2.0
WORKERS_COUNTED_EVERY_S = 2.0
OWNERS = (
    "SELECT DISTINCT executor_id FROM {}workflow_status WHERE status = 'PENDING'"
    " AND executor_id IS NOT NULL"
)
"""Columns as in https://docs.dbos.dev/explanations/system-tables."""


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
        # Old enough that the first call counts the workers.
        self._workers = (1, -WORKERS_COUNTED_EVERY_S)
        config = DBOSConfig(
            name=APPLICATION,
            system_database_engine=self._engine,
            application_version=APPLICATION_VERSION,
            executor_id=self.executor_id,
            log_level="WARNING",
            max_executor_threads=16,
            # For messages and streams between workflows, which nothing here uses.
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
        # Lock before the launch: others take over what belongs to an executor without a lock.
        self._locks.hold(self.executor_id)
        if store is not None:
            self._locks.fence(store, on_lock_lost)
        queues = {
            INVESTIGATIONS: self._concurrency,
            URGENT_INVESTIGATIONS: urgent_concurrency(self._concurrency),
        }
        queues |= {reply_queue(p): 4 * self._concurrency for p in places}
        queues |= more_queues or {}
        # DBOS starts no poller for a queue it does not listen to: `Pollers` runs them below.
        wakeable = can_be_woken(self._instance)
        DBOS.listen_queues([] if wakeable else list(queues))
        DBOS.launch()
        registered = [
            DBOS.register_queue(
                queue,
                worker_concurrency=concurrency,
                polling_interval_sec=self._polling,
                # The database remembers queues, and the settings of this start win.
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
        workflows = DBOS.list_workflows(
            status=["ENQUEUED", "PENDING"],
            queue_name=queue,
            name=WORKFLOW_INVESTIGATE,
            load_input=False,
            load_output=False,
        )
        # A workflow's id is the investigation's, or begins with it and a colon.
        return [status.workflow_id.partition(":")[0] for status in workflows]

    def take_no_more(self, within_s: float) -> None:
        """Stop taking work off the queues, and over from others. What runs goes on for `within_s`
        at most."""
        self._stop_looking()
        ending = {"workflow_completion_timeout_sec": math.ceil(within_s)}
        # `destroy` blocks until what runs has finished, and the caller has more to stop.
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
        """Put the pending work of dead executors back on its queue; returns the number of
        workflows."""
        with self._engine.connect() as session:
            owners = set(session.scalars(text(OWNERS.format(tables_prefix(self._engine)))))
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
