"""The process of a worker as the server beside it sees it: begun by a fork of the server, or from
nothing."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from bot.runtime.process_life import WORKER_NAME, call_yourself


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
    """A fork of this process, which waits for `begin`.

    What server and worker both need is loaded once, and lies in memory once. Made while this
    process has one thread, because a fork copies the locks of all threads and only one of them.
    """

    def __init__(self, work: Callable[[int, int], None]) -> None:
        """`work` gets the id of this process, and where it says that it is ready. It should not
        return."""
        parent = os.getpid()
        waiting, self._go = os.pipe()
        self._ready, ready = os.pipe()
        self._changing = threading.Lock()
        self._ended = threading.Event()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.close(self._go)
            os.close(self._ready)
            _live(work, parent, waiting, ready)
        os.close(waiting)
        os.close(ready)

    def begin(self) -> None:
        """Let it work."""
        # One that was killed while it waited has ended, which `wait` finds out.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"1")

    def wait(self) -> bool:
        """Wait for its end; says whether it had been ready for work."""
        # Not reaped yet: until then no other process gets its id.
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        with self._changing:
            os.waitpid(self._pid, 0)
            self._ended.set()
        os.close(self._go)
        return _was_ready(self._ready)

    def end(self, within_s: float) -> None:
        """Ask it to end, and kill it if it does not."""
        self._signal(signal.SIGTERM)
        if not self._ended.wait(within_s):
            self._signal(signal.SIGKILL)

    def abandon(self) -> None:
        """End it if it never began."""
        self._signal(signal.SIGKILL)
        self.wait()

    def _signal(self, number: int) -> None:
        with self._changing:
            if not self._ended.is_set():
                os.kill(self._pid, number)


def _was_ready(ready: int) -> bool:
    try:
        return os.read(ready, 1) == b"1"
    finally:
        os.close(ready)


def _live(work: Callable[[int, int], None], parent: int, waiting: int, ready: int) -> None:
    """The fork's whole life: it never goes back to what the server was doing."""
    status = 1
    try:
        call_yourself(WORKER_NAME)
        # As in a program that has just begun: whoever works sets its own.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if os.read(waiting, 1) == b"1":
            work(parent, ready)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    # The edge of the process: an error must not be taken for one of the server's.
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)
