"""What a process is made of: components that are started in order and stopped in reverse;
background loops, the one way to do something every so often; and signs of life of both and of the
event loop.

A background loop beats at each turn. The event loop is asked for a beat by a background loop, once
a step has run on it; before that there is nothing that could block it. A part that has been silent
for too long is hung.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from faultline.analysis.errors import FaultlineError

STOP_DEADLINE_S = 5.0
"""A component that has nothing to finish stops in milliseconds. Five seconds leave room for one
slow statement on a busy machine."""

log = logging.getLogger("faultline.components")


class Component(Protocol):
    """One thing that a process runs.

    `start` returns once the component works, and raises when it cannot. `stop` returns once the
    component has ended; it is abandoned after `stop_deadline_s` seconds.
    """

    @property
    def name(self) -> str:
        """For log lines."""

    @property
    def stop_deadline_s(self) -> float:
        """Seconds that `stop` may take."""

    def start(self) -> None:
        """Begin."""

    def stop(self) -> None:
        """End."""


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class FunctionComponent:
    """A component made of functions, for things without a loop."""

    name: str
    on_start: Callable[[], None] = _nothing
    on_stop: Callable[[], None] = _nothing
    stop_deadline_s: float = STOP_DEADLINE_S

    def start(self) -> None:
        """Call `on_start`."""
        self.on_start()

    def stop(self) -> None:
        """Call `on_stop`."""
        self.on_stop()


class Components:
    """The components of one process, or of one part of it."""

    def __init__(self, components: Sequence[Component]) -> None:
        self._components = tuple(components)
        self._started: list[Component] = []

    def start(self) -> None:
        """Start all, in order. Raises what a component raises, after stopping those before it."""
        for component in self._components:
            try:
                component.start()
            except BaseException:
                self.stop()
                raise
            self._started.append(component)

    def stop(self) -> None:
        """Stop what was started, in reverse. One that fails is logged, and the others stop."""
        while self._started:
            _stop_within_deadline(self._started.pop())


def _stop_within_deadline(component: Component) -> None:
    # The thread is a daemon, so that a component that never ends cannot keep the process alive.
    stopping = threading.Thread(
        target=_stop_and_log, args=(component,), name=f"stop {component.name}", daemon=True
    )
    stopping.start()
    stopping.join(component.stop_deadline_s)
    if stopping.is_alive():
        log.warning("%s did not stop within %g s", component.name, component.stop_deadline_s)


def _stop_and_log(component: Component) -> None:
    try:
        component.stop()
    # The components started before this one must be stopped all the same.
    except Exception:
        log.exception("%s failed to stop", component.name)


EVENT_LOOP = "event loop"
START = "start"
"""A part until the worker takes work: a worker that does not get so far is hung as well."""
MAX_PENDING_BEATS = 3
"""Beats asked of the event loop that it has not given yet; a loop that is blocked is asked for no
more than that, so that its queue does not grow."""


class Heartbeat:
    """When each part last gave a sign of life, in seconds of `clock`."""

    def __init__(
        self, *, silent_after_s: float = 180.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.silent_after_s = silent_after_s
        self._clock = clock
        self._beats: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending_beats = 0
        self._lock = threading.Lock()
        self._stopping = False

    def beat(self, part: str) -> None:
        """The part lives."""
        with self._lock:
            self._beats[part] = self._clock()

    def started(self) -> None:
        """The worker takes work."""
        with self._lock:
            self._beats.pop(START, None)

    def loop_runs(self, loop: asyncio.AbstractEventLoop) -> None:
        """Steps run on this loop."""
        if self._loop is not loop:
            self._loop = loop
            self.beat(EVENT_LOOP)

    def ask_loop(self) -> None:
        """Ask the event loop for a beat."""
        loop = self._loop
        if loop is None or loop.is_closed() or self._pending_beats >= MAX_PENDING_BEATS:
            return
        self._pending_beats += 1
        loop.call_soon_threadsafe(self._answered)

    def stop(self) -> None:
        """The worker is stopping: its parts end one after the other, and none of them is hung for
        that."""
        self._stopping = True

    def silence(self) -> dict[str, float]:
        """Seconds since each part's last sign of life."""
        with self._lock:
            now = self._clock()
            return {part: max(0.0, now - at) for part, at in sorted(self._beats.items())}

    def hung(self) -> str | None:
        """Which parts have been silent for too long, in a sentence; None when all live."""
        if self._stopping:
            return None
        silent = []
        for part, seconds in self.silence().items():
            if seconds > self.silent_after_s:
                silent.append(f"{part} for {seconds:.0f} s")
        return f"no sign of life: {', '.join(silent)}" if silent else None

    def _answered(self) -> None:
        # One answer shows that the loop runs, whichever beat it answers.
        self._pending_beats = 0
        self.beat(EVENT_LOOP)


HEARTBEAT = Heartbeat()
"""Of this process."""


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

    expected_errors: tuple[type[Exception], ...] = (OSError, FaultlineError)
    """What a turn raises when a vendor or the machine fails; logged by its name, as are errors of
    the database."""

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
        # The edge of the thread: it must outlive unforeseen errors.
        except Exception as error:  # noqa: BLE001
            # Loaded once a turn failed: the nursery forks before anything has loaded the library.
            from sqlalchemy.exc import SQLAlchemyError

            expected = isinstance(error, (SQLAlchemyError, *self.expected_errors))
            log_failure = self._failures.expected if expected else self._failures.unexpected
            log_failure(error, self._retry_s())
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
