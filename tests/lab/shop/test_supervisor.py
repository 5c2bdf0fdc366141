"""The supervisor restarts what dies, and nothing outlives whoever started the shop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.running import free_ports

KILLED_STARTER = """
import json, os, signal, subprocess, sys
server = subprocess.Popen(["sleep", "300"])
supervisor = subprocess.Popen(
    [sys.executable, "-m", "faultline.lab.shop.supervisor"],
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
)
supervisor.stdin.write(json.dumps({"guard": server.pid}) + "\\n")
supervisor.stdin.flush()
supervisor.stdout.readline()
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class SpokenTo:
    """A supervisor, and one replica of the small shop's payments."""

    def __init__(self, room: Path) -> None:
        self.pod = ShopPod(
            "payments-eu-1", "payments", "service", "eu", free_ports(1), str(room), True
        )
        (room / "names.json").write_text("{}")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "faultline.lab.shop.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, **command: Any) -> dict[str, Any]:
        """One command, and what is answered."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def pid(self) -> int:
        """Of the replica."""
        return int(self.tell()["pids"][self.pod.name])

    def served(self) -> int:
        """The status of one request; 0 while nobody listens."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.pod.port}/charge", timeout=5).status_code
        except httpx.TransportError:
            return 0

    def close(self) -> None:
        """End its input, and wait."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def eventually(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[SpokenTo]:
    running = SpokenTo(tmp_path)
    running.tell(start=running.pod.as_json())
    eventually(lambda: running.served() == 200)
    yield running
    if running.process.poll() is None:
        running.close()


def test_what_dies_is_started_again_and_what_started_it_gone_all_is_gone(
    supervisor: SpokenTo,
) -> None:
    first = supervisor.pid()
    os.kill(first, signal.SIGKILL)
    eventually(lambda: supervisor.pid() != first and supervisor.served() == 200)
    second = supervisor.pid()
    supervisor.close()
    eventually(lambda: not is_alive(second))


def test_levers_are_moved_through_the_admin_endpoint(supervisor: SpokenTo) -> None:
    url = f"http://127.0.0.1:{supervisor.pod.port}"
    refused = httpx.post(f"{url}/admin/levers", json={"speed": 1}, timeout=10)
    assert refused.status_code == 400
    httpx.post(f"{url}/admin/levers", json={"error_share": 1}, timeout=10).raise_for_status()
    assert supervisor.served() == 500
    metrics = httpx.get(f"{url}/metrics", timeout=10).text
    assert 'http_requests_total{method="GET",route="/charge",status="500"}' in metrics


def test_a_process_above_its_memory_limit_is_killed(supervisor: SpokenTo) -> None:
    first = supervisor.pid()
    bounded = {**supervisor.pod.as_json(), "memory_mb": 150, "levers": {"leak_mb": 60}}
    supervisor.tell(start=bounded)
    died: list[str] = []

    def has_died() -> bool:
        supervisor.served()
        died.extend(supervisor.tell()["died"])
        return bool(died)

    eventually(has_died)
    assert died[0].startswith("payments-eu-1 ended with 9")
    assert not is_alive(first)


def test_what_a_killed_starter_left_is_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED_STARTER],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    server = int(done.stdout)
    eventually(lambda: not is_alive(server))
