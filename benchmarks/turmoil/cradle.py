"""Begins the fleet's processes as forks of one in which the bot is loaded, and in front of whose C
library lies the one with the clocks."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any
from unittest import mock

from faultline.loopback.preloaded import PreloadedProgram

EXPOSED = ("identity", "poll", "wait", "send_signal", "terminate", "kill")


class NumberedProgram(PreloadedProgram):
    """One whose process id is asked for by a call, as another process does."""

    def identity(self) -> int:
        """Its process id."""
        return self.pid


class _Manager(BaseManager):
    """The process that starts the forks, and in which they are waited for."""


_Manager.register("program", NumberedProgram, exposed=EXPOSED)


class CradledProgram:
    """A process of the fleet, with what the fleet needs of `subprocess.Popen`."""

    def __init__(self, started: Any) -> None:
        self._started = started
        self.pid: int = started.identity()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status once it has ended."""
        self.returncode = self._started.poll()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        code: int = self._started.wait(timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        self._started.send_signal(number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._started.terminate()

    def kill(self) -> None:
        """End it now."""
        self._started.kill()


class Cradle:
    """Starts programs; `close` ends it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """`environ` adds what must be there while the bot is loaded: the C library's front, and
        the certificates that some libraries read only then."""
        self._manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        with mock.patch.dict(os.environ, environ):
            self._manager.start()
        # The first waits until the bot is loaded, and others start as fast as they ever will.
        nowhere = Path(os.devnull)
        self.start(["--help"], os.environ, Path.cwd(), nowhere).wait()

    def start(
        self,
        arguments: list[str],
        environ: Mapping[str, str],
        directory: Path,
        log: Path,
        network: Path | None = None,
    ) -> CradledProgram:
        """`faultline ARGUMENTS` in a separate process, in that network namespace."""
        program = self._manager.program  # type: ignore[attr-defined]
        return CradledProgram(
            program(
                arguments,
                env=dict(environ),
                cwd=directory,
                out=log,
                log=log,
                network=network,
            )
        )

    def close(self) -> None:
        """End it; its programs have ended."""
        self._manager.shutdown()
