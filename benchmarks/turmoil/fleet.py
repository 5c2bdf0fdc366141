"""The bot's processes, each restarted whenever it ends, as an init system or an orchestrator
does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

import psutil

from benchmarks.turmoil.cradle import Cradle, CradledProgram
from faultline.analysis.errors import FaultlineError
from faultline.bot.settings import ENV_PREFIX
from faultline.loopback.bot_process import worker_of

START_S = 300.0
RESTART_S = 0.2
AGAIN_S = 2.0
"""Before the next start of a process that ended by itself."""
STOP_S = 30.0


@dataclass
class Member:
    """One process: a web process when it has a port, else a worker."""

    name: str
    arguments: Sequence[str]
    environ: Mapping[str, str]
    port: int | None = None
    address: str = "127.0.0.1"
    network: Path | None = None
    """The network namespace of its host."""
    process: subprocess.Popen[bytes] | CradledProgram | None = None
    starts_at: float = 0.0
    struck: bool = False
    started_at: float = 0.0
    ready: bool = False
    """Whether this web process was seen to answer since its start."""
    ended: Counter[str] = field(default_factory=Counter)
    """How it ended when nobody had struck it."""
    lives: list[tuple[float, int]] = field(default_factory=list)
    """When each of its processes was started, by the monotonic clock, and its id."""

    @property
    def url(self) -> str:
        """Where a web process listens."""
        return f"http://{self.address}:{self.port}"

    def pid(self) -> int | None:
        """The process, while it runs."""
        return (
            self.process.pid if self.process is not None and self.process.poll() is None else None
        )

    def child(self) -> int | None:
        """The worker that a web process keeps beside itself."""
        pid = self.pid()
        return None if pid is None else worker_of(pid)


class Fleet:
    """All processes of one run; with a cradle they are its forks."""

    def __init__(self, directory: Path, cradle: Cradle | None = None) -> None:
        self.members: dict[str, Member] = {}
        self.start_s = 1.0
        """How long the web process that was started last took until it answered."""
        self._directory = directory
        self._cradle = cradle
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)

    def add(
        self,
        name: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        port: int | None = None,
        address: str = "127.0.0.1",
        network: Path | None = None,
    ) -> None:
        """One more, not started yet."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
        server_environ = {
            f"{ENV_PREFIX}SERVER__PORT": str(port),
            f"{ENV_PREFIX}SERVER__HOST": address,
        }
        environ = {**inherited, **environ, **(server_environ if port else {})}
        self.members[name] = Member(name, arguments, environ, port, address, network)

    @property
    def servers(self) -> list[Member]:
        """The web processes."""
        return [m for m in self.members.values() if m.port]

    def start(self) -> None:
        """Start all, the first web process first, and wait until every web process answers."""
        first, *rest = sorted(self.members.values(), key=lambda m: m.port is None)
        began = time.monotonic()
        for member in (first, *rest):
            self._start(member)
            deadline = time.monotonic() + START_S
            while member.port and not answers(member):
                if time.monotonic() > deadline or member.pid() is None:
                    raise FaultlineError(
                        f"{member.name} does not answer; see {self._directory}/{member.name}.log"
                    )
                time.sleep(0.1)
            self.start_s = time.monotonic() - began if member is first else self.start_s
        self._keeper.start()

    def strike(self, name: str, sign: signal.Signals) -> bool:
        """Send the signal to a process, or with `name:worker` to the worker beside it; whether it
        was there."""
        name, _, worker = name.partition(":")
        with self._lock:
            member = self.members[name]
            pid = member.child() if worker else member.pid()
            if pid is None:
                return False
            member.struck |= not worker
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
                return True
        return False

    def strike_all(self, name: str, sign: signal.Signals) -> None:
        """Send the signal to a process (as for `strike`) and all its children, as what stops a
        whole host does."""
        for pid in self.pids(name):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, sign)
        if sign == signal.SIGKILL and ":" not in name:
            self.members[name].struck = True

    def pids(self, name: str) -> list[int]:
        """A process and all its children."""
        name, _, worker = name.partition(":")
        pid = self.members[name].child() if worker else self.members[name].pid()
        try:
            children = psutil.Process(pid).children(recursive=True) if pid else []
        except psutil.Error:
            children = []
        return [pid, *(child.pid for child in children)] if pid else []

    def lived_s(self, name: str) -> float:
        """How long a process has been there; 0 when it is not."""
        name, _, worker = name.partition(":")
        pid = self.members[name].child() if worker else self.members[name].pid()
        try:
            return time.time() - psutil.Process(pid).create_time() if pid else 0.0
        except psutil.Error:
            return 0.0

    def targets(self) -> list[str]:
        """What `strike` takes: all processes, and workers beside web processes."""
        beside = [f"{m.name}:worker" for m in self.servers if "--no-worker" not in m.arguments]
        return [*self.members, *beside]

    def stop(self) -> None:
        """End them all."""
        self._ending.set()
        self._keeper.join(5)
        with self._lock:
            running = [
                m.process for m in self.members.values() if m.process and m.process.poll() is None
            ]
            for process in running:
                process.send_signal(signal.SIGCONT)
                process.terminate()
            for process in running:
                try:
                    process.wait(STOP_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def ended_by_themselves(self) -> Counter[str]:
        """Processes that ended without being stopped."""
        return Counter(
            {f"{m.name}: {how}": n for m in self.members.values() for how, n in m.ended.items()}
        )

    def _keep(self) -> None:
        while not self._ending.wait(RESTART_S):
            with self._lock:
                for member in self.members.values():
                    self._look_after(member)

    def _look_after(self, member: Member) -> None:
        process = member.process
        if process is not None and process.poll() is not None:
            member.process = None
            if not member.struck:
                member.ended[f"exit {process.returncode}"] += 1
            member.starts_at = time.monotonic() + (RESTART_S if member.struck else AGAIN_S)
        if member.process is None and time.monotonic() >= member.starts_at:
            self._start(member)
        elif member.port and member.process is not None and not member.ready and answers(member):
            member.ready = True
            self.start_s = time.monotonic() - member.started_at

    def _start(self, member: Member) -> None:
        member.struck = member.ready = False
        member.started_at = time.monotonic()
        path = self._directory / f"{member.name}.log"
        if self._cradle is not None:
            arguments = list(member.arguments)
            member.process = self._cradle.start(
                arguments, member.environ, self._directory, path, member.network
            )
            member.lives.append((time.monotonic(), member.process.pid))
            return
        enter = ["nsenter", f"--net={member.network}"] if member.network else []
        with path.open("ab") as log:
            member.process = subprocess.Popen(
                [*enter, sys.executable, "-m", "faultline.bot.cli.main", *member.arguments],
                env=dict(member.environ),
                cwd=self._directory,
                stdout=log,
                stderr=log,
            )
        member.lives.append((time.monotonic(), member.process.pid))


def answers(member: Member) -> bool:
    """Whether a web process takes requests."""
    try:
        with urllib.request.urlopen(f"{member.url}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (OSError, HTTPException):
        return False
