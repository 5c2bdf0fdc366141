"""Real programs, and a real Prometheus that scrapes them every second, for one module of tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Request
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.exporter_metrics import built_in
from faultline.loopback.bot_process import free_port
from tests.debian_tools import debian_binary, debian_root, unavailable

SCRAPES = 6
"""A rate is taken over four scrapes, and a fact holds at two points."""
WINDOW = timedelta(seconds=12)
"""How often is scraped is counted in thirds of it, each of which should be full."""
START_S = 120.0
END_S = 20.0
POLL_S = 0.05


@dataclass(frozen=True)
class Scraped:
    """A job of Prometheus with one target on loopback."""

    job: str
    port: int
    path: str = "/metrics"
    params: Mapping[str, Sequence[str]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)

    def configured(self) -> dict[str, object]:
        """Its entry in Prometheus' settings."""
        target = {"targets": [f"127.0.0.1:{self.port}"], "labels": dict(self.labels)}
        return {
            "job_name": self.job,
            "metrics_path": self.path,
            "params": {name: list(values) for name, values in self.params.items()},
            "static_configs": [target],
        }


class Programs:
    """What was started in one folder. All of it writes to one log."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.folder = folder
        self._stack = stack
        self._log = stack.enter_context((folder / "log").open("wb"))

    def start(self, *command: str | Path, env: Mapping[str, str] | None = None) -> None:
        """Run it until the end of the block, with whatever it starts itself."""
        process = subprocess.Popen(
            [str(one) for one in command],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        self._stack.callback(_end, process)

    def until(self, is_ready: Callable[[], bool], what: str) -> None:
        """Wait for it; fail with the end of the log."""
        ends = time.monotonic() + START_S
        while time.monotonic() < ends:
            with suppress(httpx.TransportError, OSError):
                if is_ready():
                    return
            time.sleep(POLL_S)
        log = (self.folder / "log").read_text(errors="replace")
        pytest.fail(f"{what} not within {START_S:g} s: {log[-1500:]}")

    def until_answers(self, url: str) -> None:
        """Wait for a 2xx."""
        self.until(lambda: httpx.get(url).is_success, f"an answer of {url}")

    def scraping(self, *targets: Scraped) -> str:
        """The address of a Prometheus that has scraped each of them some times."""
        port = free_port()
        settings = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [one.configured() for one in targets],
        }
        # JSON is YAML.
        (self.folder / "prometheus.yml").write_text(json.dumps(settings))
        self.start(
            debian_binary("prometheus", "usr/bin/prometheus"),
            "--config.file=prometheus.yml",
            f"--web.listen-address=127.0.0.1:{port}",
            "--storage.tsdb.path=prometheus-data",
        )
        url = f"http://127.0.0.1:{port}"
        self.until(lambda: _scraped(url) == len(targets), "scrapes of each target")
        return url


@contextmanager
def programs(folder: Path) -> Iterator[Programs]:
    """Start programs in this folder; all of them have ended after the block."""
    with ExitStack() as stack:
        yield Programs(folder, stack)


def debian_program(package: str, path: str = "", *needed: str) -> Path:
    """A program of a Debian package, by default that of the package's name, unpacked with the
    packages it needs."""
    return debian_root(package, *needed) / (path or f"usr/bin/{package}")


def wheel_program(name: str) -> Path:
    """A program that a wheel among the tools of development brings, on machines that it is built
    for."""
    program = Path(sys.executable).with_name(name)
    if not program.exists():
        unavailable(f"no wheel brings {name} to this machine")
    return program


def collected_lately(url: str, folder: Path) -> Collected:
    """What the connector brings of the last seconds."""
    now = datetime.now(UTC)
    incident = Window(start=now - WINDOW, end=now)
    baseline = Window(start=incident.start - WINDOW, end=incident.start)
    request = Request(
        Alert(source="test", title="slow", started_at=now),
        Scope(incident=incident, baseline=(baseline,)),
        folder,
    )
    return asyncio.run(PrometheusConnector(url, step_s=1).collect(request))


def metrics_of(exporter: str) -> set[str]:
    """The metrics by which the data file knows an exporter."""
    return {name for one in built_in() if one.exporter == exporter for name in one.metrics}


def known_to(url: str) -> set[str]:
    """The metrics that a server has."""
    return set(httpx.get(f"{url}/api/v1/label/__name__/values").json()["data"])


def facts_in(collected: Collected) -> set[tuple[object, ...]]:
    """Kind, name, fact and value of each."""
    states = collected.tables["states"]
    return set(states.select("kind", "name", "fact", "value").iter_rows())


def refused_in(collected: Collected) -> list[str]:
    """Queries that the server did not take."""
    return [one.query for one in collected.missing if "was not accepted" in one.reason]


def _scraped(url: str) -> int:
    """How many targets are up and were scraped often enough."""
    query = f"count(count_over_time(up[1m]) >= {SCRAPES} and up == 1)"
    answer = httpx.get(f"{url}/api/v1/query", params={"query": query})
    # It answers 503 in plain text until its storage is open.
    if answer.status_code != 200:
        return 0
    found = answer.json()["data"]["result"]
    return int(found[0]["value"][1]) if found else 0


def _end(process: subprocess.Popen[bytes]) -> None:
    """End its whole session at once: it may have started others, and keeps nothing."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(END_S)
