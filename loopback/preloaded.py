"""The command line in processes that begin as forks of one in which it is loaded already.

A program spends seconds of processor time on imports; a test run starts it a hundred times.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from faultline.analysis.analyzers import MODULES

COMMAND_LINE = "faultline.bot.cli.main"
CLONE_NEWNET = 0x40000000
"""setns(2)."""
LOADED = (
    "faultline.bot.processes.server",
    "faultline.bot.processes.worker",
    COMMAND_LINE,
    "faultline.bot.answer.pictures.png",
    "faultline.analysis.diagnosis",
    *MODULES,
)


class PreloadedProgram:
    """`faultline ARGUMENTS` as a separate process, with the methods of `subprocess.Popen` that
    whoever keeps a bot needs.

    What it prints, and what it logs, is added to those files, or goes where that of this process
    goes.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        out: Path | None = None,
        log: Path | None = None,
        network: Path | None = None,
    ) -> None:
        """`network` is the file of a network namespace (/proc/PID/ns/net) to live in."""
        self._arguments = [COMMAND_LINE, *arguments]
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(LOADED))
        life = _Life(self._arguments, dict(env), cwd, out, log, network)
        self._process: ForkServerProcess = context.Process(target=life.live)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """Its exit status once it has ended; below zero the signal that killed it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """As `returncode`."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def kill(self) -> None:
        """End it now."""
        self._process.kill()


def run_preloaded(
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 120.0,
) -> subprocess.CompletedProcess[str]:
    """`faultline ARGUMENTS` in a separate process, as `subprocess.run` with captured output.

    Raises subprocess.TimeoutExpired after it was killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, log = Path(folder) / "out", Path(folder) / "log"
        program = PreloadedProgram(
            arguments,
            env=os.environ if env is None else env,
            cwd=cwd or Path.cwd(),
            out=out,
            log=log,
        )
        try:
            code = program.wait(timeout)
        finally:
            # Harmless once it has ended.
            program.kill()
        return subprocess.CompletedProcess(
            [COMMAND_LINE, *arguments], code, out.read_text(), log.read_text()
        )


@dataclass(frozen=True)
class _Life:
    """What a fork needs to become a program."""

    arguments: list[str]
    environ: dict[str, str]
    directory: Path
    out: Path | None
    log: Path | None
    network: Path | None

    def live(self) -> None:
        """The life of the fork, as of `python -m faultline.bot.cli.main ARGUMENTS`."""
        if self.network is not None:
            with self.network.open() as namespace:
                if ctypes.CDLL(None).setns(namespace.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(f"{self.network} cannot be entered")
        os.environ.clear()
        os.environ.update(self.environ)
        os.chdir(self.directory)
        # A fork has the path of the process that it came from, so add what PYTHONPATH asks for.
        paths = [part for part in self.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
        sys.path[:0] = [path for path in paths if path not in sys.path]
        for stream, path in ((sys.stdout, self.out), (sys.stderr, self.log)):
            if path is not None:
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                os.dup2(file, stream.fileno())
                os.close(file)
        sys.argv = self.arguments
        # Run again as the main module, as it is where it begins as a program.
        sys.modules.pop(COMMAND_LINE, None)
        runpy.run_module(COMMAND_LINE, run_name="__main__", alter_sys=True)
