"""How `faultline serve` and `faultline worker` begin: they load what both need, fork a nursery, and
only then load the rest."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import bot.store.opening  # noqa: F401  what server and worker both need
from analysis.errors import FaultlineError
from bot.processes.supervisor import Supervisor
from bot.processes.worker_process import ForkedWorker
from bot.runtime import garbage
from bot.runtime.logs import configure_logging
from bot.runtime.nursery import close_nursery, open_nursery
from bot.runtime.process_life import WORKER_NAME, call_yourself, die_with_parent
from bot.runtime.scratch import Scratch
from bot.settings import Settings
from connectors.registry import build_connectors


def serve(settings: Settings, config: Path | None, *, with_worker: bool = True) -> None:
    """Run until told to stop. Raises SettingsError for an address that cannot be listened on, and
    the like."""
    configure_logging(settings.telemetry, "web")
    refuse_what_cannot_work(settings, with_worker=with_worker)
    # Before anything here starts a thread, and before the server is loaded: what a worker and its
    # processes do not need is not theirs.
    fork = partial(ForkedWorker, open_nursery(), _work, settings)
    with garbage.loading():
        from bot.processes.server import serve_web

    supervisor = Supervisor(config, grace_s=settings.worker.grace_s, fork=fork)
    try:
        with Scratch():
            serve_web(settings, [supervisor] if with_worker else [])
    finally:
        supervisor.stop()
        close_nursery()


def work(
    settings: Settings, *, supervised_by: int | None = None, ready_fd: int | None = None
) -> None:
    """Run a worker until told to stop. Ends the process."""
    call_yourself(WORKER_NAME)
    if supervised_by is not None:
        die_with_parent(supervised_by)
    # First: what the nursery forks is as nice as the worker.
    os.nice(settings.worker.niceness)
    open_nursery()
    with garbage.loading():
        from bot.processes.worker import run_worker

    run_worker(settings, supervised_by=supervised_by, ready_fd=ready_fd)


def _work(settings: Settings, ready_fd: int) -> None:
    """A worker's life, in a fork of the server's nursery."""
    try:
        work(settings, supervised_by=os.getppid(), ready_fd=ready_fd)
    except FaultlineError as error:
        sys.stderr.write(f"faultline: {error}\n")
        raise SystemExit(1) from error


def refuse_what_cannot_work(settings: Settings, *, with_worker: bool) -> None:
    """Ends the start where the worker beside it would fail again and again."""
    for one in settings.each("slack"):
        if one.slack.app_token is not None:
            from bot.intake.slack_socket import socket_mode_tokens

            socket_mode_tokens(one)
    if not with_worker:
        # Vendors' keys are the workers', elsewhere: bot.settings.process_secrets.
        return
    build_connectors(settings)
    if settings.recorded.case is not None:
        from connectors.recorded.connector import RecordedConnector

        RecordedConnector(settings.recorded.case).scope()
