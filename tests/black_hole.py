"""A network between the bot and PostgreSQL that can lose a host without a word.

A proxy on this machine: while it is silent it takes every byte, which the kernel acknowledges, and
passes none on; nothing is closed on either side. That is what a lost host behind a load balancer or
a paused machine looks like, and no keepalive finds it.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sqlalchemy.engine import make_url

PIECE = 65_536


class BlackHole:
    """The proxy before a PostgreSQL server's socket file. `url` leads through it."""

    def __init__(self, url: str) -> None:
        parsed = make_url(url)
        self._server = str(Path(str(parsed.query["host"])) / f".s.PGSQL.{parsed.port or 5432}")
        self._door = socket.create_server(("127.0.0.1", 0), backlog=64)
        self._passing = threading.Event()
        self._passing.set()
        self._open: list[socket.socket] = []
        # A server that is not asked by its name wants none of the parameters of its socket file.
        through = parsed.set(host="127.0.0.1", port=self._door.getsockname()[1])
        self.url = through.difference_update_query(["host"]).render_as_string(hide_password=False)
        threading.Thread(target=self._take, daemon=True).start()

    def fall_silent(self) -> None:
        """Swallow all bytes from now on, those of new connections too."""
        self._passing.clear()

    def pass_again(self) -> None:
        """Let new connections through; those that were open stay lost, as after a failover."""
        self._passing.set()

    def close(self) -> None:
        """End everything."""
        self._door.close()
        for one in self._open:
            with suppress(OSError):
                one.close()

    def _take(self) -> None:
        with suppress(OSError):
            while True:
                ours, _ = self._door.accept()
                self._open.append(ours)
                threading.Thread(target=self._carry, args=(ours,), daemon=True).start()

    def _carry(self, ours: socket.socket) -> None:
        if not self._passing.is_set():
            _swallow(ours)
            return
        theirs = socket.socket(socket.AF_UNIX)
        theirs.connect(self._server)
        self._open.append(theirs)
        lost = threading.Event()
        for source, sink in ((ours, theirs), (theirs, ours)):
            threading.Thread(target=self._pump, args=(source, sink, lost), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, lost: threading.Event) -> None:
        with suppress(OSError):
            while piece := source.recv(PIECE):
                if not self._passing.is_set():
                    lost.set()
                if not lost.is_set():
                    sink.sendall(piece)
            if not lost.is_set() and self._passing.is_set():
                sink.shutdown(socket.SHUT_WR)


def _swallow(from_: socket.socket) -> None:
    with suppress(OSError):
        while from_.recv(PIECE):
            pass


@contextmanager
def black_hole(url: str) -> Iterator[BlackHole]:
    """A proxy for the time of the block."""
    hole = BlackHole(url)
    try:
        yield hole
    finally:
        hole.close()
