"""The process of a worker as the server beside it sees it: begun by a fork, or from nothing."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from faultline.bot.runtime.nursery import ProcessHandle


class WorkerProcess(Protocol):
    """A worker that runs."""

    def wait(self) -> bool:
        """Wait for its end, in one thread; says whether it had been ready for work."""

    def end(self, within_s: float) -> None:
        """Ask it to end, from another thread than the one that waits, and kill it if it does
        not."""


class SpawnedWorker:
    """A worker that was started as a program."""

    def __init__(self, command: Sequence[str]) -> None:
        self._ready, ready = os.pipe()
        arguments = [*command, "--ready-fd", str(ready)]
        try:
            self._process = subprocess.Popen(arguments, pass_fds=[ready])
        finally:
            # Only the worker may keep this end open: then its death ends the pipe.
            os.close(ready)

    def wait(self) -> bool:
        """Wait for its end; says whether it had been ready for work."""
        self._process.wait()
        return _was_ready(self._ready)

    def end(self, within_s: float) -> None:
        """Ask it to end, and kill it if it does not."""
        self._process.terminate()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            self._process.kill()


class ForkedWorker:
    """A worker that begins as a fork, which spares it what is loaded there."""

    def __init__(
        self, start: Callable[..., ProcessHandle], work: Callable[..., None], *arguments: Any
    ) -> None:
        """`start` is `Nursery.start` or `fork_here`. `work` gets the arguments, and where it says
        that it is ready. Raises OSError when the nursery has ended."""
        self._ready, ready = os.pipe()
        try:
            self._child = start(work, *arguments, descriptors=[ready])
        except OSError:
            os.close(self._ready)
            raise
        finally:
            os.close(ready)

    def wait(self) -> bool:
        """Wait for its end; says whether it had been ready for work."""
        self._child.join()
        return _was_ready(self._ready)

    def end(self, within_s: float) -> None:
        """Ask it to end, and kill it if it does not."""
        self._child.signal(signal.SIGTERM)
        if not self._child.join(within_s):
            self._child.kill()


def _was_ready(ready: int) -> bool:
    try:
        # A worker writes `1` once it is ready; if it dies before, the pipe ends empty.
        return os.read(ready, 1) == b"1"
    finally:
        os.close(ready)
