"""What a worker does every few moments beside its investigations, each in a thread of its own."""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod

from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from analysis.errors import FaultlineError
from bot.runtime.pulse import PULSE


class Loop(ABC):
    """Takes a turn again and again. What a turn raises is logged, and the next one comes all the
    same.

    `part` is what its signs of life are called, None for one that gives none, as its turns are rare
    or long.
    """

    def __init__(
        self, name: str, *, every_s: float, first_after_s: float = 0.0, part: str | None = None
    ) -> None:
        self.every_s = every_s
        self.stopping = threading.Event()
        self._name = name
        self._first_after_s = first_after_s
        self._part = part
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._log = logging.getLogger(f"faultline.{name}")

    @abstractmethod
    def turn(self) -> bool:
        """One turn; whether there is more to do at once."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop after the turn that is under way; what is due stays in the store."""
        self.stopping.set()
        self._thread.join()

    def _run(self) -> None:
        wait = self._first_after_s
        while not self.stopping.wait(wait):
            if self._part is not None:
                PULSE.beat(self._part)
            wait = self.every_s
            try:
                wait = 0.0 if self.turn() else wait
            except (SQLAlchemyError, OSError, FaultlineError, dbos_error.DBOSException) as error:
                self._log.warning("%s; tried again in %g s", type(error).__name__, wait)
            # The edge of the thread: it must outlive what nobody thought of.
            except Exception:  # noqa: BLE001
                self._log.exception("tried again in %g s", wait)
