"""PyTorch's debug server: against a real one where PyTorch is at hand, and against answers that are
wrong."""

from __future__ import annotations

import asyncio
import gzip
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation.capture.debug_server import DebugServerClient
from faultline.loopback.bot_process import free_port
from tests.torch_python import torch_python

JOB = """
import os, time, torch, torch._dynamo, torch.distributed as dist
from torch.distributed.debug import start_debug_server
def stands_here():
    time.sleep(600)
other = os.fork()
os.environ["RANK"] = "0" if other else "1"
dist.init_process_group("gloo")
start_debug_server(port=int(os.environ["DEBUG_PORT"]))
if dist.get_rank() == 1:
    stands_here()
dist.all_reduce(torch.ones(1))
"""
"""Its second rank is forked, so that PyTorch is loaded once; and with it what it loads to tell its
first stack."""


class _Answers(BaseHTTPRequestHandler):
    """Answers by path; asked paths are kept on the server."""

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        status, body = self.server.answers.get(self.path.split("?")[0], (404, b""))  # type: ignore[attr-defined]
        self.server.asked.append(f"{self.command} {self.path}")  # type: ignore[attr-defined]
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _server(answers: dict[str, tuple[int, bytes]]) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.answers, server.asked = answers, []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _url(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_a_profile_is_asked_for_with_its_length_and_written_whole(tmp_path: Path) -> None:
    with _server({"/handler/torch_profile": (200, b'{"traceEvents": []}')}) as server:
        saved = asyncio.run(
            DebugServerClient(["127.0.0.1"]).profile(_url(server), 0.5, tmp_path / "rank0.json")
        )
        assert server.asked == ["POST /handler/torch_profile?duration=0.5"]  # type: ignore[attr-defined]
    assert saved.read_bytes() == b'{"traceEvents": []}'
    assert [p.name for p in tmp_path.iterdir()] == ["rank0.json"]


def test_ranks_on_hosts_that_the_settings_do_not_name_are_refused() -> None:
    page = (
        b"<h2>Rank 0: http://127.0.0.1:40001/handler/x?</h2> "
        b"<h2>Rank 1: http://169.254.169.254:40002/handler/x?</h2>"
    )
    with _server({"/wait_counters": (200, page)}) as server:
        found = asyncio.run(DebugServerClient(["127.0.0.1"]).discover(_url(server)))
    assert dict(found.by_rank) == {0: "http://127.0.0.1:40001"}
    assert found.refused == ("http://169.254.169.254:40002",)


@pytest.mark.parametrize(
    "named",
    [
        "http://127.0.0.1:2375",
        "http://127.0.0.1:32767",
        "http://127.0.0.1:61000",
        "http://127.0.0.1",
        "http://127.0.0.1:99999",
        "http://admin:admin@127.0.0.1:40001",
        "http://@127.0.0.1:40001",
        "http://127.0.0.1:40001/containers/create?name=",
        "http://127.0.0.1:40001/?",
        "http://127.0.0.1:40001/#",
        "http://127.0.0.1:40001;x",
        "http://127.0.0.1:40001\\x",
        "https://127.0.0.1:40001",
    ],
)
def test_a_page_names_only_a_host_and_a_port_that_the_settings_allow(named: str) -> None:
    page = f"<h2>Rank 0: {named}/handler/wait_counters?</h2>".encode()
    with _server({"/wait_counters": (200, page)}) as server:
        found = asyncio.run(DebugServerClient(["127.0.0.1"]).discover(_url(server)))
    assert found.by_rank == {}
    assert len(found.refused) == 1
    assert "admin:admin" not in found.refused[0]


def test_the_ports_of_the_ranks_can_be_narrowed() -> None:
    page = b"<h2>Rank 0: http://127.0.0.1:30000/handler/x?</h2>"
    with _server({"/wait_counters": (200, page)}) as server:
        client = DebugServerClient(["127.0.0.1"], ports=range(30000, 30008))
        found = asyncio.run(client.discover(_url(server)))
    assert dict(found.by_rank) == {0: "http://127.0.0.1:30000"}


def test_a_redirect_of_the_page_is_not_followed() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        asked.append(head.split("\r\n")[0])
        writer.write(b"HTTP/1.1 307 X\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    async def ask() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await DebugServerClient(["127.0.0.1"]).discover(url)

    asked: list[str] = []
    with pytest.raises(ConnectorError, match="HTTP 307"):
        asyncio.run(ask())
    assert asked == ["GET /wait_counters HTTP/1.1"]


def test_a_host_that_is_not_named_is_never_spoken_to(tmp_path: Path) -> None:
    with _server({}) as server:
        with pytest.raises(ConnectorError, match="do not name this host"):
            asyncio.run(DebugServerClient(["localhost"]).stacks(_url(server), tmp_path / "s.txt"))
        assert server.asked == []  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((500, b""), r"refused \(HTTP 500\)"),
        ((302, b""), "HTTP 302"),
        ((200, b"x" * 100), "longer than 10 bytes"),
    ],
)
def test_a_wrong_answer_is_one_clear_line_and_leaves_no_file(
    tmp_path: Path, answer: tuple[int, bytes], said: str
) -> None:
    with (
        _server({"/handler/torch_profile": answer}) as server,
        pytest.raises(ConnectorError, match=said),
    ):
        asyncio.run(
            DebugServerClient(["127.0.0.1"]).profile(
                _url(server), 0.1, tmp_path / "rank0.json", max_bytes=10
            )
        )
    assert list(tmp_path.iterdir()) == []


def test_no_server_is_one_clear_line(tmp_path: Path) -> None:
    with _server({}) as server:
        url = _url(server)
    with pytest.raises(ConnectorError, match="ConnectError"):
        asyncio.run(DebugServerClient(["127.0.0.1"]).stacks(url, tmp_path / "s.txt"))


@contextmanager
def _job(folder: Path, port: int) -> Iterator[None]:
    python, rendezvous = torch_python(), str(free_port())
    script = folder / "job.py"
    script.write_text(JOB)
    base = dict(os.environ) | {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": rendezvous,
        "WORLD_SIZE": "2",
    }
    with (folder / "job.log").open("wb") as log:
        environment = base | {"DEBUG_PORT": str(port)}
        job = subprocess.Popen(
            [python, str(script)], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()


def _discovered(client: DebugServerClient, frontend: str, log: Path) -> dict[int, str]:
    ends = time.monotonic() + 60
    while True:
        try:
            found = asyncio.run(client.discover(frontend)).by_rank
        except ConnectorError:
            found = {}
        if len(found) == 2:
            return dict(found)
        if "No module named" in log.read_text():
            pytest.skip("PyTorch's debug server lacks a package of its own (jinja2, tabulate)")
        if time.monotonic() > ends:
            raise AssertionError(log.read_text()[-2000:])
        time.sleep(0.3)


def test_an_answer_that_unpacks_to_gigabytes_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    bomb = gzip.compress(gzip.compress(bytes(64 << 20)))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nContent-Length: "
            f"{len(bomb)}\r\n\r\n"
        )
        writer.write(head.encode() + bomb)
        writer.close()

    async def ask() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await DebugServerClient(["127.0.0.1"]).flight_recorder(url, tmp_path / "rank0.json")

    with pytest.raises(ConnectorError, match="compressed"):
        asyncio.run(ask())
    assert list(tmp_path.iterdir()) == []
