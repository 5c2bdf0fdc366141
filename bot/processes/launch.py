"""How `faultline serve` and `faultline worker` begin: they fork a nursery before they load much,
and the server forks its first worker once it has loaded what both need.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from faultline.analysis.errors import FaultlineError
from faultline.bot.runtime import garbage
from faultline.bot.runtime.components import STOP_DEADLINE_S, BackgroundLoop
from faultline.bot.runtime.logs import configure_logging
from faultline.bot.runtime.nursery import (
    WORKER_NAME,
    Nursery,
    ProcessHandle,
    call_yourself,
    close_nursery,
    die_with_parent,
    fork_here,
    open_nursery,
    process_nursery,
)
from faultline.bot.runtime.scratch import Scratch
from faultline.bot.settings import Settings

# The process of a worker as the server beside it sees it: begun by a fork, or from nothing.


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


def serve(settings: Settings, config: Path | None, *, with_worker: bool = True) -> None:
    """Run until told to stop. Raises SettingsError for an address that cannot be listened on, and
    the like."""
    configure_logging(settings.telemetry, "web")
    refuse_what_cannot_serve(settings)
    # Before anything here starts a thread, and before the server is loaded: what a worker and its
    # processes do not need is not theirs.
    nursery = open_nursery()
    try:
        workers = Workers(settings, nursery)
        with garbage.loading():
            import faultline.bot.store.databases  # noqa: F401  what server and worker both need
        if with_worker:
            workers.begin_first()
        with garbage.loading():
            from faultline.bot.processes.server import serve_web

        workers.check_first()
        supervisor = Supervisor(config, grace_s=settings.worker.grace_s, fork=workers.next)
        try:
            with Scratch():
                serve_web(settings, [supervisor] if with_worker else [], config)
        finally:
            supervisor.stop()
    finally:
        close_nursery()


class Workers:
    """The workers of a server. The first is a fork of the server itself: what both need is loaded
    once. Later ones are forks of its nursery, because by then the server has threads."""

    def __init__(self, settings: Settings, nursery: Nursery) -> None:
        self._settings = settings
        self._nursery = nursery
        self._first: WorkerProcess | None = None
        self._error_pipe: Connection | None = None

    def begin_first(self) -> None:
        """Fork it; while this process has one thread."""
        self._error_pipe, says = Pipe(duplex=False)
        with says:
            self._first = ForkedWorker(fork_here, _work_first, self._settings, says)

    def check_first(self) -> None:
        """End the start where the worker would fail again and again. Raises FaultlineError."""
        if self._error_pipe is None:
            return
        with self._error_pipe, contextlib.suppress(EOFError):
            error = self._error_pipe.recv()
            if error is not None:
                raise error

    def next(self) -> WorkerProcess:
        """One to supervise. Raises OSError when the nursery has ended."""
        first, self._first = self._first, None
        return first or ForkedWorker(self._nursery.start, _work, self._settings)


def work(
    settings: Settings, *, supervised_by: int | None = None, ready_fd: int | None = None
) -> None:
    """Run a worker until told to stop. Ends the process."""
    call_yourself(WORKER_NAME)
    if supervised_by is not None:
        die_with_parent(supervised_by)
    os.nice(settings.worker.niceness)
    # A fork of a server has the server's.
    if process_nursery() is None:
        open_nursery()
    with garbage.loading():
        from faultline.bot.processes.worker import run_worker

    run_worker(settings, supervised_by=supervised_by, ready_fd=ready_fd)


def _work_first(settings: Settings, says: Connection, ready_fd: int) -> None:
    """The first worker's life. It says what is wrong with the settings, or that nothing is."""
    with says:
        try:
            refuse_what_cannot_work(settings)
        except FaultlineError as error:
            says.send(error)
            raise SystemExit(1) from error
        says.send(None)
    _work(settings, ready_fd)


def _work(settings: Settings, ready_fd: int) -> None:
    """A worker's life, in a fork."""
    try:
        work(settings, supervised_by=os.getppid(), ready_fd=ready_fd)
    except FaultlineError as error:
        sys.stderr.write(f"faultline: {error}\n")
        raise SystemExit(1) from error


def refuse_what_cannot_serve(settings: Settings) -> None:
    """Ends the start of a server without the tokens that it takes. Raises SettingsError."""
    for workspace in settings.per_instance("slack"):
        if workspace.slack.app_token is not None:
            from faultline.bot.intake.slack_socket import socket_mode_tokens

            socket_mode_tokens(workspace)


def refuse_what_cannot_work(settings: Settings) -> None:
    """Ends the start of a worker that would fail again and again. Raises FaultlineError.

    Only where there is a worker: vendors' keys are not the server's
    (faultline.bot.settings.environment).
    """
    from faultline.connectors.registry import build_connectors

    with garbage.loading():
        build_connectors(settings)
    if settings.recorded.case is not None:
        from faultline.connectors.vendors.recorded.connector import RecordedConnector

        RecordedConnector(settings.recorded.case).scope()


# `faultline serve` keeps one worker process alive beside itself.

log = logging.getLogger("faultline.supervisor")

RESTART_WAIT_S = (0.1, 15.0)
"""A worker that had been ready is restarted at once; one that dies before it is ready waits longer
each time."""
MARGIN_S = 3.0
"""A worker that has not ended this long after its grace period is killed."""


class Supervisor(BackgroundLoop):
    """Starts the worker, restarts it when it dies, ends it with the server. Each turn is the life
    of one worker.

    The kernel kills a worker when the thread that started it ends (see `die_with_parent`), so this
    thread must outlive it.
    """

    def __init__(
        self,
        config: Path | None,
        *,
        grace_s: float = 0.0,
        fork: Callable[[], WorkerProcess] | None = None,
    ) -> None:
        """`fork` starts a worker, or raises OSError: then, and without it, one is started as a
        program."""
        super().__init__(
            "supervisor",
            every_s=RESTART_WAIT_S[0],
            stop_deadline_s=grace_s + MARGIN_S + STOP_DEADLINE_S,
        )
        self._end_within_s = grace_s + MARGIN_S
        self._command = [
            sys.executable,
            "-m",
            "faultline.bot.cli.main",
            "worker",
            "--supervised-by",
            str(os.getpid()),
        ]
        if config is not None:
            self._command += ["--config", str(config)]
        self._fork = fork
        self._worker: WorkerProcess | None = None
        self._starting = threading.Lock()

    def turn(self) -> bool:
        """Run a worker until it ends, and say when the next one starts."""
        was_ready = self._run_worker()
        if not self.stopping.is_set():
            shortest, longest = RESTART_WAIT_S
            waited = self.every_s or shortest
            self.every_s = shortest if was_ready else min(2 * waited, longest)
            log.warning("worker exited; restarting in %.1f s", self.every_s)
        return False

    def stop(self) -> None:
        """End the worker: ask it to, and kill it if it does not."""
        self.stop_soon()
        # No worker is started once this lock was held, as `stopping` is set.
        with self._starting:
            worker = self._worker
        if worker is not None:
            worker.end(self._end_within_s)
        super().stop()

    def _run_worker(self) -> bool:
        """Start a worker and wait for its end; says whether it had been ready."""
        with self._starting:
            if self.stopping.is_set():
                return False
            worker = self._start_worker()
            self._worker = worker
        return worker.wait()

    def _start_worker(self) -> WorkerProcess:
        if self._fork is not None:
            with contextlib.suppress(OSError):
                return self._fork()
        return SpawnedWorker(self._command)
