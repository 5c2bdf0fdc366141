"""A proxy on loopback (RFC 9110, CONNECT) that leads to one server, whatever host is asked for."""

from __future__ import annotations

import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class ConnectProxy:
    """It notes in `connected` which hosts were asked for."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.connected: list[str] = []
        self._target = target
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._connecting())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Take no more connections."""
        self._server.shutdown()
        self._server.server_close()

    def _connecting(proxy: ConnectProxy) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                proxy.connected.append(self.path)
                with socket.create_connection(proxy._target) as onward:
                    self.send_response(200)
                    self.end_headers()
                    back = threading.Thread(
                        target=_pass_on, args=(onward, self.connection), daemon=True
                    )
                    back.start()
                    _pass_on(self.connection, onward)
                    back.join(timeout=5)
                self.close_connection = True

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
