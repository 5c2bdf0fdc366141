"""The engine's own polling threads, made to wait until there is something for them, and one look
for work in all queues at once.

DBOS asks the database for each queue in a separate thread, each polling interval. It has no setting
to wait for a signal, nor to ask for all queues at once. Its thread takes the event that
stops it as an argument, and waits for that event between two looks. So the threads are run here,
with an event that ends the wait when the queue has work.
"""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections.abc import Callable, Iterable

from dbos import DBOS, Queue
from sqlalchemy import Engine, text

from faultline.bot.queue.changes import LOOK_AT_LEAST_EVERY_S
from faultline.bot.queue.engine_database import APPLICATION_VERSION, ENGINE_ERRORS, tables_prefix
from faultline.bot.runtime.components import BackgroundLoop

log = logging.getLogger("faultline.pollers")

try:
    from dbos._queue import queue_worker_thread
    from dbos._utils import INTERNAL_QUEUE_NAME
except ImportError:  # another release of DBOS
    queue_worker_thread = None  # type: ignore[assignment]
    INTERNAL_QUEUE_NAME = ""

LONGEST_WAIT_S = 60.0
"""`QueueWatch` finds work without a signal long before this."""
SHORTEST_WAIT_S = 0.05
"""Work that arrives within this time is taken in one look."""


def can_be_woken(instance: DBOS) -> bool:
    """Whether this release of DBOS lets its queues be looked at from here. Otherwise it polls."""
    if queue_worker_thread is None:
        return False
    # DBOS's internals, which another release may change.
    expected = ["stop_event", "dbos", "queue"]
    same = list(inspect.signature(queue_worker_thread).parameters) == expected
    return same and hasattr(instance, "background_thread_stop_events")


class WakeableEvent(threading.Event):
    """Ends a polling thread when it is set, and its wait when it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self._woken = threading.Event()
        self._last_look = 0.0

    def wake(self) -> None:
        """End the wait that is under way, or the next."""
        self._woken.set()

    def set(self) -> None:
        """End the thread."""
        super().set()
        self._woken.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Until woken; whether the thread is to end. The poller's own interval does not count."""
        self._last_look = time.monotonic()
        self._woken.wait(LONGEST_WAIT_S)
        early = self._last_look + SHORTEST_WAIT_S - time.monotonic()
        if early > 0:
            super().wait(early)
        self._woken.clear()
        return self.is_set()


class Pollers:
    """A polling thread for each queue, for a DBOS that was launched without queues to listen to."""

    def __init__(self, instance: DBOS, queues: Iterable[Queue]) -> None:
        self._instance = instance
        self._queues = {queue.name: queue for queue in queues}
        self._events: dict[str, WakeableEvent] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._stopping = False
        self._lock = threading.Lock()

    def start(self) -> None:
        """Take the place of the engine's own threads."""
        # These watch its list of queues and its schedules, which nothing here uses.
        for event in self._instance.background_thread_stop_events:
            event.set()
        # This one serves delayed workflows and deadlines, which nothing here uses either.
        jobs = getattr(self._instance, "_background_jobs_stop_event", None)
        if jobs is not None:
            jobs.set()
        registry = getattr(self._instance, "_registry", None)
        if registry is not None and INTERNAL_QUEUE_NAME:
            self._queues[INTERNAL_QUEUE_NAME] = registry.get_internal_queue()
        for name in self._queues:
            self.wake(name)

    def wake(self, name: str) -> bool:
        """Look at that queue now; whether it is one of this worker's."""
        with self._lock:
            if self._stopping or name not in self._queues:
                return False
            # It ends when its queue is not in the database, as right after a restore.
            if name not in self._threads or not self._threads[name].is_alive():
                self._begin(name)
            self._events[name].wake()
            return True

    def stop(self) -> None:
        """Take nothing more; returns at once."""
        with self._lock:
            self._stopping = True
            for event in self._events.values():
                event.set()

    def _begin(self, name: str) -> None:
        self._events[name] = WakeableEvent()
        args = (self._events[name], self._instance, self._queues[name])
        thread = threading.Thread(
            target=queue_worker_thread, args=args, name=f"queue {name}", daemon=True
        )
        self._threads[name] = thread
        thread.start()


WAITING = (
    "SELECT DISTINCT queue_name FROM {}workflow_status WHERE status = 'ENQUEUED'"
    " AND queue_name IS NOT NULL AND coalesce(application_version, :version) = :version"
)
"""Columns as in https://docs.dbos.dev/explanations/system-tables."""


class QueueWatch(BackgroundLoop):
    """Finds the queues with work and wakes their pollers: at once after a signal, one polling
    interval later while work is left, and now and then in case a signal was lost."""

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
            query = text(WAITING.format(tables_prefix(self._engine)))
            queues = set(session.scalars(query, {"version": APPLICATION_VERSION}))
        ours = [queue for queue in queues if self._wake_queue(queue)]
        self.every_s = self._busy_s if ours else self._idle_s
        return False
