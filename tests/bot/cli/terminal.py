"""A program under a real terminal: what it shows, and what a person types."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 60.0


class Terminal:
    """The far end of a pseudo-terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self.seen = ""

    def wait_for(self, text: str) -> None:
        """Read on until it shows. Raises AssertionError where it does not."""
        until = time.monotonic() + PATIENCE_S
        while text not in self.seen:
            ready, _, _ = select.select([self._master], [], [], 0.1)
            if ready and not self._read():
                break
            if time.monotonic() > until:
                break
        assert text in self.seen, self.seen

    def type(self, line: str) -> None:
        """A line and the return key."""
        self.send(line.encode() + b"\r")

    def send(self, codes: bytes) -> None:
        """What the terminal itself answers."""
        os.write(self._master, codes)

    def rest(self) -> str:
        """All until the program's end."""
        while self._read():
            pass
        return self.seen

    def _read(self) -> bool:
        try:
            data = os.read(self._master, 65_536)
        except OSError:  # Linux' way to say that the other end is closed
            return False
        self.seen += data.decode().replace("\r\n", "\n")
        return bool(data)


@contextmanager
def in_terminal(
    command: Sequence[str], *, cwd: Path, env: Mapping[str, str]
) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """Start it with all three streams on one terminal. It is killed at the end."""
    master, slave = os.openpty()
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=cwd, env=env, start_new_session=True
    )
    os.close(slave)
    try:
        yield Terminal(master), process
    finally:
        process.kill()
        process.wait()
        os.close(master)
