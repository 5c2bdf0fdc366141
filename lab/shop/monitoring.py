"""A real Prometheus that watches the shop, and the alert rules that it evaluates."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.tools import ToolMissing, find_prometheus, prefer

START_S = 20.0
RANGE_SCRAPES = 4
"""`rate()` looks back that many scrapes, as Grafana's $__rate_interval does."""
FOR_SCRAPES = 2
SLOW_S = {"web": 1.0, "checkout": 0.8}
"""Alerts are about what customers feel: the front door, and the service that takes the money."""
FAILED_SHARE = 0.05
BACKLOG = 40
TARGETS, RULES = "targets.json", "rules.yml"


@dataclass(frozen=True)
class ShopPrometheus:
    """The running server."""

    url: str
    room: Path
    interval_s: float
    pid: int | None
    """None if somebody else started it."""
    client: httpx.Client
    """One for all questions: making one takes longer than asking."""

    def set_rules(self, wrong_threshold_s: float | None = None) -> None:
        """Write the rules, with one whose threshold is wrong if asked, and have them read."""
        write_rules(self.room, self.interval_s, wrong_threshold_s)
        self.client.post(f"{self.url}/-/reload").raise_for_status()

    def value(self, query: str) -> float | None:
        """The first value of an instant query."""
        answer = self.client.get(f"{self.url}/api/v1/query", params={"query": query})
        result = answer.json()["data"]["result"]
        return float(result[0]["value"][1]) if result else None


@contextmanager
def running_prometheus(
    room: Path, port: int, interval_s: float, alerts_to: str
) -> Iterator[ShopPrometheus]:
    """Scrape what the targets file lists, evaluate the rules, send alerts to that address."""
    program = find_prometheus()
    write_rules(room, interval_s, None)
    (room / "prometheus.yml").write_text(_configuration(interval_s, alerts_to))
    command = [
        program,
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
        "--storage.tsdb.path=prometheus-data",
        "--web.enable-lifecycle",
    ]
    with (room / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=room,
            stdout=log,
            stderr=log,
            # A separate session: Ctrl-C in the terminal is for whoever started the shop.
            start_new_session=True,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        prefer(process.pid)
        with httpx.Client(timeout=10) as client:
            _wait_until_ready(url, client, process, room / "prometheus.log")
            yield ShopPrometheus(url, room, interval_s, process.pid, client)
    finally:
        process.terminate()
        process.wait(timeout=START_S)


@contextmanager
def prometheus_elsewhere(room: Path, url: str, interval_s: float) -> Iterator[ShopPrometheus]:
    """One that somebody else runs, and that reads targets and rules from this folder."""
    write_rules(room, interval_s, None)
    with httpx.Client(timeout=10) as client:
        yield ShopPrometheus(url, room, interval_s, None, client)


def _wait_until_ready(
    url: str, client: httpx.Client, process: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if client.get(f"{url}/-/ready").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    raise ToolMissing(f"Prometheus did not start: {log.read_text()[-300:]}")


def write_targets(room: Path, pods: Iterable[ShopPod]) -> None:
    """Who is scraped, with the labels that a service discovery would give."""
    groups: list[dict[str, Any]] = []
    for pod in pods:
        labels = {"service": pod.service, "cluster": pod.cluster, "pod": pod.name}
        if pod.program == "service":
            groups.append({"targets": [f"127.0.0.1:{pod.port}"], "labels": labels})
        if pod.program == "exporter":
            for path, service in (("/redis", "shop-redis"), ("/postgres", "shop-db")):
                store_labels = {"service": service, "cluster": "eu", "__metrics_path__": path}
                groups.append({"targets": [f"127.0.0.1:{pod.port}"], "labels": store_labels})
    # Prometheus reads the file when it changes, and must not see half of it.
    part = room / f"{TARGETS}.part"
    part.write_text(json.dumps(groups))
    part.rename(room / TARGETS)


def _configuration(interval_s: float, alerts_to: str) -> str:
    every = f"{interval_s:g}s"
    return f"""\
global: {{scrape_interval: {every}, scrape_timeout: {every}, evaluation_interval: {every}}}
rule_files: [{RULES}]
alerting:
  alertmanagers:
  - static_configs: [{{targets: ["{alerts_to}"]}}]
scrape_configs:
- job_name: shop
  file_sd_configs: [{{files: [{TARGETS}]}}]
"""


def write_rules(room: Path, interval_s: float, wrong_threshold_s: float | None) -> None:
    """The alert rules: errors and latency of what customers feel, and the backlog of orders."""
    wait = f"{FOR_SCRAPES * interval_s:g}s"
    over = f"{RANGE_SCRAPES * interval_s:g}s"
    rules = []
    for service, slow_s in SLOW_S.items():
        rules += [_slow(service, slow_s, over, wait), _failing(service, over, wait)]
    rules.append(
        _rule(
            "OrdersBacklog",
            f'redis_stream_length{{stream="orders"}} > {BACKLOG}',
            wait,
            "orders",
            "Orders wait in the queue: {{ $value | humanize }} messages",
        )
    )
    if wrong_threshold_s is not None:
        rules.append(_slow("catalog", wrong_threshold_s, over, wait))
    # JSON is YAML.
    groups = {"groups": [{"name": "shop", "rules": rules}]}
    (room / RULES).write_text(json.dumps(groups, indent=1))


def _slow(service: str, slow_s: float, over: str, wait: str) -> dict[str, Any]:
    buckets = f'rate(http_request_duration_seconds_bucket{{service="{service}"}}[{over}])'
    return _rule(
        f"{service.capitalize()}LatencyHigh",
        f"histogram_quantile(0.95, sum by (le, service, cluster) ({buckets})) > {slow_s:g}",
        wait,
        service,
        f"{service} p95 latency is above {slow_s * 1000:g} ms in {{{{ $labels.cluster }}}}",
    )


def _failing(service: str, over: str, wait: str) -> dict[str, Any]:
    total = f'sum by (service, cluster) (rate(http_requests_total{{service="{service}"}}[{over}]))'
    # A cluster without any failed request has no series here, and so no alert.
    failed = total.replace('"}[', '",status=~"5.."}[')
    return _rule(
        f"{service.capitalize()}ErrorsHigh",
        f"{failed} / {total} > {FAILED_SHARE:g}",
        wait,
        service,
        f"{service} error rate is above {FAILED_SHARE:.0%} in {{{{ $labels.cluster }}}}",
    )


def _rule(name: str, expression: str, wait: str, service: str, summary: str) -> dict[str, Any]:
    return {
        "alert": name,
        "expr": expression,
        "for": wait,
        "labels": {"severity": "page", "service": service},
        "annotations": {"summary": summary},
    }
