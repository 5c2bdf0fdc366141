"""A way to PostgreSQL through TCP that can fall silent: it takes whatever is sent and passes
nothing on, as a network does whose other end died without a word."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


class BlackHole:
    """Passes bytes between clients and PostgreSQL's socket file, until it is `silent`."""

    def __init__(self, server_url: str) -> None:
        """`server_url` names a server that is reached through a socket file."""
        parts = urlsplit(server_url)
        directory = parse_qs(parts.query)["host"][0]
        (self._file,) = [one for one in Path(directory).glob(".s.PGSQL.*") if one.is_socket()]
        self.silent = threading.Event()
        self._stopping = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        port = self._listening.getsockname()[1]
        self.url = f"postgresql://{parts.username or 'postgres'}@127.0.0.1:{port}{parts.path}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """End all connections."""
        self._stopping.set()
        self._listening.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def _pass(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        swallowed = False
        with client, server, contextlib.suppress(OSError):
            server.connect(str(self._file))
            while not self._stopping.is_set():
                ready, _, _ = select.select([client, server], [], [], 0.05)
                for one in ready:
                    content = one.recv(65_536)
                    # What was lost stays lost: a connection that met silence never speaks again.
                    swallowed = swallowed or self.silent.is_set()
                    if not content and (one is client or not swallowed):
                        return
                    if not swallowed:
                        (server if one is client else client).sendall(content)
