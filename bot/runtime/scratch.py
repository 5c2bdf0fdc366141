"""Temporary files of a process that may be killed at any moment: what a dead one left, the next one
removes.

Everything that makes temporary files (ours, libraries, child processes) does so below one folder of
this process, which it holds by a lock that ends with it, however it ends.
"""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

PREFIX = "faultline-scratch-"
LOCK_NAME = "held"
MADE_WITHIN_S = 60.0
"""A folder without its lock is still being made, until it is as old as this."""

log = logging.getLogger("faultline.scratch")


class Scratch:
    """The folder for temporary files of this process and its children, from now until `remove`."""

    def __init__(self) -> None:
        root = Path(tempfile.gettempdir())
        self._before = (tempfile.tempdir, os.environ.get("TMPDIR"))
        self._folder_lock: tuple[Path, int] | None = None
        try:
            _remove_abandoned(root)
            # A new folder, and the lock that says that its process lives.
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
            lock = os.open(folder / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._folder_lock = (folder, lock)
        except OSError as error:  # a full disk: each task that needs a file says so
            log.warning(
                "cannot create a folder for temporary files in %s: %s", root, error.strerror
            )
        else:
            tempfile.tempdir = os.environ["TMPDIR"] = str(self._folder_lock[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it and all in it; temporary files are made where they were before."""
        tempfile.tempdir, variable = self._before
        if variable is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = variable
        if self._folder_lock is not None:
            folder, lock = self._folder_lock
            shutil.rmtree(folder, ignore_errors=True)
            os.close(lock)
            self._folder_lock = None


def _remove_abandoned(root: Path) -> None:
    """Remove the folders of this user's dead processes."""
    for folder in root.glob(f"{PREFIX}*"):
        try:
            status = folder.lstat()
            if status.st_uid == os.getuid() and _abandoned(folder, status.st_mtime):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:  # another process removes it as well, or it is not what it seems
            log.debug("%s: %s", folder.name, error.strerror)


def _abandoned(folder: Path, made: float) -> bool:
    try:
        # The temporary directory is everybody's: a link there may lead to any file.
        lock = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - made > MADE_WITHIN_S
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
