"""Signs of life of a worker's parts: its threads and its event loop. A part that falls silent is
wedged.

A thread beats each time round its loop. The event loop is asked for a beat by the thread that
watches, once a step has run on it; before that there is nothing that could hold it up.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

EVENT_LOOP = "event loop"
ASK_EVERY_S = 5.0
START = "start"
"""A part until the worker takes work: one that does not get so far is wedged as well."""
MAX_ASKED = 3
"""Beats asked of the event loop that it has not given yet; no more are asked of one that stands
still."""


class Pulse:
    """When each part last gave a sign of life, in seconds of `clock`."""

    def __init__(
        self, *, silent_after_s: float = 180.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.silent_after_s = silent_after_s
        self._clock = clock
        self._beats: dict[str, float] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._asked = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()

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
        if loop is None or loop.is_closed() or self._asked >= MAX_ASKED:
            return
        self._asked += 1
        loop.call_soon_threadsafe(self._answered)

    def start(self) -> None:
        """Ask it every few seconds, from a thread of its own."""
        threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def stop(self) -> None:
        """The worker is told to stop: its parts end one after the other, and none of them is wedged
        for that."""
        self._stopping.set()

    def silence(self) -> dict[str, float]:
        """Seconds since each part's last sign of life."""
        with self._lock:
            now = self._clock()
            return {part: max(0.0, now - at) for part, at in sorted(self._beats.items())}

    def wedged(self) -> str | None:
        """Which parts have been silent for too long, in a sentence; None when all live."""
        if self._stopping.is_set():
            return None
        silent = [
            f"{part} for {s:.0f} s" for part, s in self.silence().items() if s > self.silent_after_s
        ]
        return f"no sign of life: {', '.join(silent)}" if silent else None

    def _answered(self) -> None:
        self._asked = 0
        self.beat(EVENT_LOOP)

    def _run(self) -> None:
        while not self._stopping.wait(min(ASK_EVERY_S, self.silent_after_s / 4)):
            self.ask_loop()


PULSE = Pulse()
"""Of this process."""
