"""From the store to the engine's queue, in the worker: the web process accepts alerts and does nothing else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger("faultline.dispatch")

BATCH = 100


class Accepting(Protocol):
    """What was stored by the web process and waits for the engine: investigations, or questions."""

    def undispatched(self, limit: int) -> Sequence[str]:
        """Ids of what may be queued now."""

    def mark_dispatched(self, ids: Sequence[str]) -> None:
        """Remember that the engine has them."""


class Dispatch:
    """Puts on a queue what was accepted. Several workers may do so at once: an id is queued once."""

    def __init__(self, store: Accepting, enqueue: Callable[[str], None], *, every_s: float) -> None:
        self._store = store
        self._enqueue = enqueue
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dispatch", daemon=True)

    def start(self) -> None:
        """Dispatch from a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; what was accepted meanwhile stays in the store."""
        self._stopping.set()
        self._thread.join()

    def dispatch(self) -> int:
        """Queue what has been accepted; says how many that were."""
        ids = self._store.undispatched(BATCH)
        for investigation_id in ids:
            self._enqueue(investigation_id)
        if ids:
            self._store.mark_dispatched(ids)
        return len(ids)

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait = self._every_s
            try:
                wait = 0.0 if self.dispatch() == BATCH else wait
            except (SQLAlchemyError, dbos_error.DBOSException) as error:
                log.warning("dispatch: %s; tried again in %g s", type(error).__name__, wait)
            self._stopping.wait(wait)
