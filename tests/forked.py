"""Functions of tests in separate processes, forked from one in which the bot is loaded."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from faultline.loopback.preloaded import LOADED

PATIENT_S = 120.0


class ForkedProcess:
    """A process that runs `function(ready, *arguments)`, and what it sent first through `ready`.

    A separate program would import the bot again, which costs seconds of processor time.
    """

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(LOADED))
        ours: Connection
        ours, theirs = context.Pipe(duplex=False)
        life = (function, dict(os.environ), theirs, *arguments)
        self._process = context.Process(target=_live, args=life)
        self._process.start()
        theirs.close()
        with ours:
            assert ours.poll(PATIENT_S)
            self.said = ours.recv()

    def pause(self) -> None:
        """Let it stand still, as a host that is suspended."""
        os.kill(self._process.pid or 0, signal.SIGSTOP)

    def go_on(self) -> int | None:
        """Let it run again, and wait for its end; its exit code."""
        os.kill(self._process.pid or 0, signal.SIGCONT)
        self._process.join(20)
        return self._process.exitcode

    def kill(self) -> None:
        """End it now, as the kernel does, and wait for its end."""
        self._process.kill()
        self._process.join()


def tell_modules(ready: Connection) -> None:
    """Send the names of all modules that are loaded."""
    ready.send(sorted(sys.modules))


def _live(
    function: Callable[..., None], environ: dict[str, str], ready: Connection, *arguments: Any
) -> None:
    os.environ.clear()
    os.environ.update(environ)
    function(ready, *arguments)
