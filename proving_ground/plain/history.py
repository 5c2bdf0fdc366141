"""An incident's series in a real Prometheus, and the alert that its rule raises there."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from faultline.lab.shop.tools import ToolMissing, find_prometheus
from faultline.loopback.bot_process import free_port
from proving_ground.plain.generator.incident import Incident
from proving_ground.plain.generator.rules import AlertRule, NoSignal

START_S = 30.0
LOOKBACK_S = 150
"""Files have no staleness markers: a pod that is gone would stay for five minutes."""
EVALUATED_S = 3600
"""How far back the rule is evaluated."""
PAGE_URL = "http://prometheus.monitoring:9090"


@dataclass(frozen=True)
class FiringAlert:
    """One series for which the rule fired."""

    labels: Mapping[str, str]
    started_at: float
    value: float


def write_history(incident: Incident, end: int, folder: Path) -> int:
    """Write the incident's series as blocks below `folder`; gives how many series there are.

    Raises ToolMissing.
    """
    promtool = Path(find_prometheus()).with_name("promtool")
    if not promtool.exists():
        raise ToolMissing(f"promtool is missing beside {find_prometheus()}")
    folder.mkdir(parents=True, exist_ok=True)
    exposition = incident.exposition(end)
    file = folder / "block.om"
    for text in exposition.blocks():
        file.write_text(text)
        command = [
            str(promtool),
            "tsdb",
            "create-blocks-from",
            "openmetrics",
            "-q",
            file.name,
            "data",
        ]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    file.unlink()
    return sum(len(series) for series in exposition.metrics.values())


@contextmanager
def running_history(folder: Path) -> Iterator[str]:
    """Prometheus on what was written there; gives its address. Raises ToolMissing."""
    (folder / "prometheus.yml").write_text("global: {scrape_interval: 1h}\n")
    port = free_port()
    command = [
        find_prometheus(),
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.path=data",
        "--storage.tsdb.retention.time=100y",
        f"--query.lookback-delta={LOOKBACK_S}s",
    ]
    url, log = f"http://127.0.0.1:{port}", folder / "prometheus.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + START_S
        while not is_ready(url):
            if process.poll() is not None or time.monotonic() > deadline:
                raise ToolMissing(f"Prometheus did not start: {log.read_text()[-300:]}")
            time.sleep(0.05)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=START_S)


def is_ready(url: str) -> bool:
    """Whether Prometheus answers there."""
    try:
        return httpx.get(f"{url}/-/ready", timeout=2).status_code == 200
    except httpx.TransportError:
        return False


def alert_of(incident: Incident, rule: AlertRule, url: str, end: int) -> FiringAlert:
    """The alert that fired first because of the incident. Raises NoSignal where none did."""
    step_s = max(15, incident.system.scrape_s)
    params: dict[str, str | int] = {"query": rule.expression, "step": step_s}
    params |= {"start": end - EVALUATED_S, "end": end}
    answer = httpx.get(f"{url}/api/v1/query_range", params=params, timeout=60).json()
    firing = []
    for series in answer["data"]["result"]:
        samples = [(float(at), float(value)) for at, value in series["values"]]
        began = samples[-1][0]
        for at, _ in reversed(samples):
            if began - at > 1.5 * step_s:
                break
            began = at
        lasted_s = samples[-1][0] - began
        is_due = began > end + incident.onset_s - 90 or incident.kind.story == "nothing"
        if lasted_s >= rule.for_s and is_due:
            labels = {k: v for k, v in series["metric"].items() if k != "__name__"}
            firing.append(FiringAlert(labels, began + rule.for_s, samples[-1][1]))
    if not firing:
        raise NoSignal(f"{rule.expression} holds for no series")
    return min(firing, key=lambda alert: alert.started_at)


def webhook_of(rule: AlertRule, alert: FiringAlert) -> dict[str, Any]:
    """The notification that Alertmanager would send."""
    labels = {**alert.labels, "alertname": rule.name, "severity": "critical"}
    started_at = datetime.fromtimestamp(alert.started_at, UTC).isoformat().replace("+00:00", "Z")
    annotations = {"summary": rule.summary, "description": f"Current value: {alert.value:.4g}"}
    entry = {
        "status": "firing",
        "labels": labels,
        "annotations": annotations,
        "startsAt": started_at,
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": f"{PAGE_URL}/graph?g0.expr={quote(rule.expression)}&g0.tab=1",
    }
    return {
        "version": "4",
        "groupKey": f'{{}}:{{alertname="{rule.name}"}}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "faultline",
        "groupLabels": {"alertname": rule.name},
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "http://alertmanager.monitoring:9093",
        "alerts": [entry],
    }


def question_of(rule: AlertRule, alert: FiringAlert) -> str:
    """What somebody would ask who was paged by it."""
    names = ("service", "app", "destination_workload", "consumergroup", "job", "instance")
    name = next((alert.labels[label] for label in names if label in alert.labels), "the site")
    complaint = "is slow" if "Latency" in rule.name else "fails"
    return f"{name.rpartition('/')[2]} {complaint}: {json.dumps(rule.summary)}"
