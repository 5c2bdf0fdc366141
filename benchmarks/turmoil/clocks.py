"""Wall clocks that jump, one per process: a small library in front of the C library's, as time
namespaces shift the monotonic clock alone (time_namespaces(7)), and libfaketime breaks `time.sleep`
of a process once its clock is set back.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")
COMPILE_S = 60


class Clocks:
    """Compiles the library; `why_not` says why clocks cannot be moved on this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._library = directory / "clock.so"
        self.why_not = self._compile()

    def environ(self, name: str) -> dict[str, str]:
        """For a process whose clock goes by that name."""
        if self.why_not:
            return {}
        self.move(name, 0)
        return {**self.preload, "TURMOIL_CLOCK": str(self._file(name))}

    @property
    def preload(self) -> dict[str, str]:
        """For a process whose forks get clocks."""
        return {} if self.why_not else {"LD_PRELOAD": str(self._library)}

    def move(self, name: str, seconds: int) -> None:
        """From now on the clock is so much ahead; negative: behind. A process that starts keeps
        what is set."""
        file = self._file(name)
        with file.open("r+b" if file.exists() else "wb") as out:
            out.write(struct.pack("q", seconds))

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.clock"

    def _compile(self) -> str:
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        if compiler is None:
            return "no C compiler on PATH"
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [
            compiler,
            "-shared",
            "-fPIC",
            "-O1",
            "-o",
            str(self._library),
            str(SOURCE),
            "-ldl",
        ]
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=COMPILE_S
        )
        return (
            ""
            if done.returncode == 0
            else f"the clock could not be compiled: {done.stderr.splitlines()[:1]}"
        )
