"""Real servers for the connectors' tests."""

from __future__ import annotations

import math
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Request
from faultline.loopback.bot_process import free_port
from tests.connectors.local_http import LocalServer
from tests.debian_tools import debian_binary

ALERT_AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)
"""When the recorded incident's alert fired; it began ten minutes earlier."""
ONSET = ALERT_AT - timedelta(minutes=10)
PATIENT_S = 60.0


@pytest.fixture
def server() -> Iterator[LocalServer]:
    """A local HTTP server that answers what the test tells it to, and remembers what it was
    asked."""
    with LocalServer() as running:
        yield running


def request_for(
    folder: Path,
    *,
    services: tuple[str, ...] = (),
    job: str | None = None,
    alert: Alert | None = None,
) -> Request:
    """Half an hour of incident against two hours of baseline, as the bot asks."""
    incident = Window(start=ALERT_AT - timedelta(minutes=30), end=ALERT_AT)
    baseline = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    alert = alert or Alert(source="test", title="Checkout is slow", started_at=ALERT_AT)
    return Request(
        alert, Scope(incident=incident, baseline=(baseline,), services=services, job=job), folder
    )


@dataclass(frozen=True)
class RunningPrometheus:
    """A real Prometheus on loopback that holds a recorded incident."""

    url: str
    version: str


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPrometheus]:
    """Prometheus with three hours of samples of two services, a GPU host and one alert, imported as
    blocks."""
    with running_prometheus(tmp_path_factory.mktemp("prometheus"), open_metrics()) as server:
        yield server


@contextmanager
def running_prometheus(
    folder: Path, samples: str, rules: str = "groups: []\n", flags: Sequence[str] = ()
) -> Iterator[RunningPrometheus]:
    """A Prometheus that holds these samples, written as OpenMetrics text, and evaluates these
    rules."""
    binary = debian_binary("prometheus", "usr/bin/prometheus")
    promtool = debian_binary("prometheus", "usr/bin/promtool")
    (folder / "metrics.txt").write_text(samples)
    (folder / "rules.yml").write_text(rules)
    (folder / "prometheus.yml").write_text(
        "global: {scrape_interval: 1h}\nrule_files: [rules.yml]\n"
    )
    subprocess.run(
        [promtool, "tsdb", "create-blocks-from", "openmetrics", "metrics.txt", "data"],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    port = free_port()
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                "--config.file=prometheus.yml",
                f"--web.listen-address=127.0.0.1:{port}",
                "--storage.tsdb.path=data",
                "--storage.tsdb.retention.time=100y",
                "--web.enable-lifecycle",
                *flags,
            ],
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_until_ready(url, process, folder / "log")
        version = httpx.get(f"{url}/api/v1/status/buildinfo").json()["data"]["version"]
        yield RunningPrometheus(url, version)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _wait_until_ready(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    ends = time.monotonic() + PATIENT_S
    while time.monotonic() < ends:
        if process.poll() is not None:
            pytest.fail(f"prometheus ended: {log.read_text()[-500:]}")
        try:
            if httpx.get(f"{url}/-/ready", timeout=1).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    pytest.fail(f"prometheus was not ready in {PATIENT_S:g} s")


def open_metrics(
    alert_at: datetime = ALERT_AT,
    *,
    history: timedelta = timedelta(hours=3),
    sick: timedelta = timedelta(minutes=10),
    after: timedelta = timedelta(minutes=1),
) -> str:
    """Three hours at 15 s: checkout slows down and fails from ten minutes before the alert on, cart
    stays as it was."""
    onset = alert_at - sick
    first = int((alert_at - history).timestamp())
    times = range(first, int((alert_at + after).timestamp()), 15)
    series = OpenMetrics()
    for service in ("checkout", 'ca"rt'):
        _service(series, service, times, onset)
    for t in times:
        late = t >= onset.timestamp()
        labels = 'Hostname="node-1",gpu="3",hpc_job="llm-1"'
        series.add("DCGM_FI_DEV_GPU_TEMP", "gauge", labels, 91 if late else 62, t)
        series.add(
            "training_step_time_seconds", "gauge", 'training_job="llm-1"', 2.5 if late else 1.0, t
        )
        series.add(
            "empty_histogram_quantile", "gauge", 'service="checkout"', math.nan if late else 1.0, t
        )
        if t >= (onset + timedelta(minutes=2)).timestamp():
            state = "pending" if t < (onset + timedelta(minutes=5)).timestamp() else "firing"
            labels = (
                f'alertname="CheckoutSlow",alertstate="{state}",service="checkout",severity="page"'
            )
            series.add("ALERTS", "gauge", labels, 1, t)
        if t < (onset - timedelta(minutes=30)).timestamp():
            series.add(
                "ALERTS",
                "gauge",
                'alertname="CartSlow",alertstate="firing",service="ca\\"rt"',
                1,
                t,
            )
    return series.finished()


def _service(series: OpenMetrics, service: str, times: range, onset: datetime) -> None:
    name = service.replace('"', '\\"')
    good = bad = fast = slow = 0
    for t in times:
        late = t >= onset.timestamp() and service == "checkout"
        good, bad = good + (120 if late else 150), bad + (30 if late else 0)
        fast, slow = fast + (15 if late else 149), slow + (135 if late else 1)
        series.add("http_requests_total", "counter", f'service="{name}",code="200"', good, t)
        if service == "checkout":
            series.add("http_requests_total", "counter", f'service="{name}",code="503"', bad, t)
        for le, count in (("0.1", fast), ("1.0", fast + slow), ("+Inf", fast + slow)):
            labels = f'service="{name}",le="{le}"'
            series.add("http_request_duration_seconds_bucket", "unknown", labels, count, t)


class OpenMetrics:
    """OpenMetrics text: samples of one series together, families one after the other."""

    def __init__(self) -> None:
        self._families: dict[str, tuple[str, dict[str, list[str]]]] = {}

    def add(self, name: str, kind: str, labels: str, value: float, t: int) -> None:
        """One sample."""
        _, series = self._families.setdefault(name, (kind, {}))
        number = "NaN" if math.isnan(value) else f"{value}"
        series.setdefault(labels, []).append(f"{name}{{{labels}}} {number} {t}")

    def finished(self) -> str:
        """All of it."""
        lines = []
        for name, (kind, series) in self._families.items():
            lines.append(
                f"# TYPE {name.removesuffix('_total') if kind == 'counter' else name} {kind}"
            )
            lines += [line for samples in series.values() for line in samples]
        return "\n".join([*lines, "# EOF", ""])
