"""Each vendor's client takes the proxy and trusts the authority that the environment names."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from bot.settings import Settings
from bot.store.case_store import CaseStore
from connectors.environment_trust import proxy_of_environment
from connectors.registry import CONNECTORS
from tests.connectors.test_read_only import aws_credentials, stand_in
from tests.own_certificates import OwnAuthority

HOST = "api.vendor.example"
NOT_ASKED = ("recorded", "traces")
"""Neither speaks to a vendor's API."""
ASK_SLACK = f"""
import asyncio
from bot.answer.targets.slack.posts import slack_client
from connectors.slack.settings import SlackSettings

settings = SlackSettings(bot_token="xoxb-1", api_url="https://{HOST}/api")
asyncio.run(slack_client(settings).auth_test())
"""
NOT_SET = (
    "NO_PROXY",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "AWS_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)


class SecretVendor:
    """A server with TLS that answers everything with an empty object, and a proxy (RFC 9110,
    CONNECT) that leads to it whatever host is asked for."""

    def __init__(self, folder: Path) -> None:
        authority = OwnAuthority(folder)
        self.ca = authority.cert
        own = authority.issue("vendor", HOST, f"*.{HOST}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.cert, own.key)
        self.hosts: list[str] = []
        self.connected: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), self._connecting())
        for one in (self._server, self._proxy):
            one.daemon_threads = True
            one.block_on_close = False
            threading.Thread(target=one.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def proxy(self) -> str:
        """The proxy's address."""
        return f"http://127.0.0.1:{self._proxy.server_address[1]}"

    def close(self) -> None:
        """Stop both."""
        for one in (self._proxy, self._server):
            one.shutdown()
            one.server_close()

    def _answering(vendor: SecretVendor) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                vendor.hosts.append(self.headers.get("host", ""))
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler

    def _connecting(vendor: SecretVendor) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_CONNECT(self) -> None:
                vendor.connected.append(self.path)
                with socket.create_connection(vendor._server.server_address[:2]) as onward:
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


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretVendor]:
    """One that can be reached through the proxy of the environment alone."""
    running = SecretVendor(tmp_path)
    for name in (*NOT_SET, *(name.lower() for name in NOT_SET)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", running.proxy)
    monkeypatch.setenv("SSL_CERT_FILE", str(running.ca))
    aws_credentials(monkeypatch)
    yield running
    running.close()


@pytest.mark.parametrize("name", [name for name in CONNECTORS if name not in NOT_ASKED])
def test_every_client_uses_the_proxy_and_trusts_its_authority(
    name: str, vendor: SecretVendor
) -> None:
    tables = stand_in(name).settings(f"https://{HOST}")
    connector = CONNECTORS[name].configured(Settings.model_validate(tables))
    assert connector is not None
    check = asyncio.run(connector.check())
    assert vendor.connected, check.line
    assert {host.partition(":")[0] for host in vendor.connected} <= {HOST, f"sts.{HOST}"}
    # What came through the proxy was a TLS connection that was trusted.
    assert vendor.hosts, check.line


@pytest.mark.parametrize(
    ("environ", "proxy"),
    [
        ({}, None),
        ({"https_proxy": "proxy:3128"}, "http://proxy:3128"),
        ({"HTTPS_PROXY": "http://proxy:3128", "NO_PROXY": ".example"}, None),
        ({"HTTP_PROXY": "http://proxy:3128"}, None),
        ({"ALL_PROXY": "http://all:1"}, "http://all:1"),
    ],
)
def test_the_proxy_is_that_of_the_environment(
    environ: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert proxy_of_environment(f"https://{HOST}") == proxy


def test_slacks_own_client_uses_both(vendor: SecretVendor) -> None:
    # aiohttp reads its authorities when it is imported, so a process of its own is asked.
    asked = subprocess.run([sys.executable, "-c", ASK_SLACK], check=False, capture_output=True)
    assert vendor.connected == [f"{HOST}:443"], asked.stderr
    assert vendor.hosts == [HOST]


def test_the_store_of_cases_uses_both(vendor: SecretVendor) -> None:
    store = CaseStore("s3://cases/faultline", endpoint_url=f"https://{HOST}")
    assert store.get("20260302-120000-000000", "report.json") == b"{}"
    assert set(vendor.connected) == {f"{HOST}:443"}
