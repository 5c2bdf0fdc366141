"""Starts the shop's processes by fork, restarts those that die, and kills those out of memory.

Reads commands from standard input, one JSON object a line, and answers each with one line. When its
input ends, everything that it started ends too, so that nothing outlives whoever started the shop.
Forking from one process that has imported everything costs a tenth of starting Python each time.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faultline.lab.shop import exporter, proxy, service, shoppers
from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.tools import prefer

PROGRAMS: dict[str, Callable[[ShopPod], Awaitable[None]]] = {
    "service": service.serve,
    "shoppers": shoppers.serve,
    "exporter": exporter.serve,
    "proxy": proxy.serve,
}
TICK_S = 0.2
BACK_OFF_S = 3.0
"""A process that died starts again after that, as Kubernetes' kubelet waits before a restart."""
PATIENCE_S = 4.0
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Running:
    """One process, and when it starts again once it has died."""

    pod: ShopPod
    pid: int
    again_at: float | None = None


class ShopSupervisor:
    """Holds every process of the shop by its pod's name."""

    def __init__(self) -> None:
        self._running: dict[str, Running] = {}
        self._leaving: set[int] = set()
        self._guarded: dict[int, str] = {}
        self.died: list[str] = []
        """Lines about processes that ended by themselves."""

    def run(self) -> None:
        """Until the input ends."""
        waiting = b""
        while True:
            # Between two commands it looks after its processes.
            ready, _, _ = select.select([0], [], [], TICK_S)
            self._look()
            if not ready:
                continue
            read = os.read(0, 65_536)
            if not read:
                break
            *lines, waiting = (waiting + read).split(b"\n")
            for line in lines:
                print(json.dumps(self._obey(json.loads(line))), flush=True)  # noqa: T201
        self._stop_all()
        self._end_guarded()

    def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        if "start" in command:
            pod = ShopPod(**command["start"])
            old = self._running.get(pod.name)
            # The new one listens on the same port before the old one stops.
            self._running[pod.name] = Running(pod, self._fork(pod))
            if old is not None:
                self._retire(old, after_s=float(command.get("overlap_s", 0)))
        elif "guard" in command:
            pid = int(command["guard"])
            self._guarded[pid] = os.readlink(f"/proc/{pid}/cwd")
        elif "end" in command:
            # Whoever started the shop ends the others in order. Without this word it was killed.
            self._guarded.clear()
        pids = {name: process.pid for name, process in self._running.items()}
        died, self.died = self.died, []
        return {"pids": pids, "died": died}

    def _fork(self, pod: ShopPod) -> int:
        pid = os.fork()
        if pid:
            return pid
        # What the new process does; it never returns.
        code = 1
        try:
            # Ctrl-C in a terminal goes to a whole group: the supervisor ends its processes itself.
            os.setpgid(0, 0)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            nothing = os.open(os.devnull, os.O_RDWR)
            os.dup2(nothing, 0)
            os.dup2(2, 1)
            asyncio.run(_as_coroutine(pod))
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
        return 0

    def _retire(self, old: Running, after_s: float) -> None:
        if old.again_at is not None:
            return
        if after_s:
            time.sleep(after_s)
        with suppress(ProcessLookupError):
            os.kill(old.pid, signal.SIGTERM)
        self._leaving.add(old.pid)

    def _look(self) -> None:
        """Reap what has ended, kill what is too large, start again what died."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            self._ended(pid, status)
        now = time.monotonic()
        for process in self._running.values():
            if process.again_at is not None and now >= process.again_at:
                process.pid, process.again_at = self._fork(process.pod), None
            elif process.again_at is None and process.pod.memory_mb:
                self._bound_memory(process)

    def _ended(self, pid: int, status: int) -> None:
        if pid in self._leaving:
            self._leaving.discard(pid)
            return
        for process in self._running.values():
            if process.pid == pid:
                process.again_at = time.monotonic() + BACK_OFF_S
                self.died.append(f"{process.pod.name} ended with {status}")

    def _bound_memory(self, process: Running) -> None:
        """Kill it as the kernel does: without a word to the process."""
        with suppress(OSError, IndexError):
            resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * PAGE
            if resident > process.pod.memory_mb * 1_000_000:
                os.kill(process.pid, signal.SIGKILL)

    def _stop_all(self) -> None:
        alive = {process.pid for process in self._running.values() if process.again_at is None}
        for pid in alive:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE_S
        left = alive | self._leaving
        while left and time.monotonic() < deadline:
            left -= _reaped()
            time.sleep(0.02)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _end_guarded(self) -> None:
        for pid, folder in self._guarded.items():
            with suppress(OSError):
                # A number may belong to another process by now.
                if os.readlink(f"/proc/{pid}/cwd") == folder:
                    os.kill(pid, signal.SIGTERM)


def _reaped() -> set[int]:
    pids = set()
    with suppress(ChildProcessError):
        while True:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            pids.add(pid)
    return pids


async def _as_coroutine(pod: ShopPod) -> None:
    await PROGRAMS[pod.program](pod)


if __name__ == "__main__":
    # What is imported stays: forked processes share it, and do not look through it for garbage.
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    prefer()
    ShopSupervisor().run()
