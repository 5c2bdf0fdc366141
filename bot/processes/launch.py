"""How `faultline serve` and `faultline worker` begin: they fork a nursery before they load much,
and the server forks its first worker once it has loaded what both need."""

from __future__ import annotations

import contextlib
import os
import sys
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from faultline.analysis.errors import FaultlineError
from faultline.bot.processes.worker_process import ForkedWorker, WorkerProcess
from faultline.bot.runtime import garbage
from faultline.bot.runtime.logs import configure_logging
from faultline.bot.runtime.nursery import (
    WORKER_NAME,
    Nursery,
    call_yourself,
    close_nursery,
    die_with_parent,
    fork_here,
    open_nursery,
    process_nursery,
)
from faultline.bot.runtime.scratch import Scratch
from faultline.bot.settings import Settings


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
            from faultline.bot.processes.supervisor import Supervisor
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
