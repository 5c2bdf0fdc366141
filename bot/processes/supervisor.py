"""`faultline serve` keeps one worker process alive beside itself."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path

log = logging.getLogger("faultline.supervisor")

RESTART_WAIT_S = (0.1, 15.0)
"""A worker that had been ready is restarted at once; one that dies before it is ready waits longer
each time."""
MARGIN_S = 3.0
"""A worker that has not ended so long after its grace period is killed."""


class Supervisor:
    """Starts the worker, restarts it when it dies, ends it with the server."""

    def __init__(self, config: Path | None, *, grace_s: float = 0.0) -> None:
        self._grace_s = grace_s
        self._command = [
            sys.executable,
            "-m",
            "bot.cli.main",
            "worker",
            "--supervised-by",
            str(os.getpid()),
        ]
        if config is not None:
            self._command += ["--config", str(config)]
        self._process: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Keep a worker running until cancelled."""
        shortest, longest = RESTART_WAIT_S
        wait = shortest
        try:
            while True:
                was_ready = await self._run_once()
                wait = shortest if was_ready else min(2 * wait, longest)
                log.warning("worker ended; restarting in %.1f s", wait)
                await asyncio.sleep(wait)
        finally:
            await self._end()

    async def _run_once(self) -> bool:
        """Start a worker and wait for its end; says whether it had been ready."""
        read, write = os.pipe()
        try:
            command = [*self._command, "--ready-fd", str(write)]
            self._process = await asyncio.create_subprocess_exec(*command, pass_fds=[write])
        finally:
            os.close(write)
        try:
            await self._process.wait()
            return os.read(read, 1) == b"1"
        finally:
            os.close(read)

    async def _end(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self._grace_s + MARGIN_S):
                await process.wait()
        except TimeoutError:
            process.kill()
