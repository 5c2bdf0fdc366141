"""Locks by which a worker shows that it lives, and finds out which others are dead.

Every executor holds a lock on its id for as long as it lives. A worker that can take the lock of
another knows that it is dead. On one machine a lock is a locked file; on several it is an advisory
lock of PostgreSQL: `faultline.bot.queue.advisory_locks`.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Protocol

from sqlalchemy import Engine


class ExecutorLocks(Protocol):
    """Locks by executor id that die with their holder."""

    def hold(self, executor_id: str) -> None:
        """Take the lock for the life of this process. Raises FaultlineError when another process
        holds it."""

    def lost(self) -> bool:
        """Whether the lock taken by `hold` is gone."""

    def beat(self) -> bool:
        """Give a sign of life; whether nobody has declared this executor lost."""

    def fence(self, engine: Engine, on_lost: Callable[[], None]) -> None:
        """From now on the engine commits nothing once another has declared this executor lost."""

    def release(self) -> None:
        """Give the lock back: from now on this executor counts as dead."""

    def take_if_dead(self, executor_id: str) -> AbstractContextManager[bool]:
        """Yields whether the executor is dead; its lock is held inside the block."""

    def exclusive(self, lock: str) -> AbstractContextManager[bool]:
        """Yields whether nobody else does this duty just now; nobody else does inside the block."""

    def live_executors(self) -> int:
        """How many executors hold their lock."""


class FileLocks:
    """flock on a file per executor, for workers that share a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock_file: IO[str] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def hold(self, executor_id: str) -> None:
        """Keep the file open and locked. Waits for a peer that looks at it just now."""
        # The open file is the lock: the kernel releases it however the process dies.
        self._lock_file = (self._directory / f"{executor_id}.lock").open("w")
        fcntl.flock(self._lock_file, fcntl.LOCK_EX)

    def lost(self) -> bool:
        """A file lock is lost only with the process."""
        return False

    def beat(self) -> bool:
        """Not needed: the lock's host is the machine itself."""
        return True

    def fence(self, engine: Engine, on_lost: Callable[[], None]) -> None:
        """Not needed: nobody takes the lock of a process that lives."""

    def release(self) -> None:
        """Close the file."""
        if self._lock_file is not None:
            self._lock_file.close()

    @contextmanager
    def take_if_dead(self, executor_id: str) -> Iterator[bool]:
        """Try the lock without waiting."""
        path = self._directory / f"{executor_id}.lock"
        with path.open("a") as file:
            if not _locked(file, fcntl.LOCK_EX):
                yield False
                return
            yield True
            path.unlink(missing_ok=True)

    @contextmanager
    def exclusive(self, lock: str) -> Iterator[bool]:
        """A lock on a file that stays."""
        with (self._directory / f"{lock}.duty").open("a") as file:
            yield _locked(file, fcntl.LOCK_EX)

    def live_executors(self) -> int:
        """How many files are locked."""
        live_executors = 0
        for path in self._directory.glob("*.lock"):
            with suppress(FileNotFoundError), path.open("r") as file:
                # A shared lock: two processes that count at once do not see each other's.
                live_executors += not _locked(file, fcntl.LOCK_SH)
        return live_executors


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
