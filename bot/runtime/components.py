"""What a process is made of: components that are started in order and stopped in reverse."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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
