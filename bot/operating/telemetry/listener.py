"""A small HTTP server for those who operate the bot: fixed paths, only GET, in separate threads.

It is apart from the pages, so that what it serves is as public as its address and no more. It
answers also while the event loop stands still: that is what a health check must find out.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from faultline.analysis.errors import SettingsError
from faultline.bot.settings.processes import host_and_port

log = logging.getLogger("faultline.telemetry")

PATIENCE_S = 5.0
"""For one request to arrive, and for one answer to be taken."""
MAX_HEAD = 8_192
"""Bytes of a request."""
AT_ONCE = 8
"""Requests answered side by side; a further one is turned away, so that nobody fills the process
with threads."""


@dataclass(frozen=True)
class Page:
    """An answer."""

    body: str
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


Pages = Mapping[str, Callable[[], Page]]
"""Path to what makes its answer."""


class Listener:
    """Serves pages at `host:port` until stopped. Raises SettingsError naming `key` when it cannot
    listen there."""

    def __init__(self, address: str, pages: Pages, *, key: str) -> None:
        host, port = host_and_port(address)
        try:
            family = socket.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )[0][0]
            self._socket = socket.create_server((host, port), family=family, backlog=16)
        except (OSError, OverflowError, UnicodeError) as error:
            strerror = getattr(error, "strerror", None) or type(error).__name__
            raise SettingsError(key, f"cannot listen on {address} ({strerror})") from error
        self._pages = pages
        self._room = threading.BoundedSemaphore(AT_ONCE)
        bound = self._socket.getsockname()
        self.port = int(bound[1])
        self.address = f"[{bound[0]}]:{self.port}" if ":" in bound[0] else f"{bound[0]}:{self.port}"

    def start(self) -> None:
        """Serve from a separate thread."""
        threading.Thread(target=self._run, name="telemetry", daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        # Closing does not end a thread's wait in `accept`; this does.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _run(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                if self._socket.fileno() == -1:
                    return
                time.sleep(0.1)  # out of file descriptors, or nobody is there any more
                continue
            if not self._room.acquire(blocking=False):
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                line = _request_line(connection)
                if line is not None:
                    connection.settimeout(PATIENCE_S)
                    connection.sendall(_as_http(self._page(line)))
                    connection.shutdown(socket.SHUT_WR)
        finally:
            self._room.release()

    def _page(self, line: str) -> Page:
        method, _, rest = line.partition(" ")
        path = rest.partition(" ")[0].partition("?")[0]
        make = self._pages.get(path)
        if make is None:
            return Page("not found\n", 404)
        if method != "GET":
            return Page("only GET\n", 405)
        try:
            return make()
        # The edge: a page that fails says so, and the process goes on.
        except Exception as error:  # noqa: BLE001
            log.warning("cannot answer %s: %s", path, type(error).__name__)
            return Page("internal error\n", 500)


def _request_line(connection: socket.socket) -> str | None:
    """The first line of a request that came whole and in time; None where it did not."""
    ends, head = time.monotonic() + PATIENCE_S, b""
    while b"\r\n\r\n" not in head and b"\n\n" not in head:
        left = ends - time.monotonic()
        if left <= 0 or len(head) > MAX_HEAD:
            return None
        # One deadline for the whole request: bytes that trickle in do not extend it.
        connection.settimeout(left)
        more = connection.recv(2_048)
        if not more:
            return None
        head += more
    return head.split(b"\n", 1)[0].rstrip(b"\r").decode("latin-1")


def _as_http(page: Page) -> bytes:
    body = page.body.encode("utf-8", "replace")
    head = (
        f"HTTP/1.1 {page.status} {HTTPStatus(page.status).phrase}\r\ncontent-type: "
        f"{page.content_type}\r\n"
        f"content-length: {len(body)}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body
