"""The one way to do something every so often: a thread that takes a turn, waits, and takes the
next."""

from __future__ import annotations

import logging
import math
import threading
import time
from abc import ABC, abstractmethod

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.runtime.components import STOP_DEADLINE_S
from faultline.bot.runtime.heartbeat import HEARTBEAT

REPEAT_WARNING_AFTER_S = 600.0
"""A turn that keeps failing in the same way is logged again after this, so that the log shows that
it still fails without a line for each turn."""


class BackgroundLoop(ABC):
    """A component that takes a turn every `every_s` seconds, and at once when woken.

    What a turn raises is logged once, and the next turn comes all the same. With `every_s` None
    there is one turn after `first_after_s`, and further turns only when woken. Woken again and
    again it rests for `rest_s` after each turn, and so it does before it tries again what failed.
    `part` is the name under which each turn is reported to the heartbeat; None for loops whose
    turns are rare or long, because their silence says nothing.
    """

    expected_errors: tuple[type[Exception], ...] = (SQLAlchemyError, OSError, FaultlineError)
    """What a turn raises when the database, a vendor or the machine fails; logged by its name."""

    def __init__(
        self,
        name: str,
        *,
        every_s: float | None,
        first_after_s: float = 0.0,
        rest_s: float = 0.0,
        part: str | None = None,
        stop_deadline_s: float = STOP_DEADLINE_S,
    ) -> None:
        self.name = name
        self.every_s = every_s
        self.stop_deadline_s = stop_deadline_s
        self.stopping = threading.Event()
        self._first_after_s = first_after_s
        self._rest_s = rest_s
        self._ended_at = -math.inf
        self._part = part
        self._woken = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._failures = _Failures(logging.getLogger(f"faultline.{name}"))

    @abstractmethod
    def turn(self) -> bool:
        """One turn; whether there is more to do at once."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Take the next turn now."""
        self._woken.set()

    def stop_soon(self) -> None:
        """Take no further turn; returns at once."""
        self.stopping.set()
        self._woken.set()

    def stop(self) -> None:
        """Stop after the turn that is under way; what is due stays in the store."""
        self.stop_soon()
        if self._thread.is_alive():
            self._thread.join()

    def idle(self, seconds: float | None) -> None:
        """Wait for the next turn: `seconds`, or until woken. None waits only for that."""
        self._woken.wait(seconds)
        rest_s = self._ended_at + self._rest_s - time.monotonic()
        # 0 seconds means that the last turn left work, which needs no rest.
        if rest_s > 0 and seconds != 0:
            self.stopping.wait(rest_s)
        # Clear after the rest: what woke the loop meanwhile is served by the same turn.
        self._woken.clear()

    def ended(self) -> None:  # noqa: B027  most loops have nothing to release
        """Called in the loop's thread after the last turn, to release what the turns used."""

    def _run(self) -> None:
        wait: float | None = self._first_after_s
        try:
            while True:
                self.idle(wait)
                if self.stopping.is_set():
                    return
                wait = self._take_turn()
        finally:
            self.ended()

    def _take_turn(self) -> float | None:
        """Take a turn; gives the seconds until the next."""
        if self._part is not None:
            HEARTBEAT.beat(self._part)
        try:
            more_to_do = self.turn()
        except self.expected_errors as error:
            self._failures.expected(error, self._retry_s())
            return self._retry_s()
        # The edge of the thread: it must outlive unforeseen errors.
        except Exception as error:  # noqa: BLE001
            self._failures.unexpected(error, self._retry_s())
            return self._retry_s()
        finally:
            self._ended_at = time.monotonic()
        self._failures.none()
        return 0.0 if more_to_do else self.every_s

    def _retry_s(self) -> float | None:
        return self._rest_s or self.every_s


class _Failures:
    """Logs a failure when it begins and when it ends, and seldom in between."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._kind: str | None = None
        self._logged_at = 0.0
        self._count = 0

    def expected(self, error: Exception, every_s: float | None) -> None:
        """A failure of the database, of a vendor or of the machine: its name says enough."""
        if self._is_news(error):
            self._log.warning("%s; %s", type(error).__name__, _next_try(every_s))

    def unexpected(self, error: Exception, every_s: float | None) -> None:
        """An unforeseen failure, with its traceback."""
        if self._is_news(error):
            self._log.error("%s", _next_try(every_s), exc_info=error)

    def none(self) -> None:
        """The turn succeeded."""
        if self._count > 1:
            self._log.warning("works again after %d failures", self._count)
        self._kind = None
        self._count = 0

    def _is_news(self, error: Exception) -> bool:
        kind = type(error).__name__
        now = time.monotonic()
        self._count += 1
        if kind == self._kind and now - self._logged_at < REPEAT_WARNING_AFTER_S:
            return False
        self._kind = kind
        self._logged_at = now
        return True


def _next_try(every_s: float | None) -> str:
    return "not tried again" if every_s is None else f"tried again in {every_s:g} s"
