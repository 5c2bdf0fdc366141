"""Each vendor's client takes the proxy and trusts the authority that the environment names."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue

import pytest

from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.registry import CONNECTORS
from faultline.connectors.shared.transport.environment_trust import proxy_of_environment
from tests.connectors.connect_proxy import ConnectProxy
from tests.connectors.test_google_token import service_account
from tests.connectors.test_read_only import OVER_HTTP, aws_credentials, stand_in
from tests.own_certificates import OwnAuthority

HOST = "api.vendor.example"
NOT_ASKED = ("recorded", "traces")
"""Neither speaks to a vendor's API."""
ASK_SLACK = """
import asyncio
import sys
from faultline.bot.intake.slack_socket import start_socket_mode
from faultline.bot.answer.targets.slack.posts import slack_client
from faultline.bot.settings import Settings

async def ask(host):
    slack = {"bot_token": "xoxb-1", "app_token": "xapp-1", "api_url": f"https://{host}/api"}
    settings = Settings.model_validate({"slack": slack})
    await slack_client(settings.slack).auth_test()
    socket = await start_socket_mode(settings, None)
    await asyncio.to_thread(sys.stdin.readline)
    await socket.close_async()

for host in sys.argv[1:]:
    asyncio.run(ask(host))
"""
"""The Web API, and Socket Mode until a line comes, of one host after the other."""
NOT_SET = (
    "NO_PROXY",
    "ALL_PROXY",
    "HTTPS_PROXY",
    "AWS_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
)


class SecretVendor:
    """A server with TLS that answers everything with `answer`, and a proxy that leads to it."""

    def __init__(self, folder: Path) -> None:
        authority = OwnAuthority(folder)
        self.ca = authority.cert
        own = authority.issue("vendor", HOST, f"*.{HOST}", "localhost")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(own.cert, own.key)
        self.answer = "{}"
        """`HOST` in it becomes the host that was asked."""
        self.hosts: list[str] = []
        self.paths: SimpleQueue[str] = SimpleQueue()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        self._server.daemon_threads = True
        self._server.block_on_close = False
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.proxy = ConnectProxy(("127.0.0.1", self.port))

    @property
    def connected(self) -> list[str]:
        """The hosts that the proxy was asked for."""
        return self.proxy.connected

    @property
    def port(self) -> int:
        """The server's own port."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop both."""
        self.proxy.close()
        self._server.shutdown()
        self._server.server_close()

    def _answering(vendor: SecretVendor) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                vendor.hosts.append(self.headers.get("host", ""))
                vendor.paths.put(self.path)
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.send_response(200)
                self.send_header("content-type", "application/json")
                answer = vendor.answer.replace(HOST, self.headers.get("host", "")).encode()
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_GET

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Handler


@pytest.fixture
def vendor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SecretVendor]:
    """One that can be reached through the proxy of the environment alone."""
    running = SecretVendor(tmp_path)
    for name in (*NOT_SET, *(name.lower() for name in NOT_SET)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTPS_PROXY", running.proxy.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(running.ca))
    aws_credentials(monkeypatch)
    # The metadata server of a machine is reached without a proxy.
    key = service_account(tmp_path, f"https://{HOST}")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
    yield running
    running.close()


@pytest.mark.parametrize("name", [name for name in OVER_HTTP if name not in NOT_ASKED])
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


def test_slacks_clients_use_both_and_ask_hosts_of_no_proxy_directly(
    vendor: SecretVendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "localhost")
    vendor.answer = json.dumps({"ok": True, "url": f"wss://{HOST}/link"})
    direct = f"localhost:{vendor.port}"
    # aiohttp reads its authorities when it is imported, so a process of its own is asked.
    command = [sys.executable, "-c", ASK_SLACK, HOST, direct]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as asking:
        assert asking.stdin is not None
        for _ in (HOST, direct):
            paths = [vendor.paths.get(timeout=60) for _ in range(3)]
            # The last is the handshake of a web socket.
            assert paths == ["/api/auth.test", "/api/apps.connections.open", "/link"]
            asking.stdin.write(b"\n")
            asking.stdin.flush()
    assert vendor.hosts == [HOST] * 3 + [direct] * 3
    assert set(vendor.connected) == {f"{HOST}:443"}


def test_the_store_of_cases_uses_both(vendor: SecretVendor) -> None:
    store = CaseStore("s3://cases/faultline", endpoint_url=f"https://{HOST}")
    assert store.get("20260302-120000-000000", "report.json") == b"{}"
    assert set(vendor.connected) == {f"{HOST}:443"}
