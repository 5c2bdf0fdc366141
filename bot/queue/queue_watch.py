"""Looks for work in all queues at once, so that their pollers do not have to."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Engine, text

from faultline.bot.queue.changes import LOOK_AT_LEAST_EVERY_S
from faultline.bot.queue.engine_database import ENGINE_ERRORS, tables_prefix
from faultline.bot.queue.names import APPLICATION_VERSION
from faultline.bot.queue.pollers import SHORTEST_WAIT_S
from faultline.bot.runtime.background_loop import BackgroundLoop

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
