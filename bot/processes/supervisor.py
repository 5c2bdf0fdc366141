"""`faultline serve` keeps one worker process alive beside itself."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from faultline.bot.processes.worker_process import SpawnedWorker, WorkerProcess
from faultline.bot.runtime.components import STOP_DEADLINE_S, BackgroundLoop

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
