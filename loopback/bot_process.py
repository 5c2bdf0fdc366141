"""Starts the real bot, `faultline serve`, as a separate process, and speaks to it as PagerDuty
does."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self

import httpx

from faultline.analysis.errors import FaultlineError
from faultline.bot.runtime.nursery import WORKER_NAME
from faultline.bot.settings import ENV_PREFIX
from faultline.loopback.preloaded import COMMAND_LINE, PreloadedProgram

START_TIMEOUT_S = 300.0
PORTS = range(10_000, 32_000)
"""Below those that the kernel gives to outgoing connections (32768 on Linux): what is free stays so
until it is used."""


def child_pids(pid: int) -> list[int]:
    """The children of a process, whichever of its threads started them."""
    parts: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        # A process, or one of its threads, may end while it is read.
        with contextlib.suppress(OSError):
            parts += [int(child) for child in thread.read_text().split()]
    return parts


def worker_of(server_pid: int) -> int | None:
    """The worker that a server keeps beside itself, if it runs just now; a server has other
    children too, and its nursery has some."""
    children = child_pids(server_pid)
    for child in children.copy():
        children += child_pids(child)
    for child in children:
        with contextlib.suppress(OSError):
            # A fork of the server calls itself so, a program has the command's name from the start.
            process = Path(f"/proc/{child}")
            if (process / "comm").read_text().strip() == WORKER_NAME:
                return child
            if WORKER_NAME.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                return child
    return None


class BotProcess:
    """`faultline serve` on a loopback port, with settings from `environ` and everything durable in
    `directory`.

    With `log` its standard error is added to that file; `preloaded` spares it its imports.
    """

    def __init__(
        self,
        directory: Path,
        environ: Mapping[str, str],
        *,
        port: int = 0,
        serve: tuple[str, ...] = (),
        log: Path | None = None,
        preloaded: bool = False,
    ) -> None:
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._arguments = ["serve", *serve]
        self._preloaded = preloaded
        self._directory = directory
        # The settings of the calling process must not reach the bot.
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(ENV_PREFIX)}
        self._environ = {
            **inherited,
            f"{ENV_PREFIX}SERVER__PORT": str(self.port),
            f"{ENV_PREFIX}SERVER__PUBLIC_URL": self.url,
            f"{ENV_PREFIX}STORE__DIRECTORY": str(directory / "state"),
            **environ,
        }
        self._log = log
        self._process: subprocess.Popen[bytes] | PreloadedProgram | None = None

    def start(self) -> None:
        """Start it and wait until it takes webhooks."""
        self._process = self._begun()
        # Imports take seconds on a busy machine, hence the long limit.
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                code = self._process.returncode
                raise FaultlineError(f"the bot ended with {code} while starting{self._last_line()}")
            try:
                if httpx.get(f"{self.url}/healthz", timeout=2).status_code == 200:
                    return
            # Nothing listens there yet.
            except httpx.TransportError:
                time.sleep(0.05)
        raise FaultlineError(f"the bot did not answer within {START_TIMEOUT_S:g} s")

    def _begun(self) -> subprocess.Popen[bytes] | PreloadedProgram:
        if self._preloaded:
            return PreloadedProgram(
                self._arguments, env=self._environ, cwd=self._directory, log=self._log
            )
        command = [sys.executable, "-m", COMMAND_LINE, *self._arguments]
        with contextlib.ExitStack() as opened:
            log = opened.enter_context(self._log.open("ab")) if self._log is not None else None
            return subprocess.Popen(command, env=self._environ, cwd=self._directory, stderr=log)

    def _last_line(self) -> str:
        if self._log is None or not self._log.exists():
            return ""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    @property
    def environ(self) -> Mapping[str, str]:
        """The environment in which another process of the same bot can be started."""
        return self._environ

    @property
    def pid(self) -> int:
        """The web process."""
        assert self._process is not None
        return self._process.pid

    def worker_pid(self) -> int | None:
        """The worker process beside it, if it runs just now."""
        return worker_of(self.pid)

    def kill(self) -> None:
        """kill -9 the web process; its worker goes with it."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Ask it to end, and wait."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            # A bot that hangs must not block its tests.
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def is_unused(port: int) -> bool:
    """Whether nobody listens on it."""
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port that nobody listens on, and that no other process is given while this one runs."""
    while True:
        port = secrets.choice(PORTS)
        if sys.platform == "linux":
            # Seconds pass until a program listens there, and many tests start programs at the same
            # time. The reservation is a name without a file, which goes with the process.
            reservation = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                reservation.bind(f"\0faultline-port-{port}")
            except OSError:
                reservation.close()
                continue
            # Whoever closes it would give the port away.
            reservation.detach()
        if is_unused(port):
            return port


def signed_webhook(
    secret: str, event: Mapping[str, Any], *, delivery: str | None = None
) -> tuple[bytes, dict[str, str]]:
    """Body and headers of a PagerDuty V3 webhook, signed as PagerDuty signs it."""
    body = json.dumps({"event": event}).encode()
    signature = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "content-type": "application/json",
        "user-agent": "PagerDuty-Webhook/V3.0",
        "x-webhook-id": delivery or str(uuid.uuid4()),
        "x-pagerduty-signature": f"v1={signature}",
    }
    return body, headers


def incident_event(
    *,
    incident: str,
    title: str,
    service: str,
    at: datetime,
    kind: str = "incident.triggered",
    base: str,
) -> dict[str, Any]:
    """The `event` of a PagerDuty V3 webhook about one incident; `base` is the account's address."""
    return {
        "id": str(uuid.uuid4()),
        "event_type": kind,
        "resource_type": "incident",
        "occurred_at": at.isoformat(),
        "agent": None,
        "client": None,
        "data": {
            "id": incident,
            "type": "incident",
            "self": f"{base}/incidents/{incident}",
            "html_url": f"{base}/incidents/{incident}",
            "number": 1,
            "status": "resolved" if kind == "incident.resolved" else "triggered",
            "incident_key": f"key-{incident}",
            "created_at": at.isoformat(),
            "title": title,
            "service": {
                "id": "PSERVICE",
                "type": "service_reference",
                "summary": service,
                "html_url": None,
            },
            "urgency": "high",
            "priority": None,
        },
    }
