"""The ping to a service that misses it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from faultline.bot.operating.telemetry.ping import Ping, PingError


@pytest.fixture
def service() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """A service that is pinged: its address, and the paths and bodies that came."""
    came: list[tuple[str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"])).decode()
            came.append((self.path, body))
            self.send_response(404 if "unknown" in self.path else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", came
    server.shutdown()
    server.server_close()
    thread.join()


def test_it_says_that_all_is_well_or_what_is_not(
    service: tuple[str, list[tuple[str, str]]],
) -> None:
    url, came = service
    problem: list[str | None] = [None, "the store took no write for 70 s"]
    ping = Ping(f"{url}/uuid?create=1", lambda: problem.pop(0))
    ping.turn()
    ping.turn()
    assert came == [
        ("/uuid?create=1", "ok"),
        ("/uuid/fail?create=1", "the store took no write for 70 s"),
    ]


def test_an_address_that_does_not_take_it_is_an_error(
    service: tuple[str, list[tuple[str, str]]],
) -> None:
    with pytest.raises(PingError, match="answered 404"):
        Ping(f"{service[0]}/unknown", lambda: None).turn()
