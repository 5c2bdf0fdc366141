"""A separate disk for a directory, which can fill up: a tmpfs, which needs the right to mount."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from pathlib import Path

BALLAST = "ballast"
CHUNK = 1 << 20


class Disk:
    """Mounted on `directory`; where that is not permitted `why_not` says so, and the directory is a
    usual one."""

    def __init__(self, directory: Path, megabytes: int) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        command = [
            "mount",
            "-t",
            "tmpfs",
            "-o",
            f"size={megabytes}m,mode=755",
            "faultline-turmoil",
            str(directory),
        ]
        try:
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=20)
            self.why_not = (
                ""
                if done.returncode == 0
                else "a tmpfs may not be mounted here (root, or unshare --mount)"
            )
        except OSError:
            self.why_not = "there is no mount program"

    def fill(self) -> None:
        """Until nothing more can be written."""
        if self.why_not:
            return
        with (self.directory / BALLAST).open("ab", buffering=0) as out:
            for size in (CHUNK, 4096, 1):
                try:
                    while True:
                        out.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """There is room again."""
        (self.directory / BALLAST).unlink(missing_ok=True)

    def unmount(self) -> None:
        """Give the directory back."""
        if not self.why_not:
            with contextlib.suppress(subprocess.TimeoutExpired):
                subprocess.run(
                    ["umount", "-l", str(self.directory)],
                    check=False,
                    capture_output=True,
                    timeout=20,
                )
