"""A real Alertmanager from Debian's package, for tests."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline.loopback.bot_process import free_port
from tests.debian_tools import debian_binary

START_S = 60.0
TEMPLATES = Path("/usr/share/prometheus/alertmanager")
INHIBITED = (
    "inhibit_rules:\n- {source_matchers: [severity=page], target_matchers: "
    "[severity=warn], equal: [service]}\n"
)


@contextmanager
def running_alertmanager(
    folder: Path, webhook: str | None = None, token: str = "", *, configuration: str = ""
) -> Iterator[str]:
    """Its address. Alerts go to the webhook at once, and again when they are over, unless a
    configuration says otherwise."""
    binary = _program(folder)
    port = free_port()
    (folder / "alertmanager.yml").write_text(configuration or _configuration(webhook, token))
    command = [
        str(binary),
        "--config.file=alertmanager.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--storage.path=data",
    ]
    with (folder / "alertmanager.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait(url, process, folder / "alertmanager.log")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=30)


def _program(folder: Path) -> Path:
    """Debian's program reads templates from a fixed place; where that is missing, a copy of it
    reads them here."""
    binary = debian_binary("prometheus-alertmanager", "usr/bin/prometheus-alertmanager")
    if TEMPLATES.is_dir():
        return binary
    for template in binary.parents[2].joinpath(str(TEMPLATES)[1:]).glob("*.tmpl"):
        shutil.copy(template, folder)
    here = b"./" * (len(bytes(TEMPLATES)) // 2)
    copy = folder / binary.name
    copy.write_bytes(binary.read_bytes().replace(bytes(TEMPLATES), here))
    copy.chmod(0o755)
    return copy


def _configuration(webhook: str | None, token: str) -> str:
    receiver = "receivers:\n- name: faultline\n"
    if webhook:
        receiver += (
            f"  webhook_configs:\n  - url: {webhook}\n    send_resolved: true\n"
            f"    http_config: {{authorization: {{credentials: {token}}}}}\n"
        )
    route = (
        "route: {receiver: faultline, group_by: [alertname], group_wait: 1s, group_interval: 1s}\n"
    )
    return route + receiver + INHIBITED


def _wait(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + START_S
    while time.monotonic() < ends:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/-/ready", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    pytest.fail(f"alertmanager is not ready: {log.read_text()[-1000:]}")


def post_alerts(url: str, *alerts: dict[str, str], since: datetime) -> None:
    """Alerts with these labels, as Prometheus sends them."""
    ends = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = [
        {
            "labels": labels,
            "annotations": {"summary": f"{labels['alertname']} of {labels.get('service')}"},
            "startsAt": since.isoformat(),
            "endsAt": ends,
            "generatorURL": "http://prometheus.example.com/graph?g0.expr=up",
        }
        for labels in alerts
    ]
    httpx.post(f"{url}/api/v2/alerts", json=body, timeout=30).raise_for_status()


def post_silence(url: str, *matchers: dict[str, Any]) -> str:
    """A silence of an hour; its id."""
    now = datetime.now(UTC)
    body = {
        "matchers": matchers,
        "startsAt": now.isoformat(),
        "endsAt": (now + timedelta(hours=1)).isoformat(),
        "createdBy": "dana",
        "comment": "cart is being moved",
    }
    answer = httpx.post(f"{url}/api/v2/silences", json=body, timeout=30).raise_for_status()
    return str(answer.json()["silenceID"])
