"""Signs of life of a worker's parts: its threads and its event loop. A part that has been silent
for too long is hung.

A background loop beats at each turn. The event loop is asked for a beat by a background loop, once
a step has run on it; before that there is nothing that could block it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

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
