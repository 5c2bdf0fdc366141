"""The alerts and the dashboard of infra/monitoring: a real Prometheus takes them, and what they ask
for is served."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import yaml

from faultline.loopback.bot_process import free_port
from tests.bot.operating.telemetry.conftest import PATIENT_S, Observed
from tests.debian_tools import debian_binary

ROOT = Path(__file__).parents[4]
MONITORING = ROOT / "infra" / "monitoring"
NAME = re.compile(r"\b(?:faultline|process)_[a-z0-9_]+")
OUTSIDE = {"up"}
CONFIG = """
global: {{scrape_interval: 5s, evaluation_interval: 5s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: faultline
    static_configs: [{{targets: [{targets}]}}]
"""


def _alerts() -> list[dict[str, str]]:
    rules: list[dict[str, str]] = yaml.safe_load((MONITORING / "alerts.yml").read_text())["groups"][
        0
    ]["rules"]
    return rules


def _dashboard() -> list[str]:
    board = json.loads((MONITORING / "dashboard.json").read_text())
    return [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]


def _families(observed: Observed) -> dict[str, str]:
    """Name to type of every metric that either process serves, with the names of its series."""
    found = {}
    for port in (observed.metrics_port, observed.worker_port):
        for name, kind in re.findall(
            r"^# TYPE (\S+) (\S+)$", observed.scrape(port).text, re.MULTILINE
        ):
            found[name] = kind
            if kind == "histogram":
                found |= {f"{name}_{part}": "series" for part in ("bucket", "sum", "count")}
    return found


@pytest.mark.parametrize(
    "command", [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"]]
)
def test_promtool_accepts_the_alerts_and_each_fires_and_is_silent_as_it_should(
    command: list[str],
) -> None:
    promtool = debian_binary("prometheus", "usr/bin/promtool")
    done = subprocess.run(
        [promtool, *command],
        cwd=MONITORING,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_rule_that_never_fires_would_be_found(tmp_path: Path) -> None:
    promtool = debian_binary("prometheus", "usr/bin/promtool")
    broken = (
        (MONITORING / "alerts.yml")
        .read_text()
        .replace("faultline_queue_oldest_seconds > 300", "vector(0) > 1")
    )
    (tmp_path / "alerts.yml").write_text(broken)
    asserted = yaml.safe_load((MONITORING / "alerts_test.yml").read_text())
    asserted["tests"] = [
        test for test in asserted["tests"] if test["name"].startswith("FaultlineQueueOld ")
    ]
    (tmp_path / "alerts_test.yml").write_text(yaml.safe_dump(asserted))
    command = [promtool, "test", "rules", "alerts_test.yml"]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=PATIENT_S
    )
    assert done.returncode != 0
    assert "FaultlineQueueOld" in done.stdout + done.stderr


def test_every_alert_has_both_of_its_tests() -> None:
    tests = {
        test["name"]
        for test in yaml.safe_load((MONITORING / "alerts_test.yml").read_text())["tests"]
    }
    names = [rule["alert"] for rule in _alerts()]
    assert tests == {f"{name} {word}" for name in names for word in ("fires", "is silent")}


def test_every_metric_that_is_asked_for_is_served(observed: Observed) -> None:
    families = _families(observed)
    for expression in [*_dashboard(), *(rule["expr"] for rule in _alerts())]:
        for name in NAME.findall(expression):
            assert name in families, f"{name} of {expression}"


def test_every_metric_is_in_the_documentation(observed: Observed) -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    listed = set(re.findall(r"^\| `(faultline_\w+)`", page, re.MULTILINE))
    served = {
        name
        for name, kind in _families(observed).items()
        if name.startswith("faultline_") and kind != "series"
    }
    assert listed == served


@contextmanager
def _prometheus(folder: Path, observed: Observed) -> Iterator[str]:
    """The address of a real Prometheus that scrapes both processes and has the alerts loaded."""
    targets = f'"127.0.0.1:{observed.metrics_port}", "127.0.0.1:{observed.worker_port}"'
    (folder / "prometheus.yml").write_text(
        CONFIG.format(rules=MONITORING / "alerts.yml", targets=targets)
    )
    port = free_port()
    binary = debian_binary("prometheus", "usr/bin/prometheus")
    command = [binary, "--config.file=prometheus.yml", "--storage.tsdb.path=data"]
    with (folder / "log").open("wb") as log:
        command += [f"--web.listen-address=127.0.0.1:{port}"]
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _asked(url: str, expression: str) -> list[object]:
    answer = httpx.get(f"{url}/api/v1/query", params={"query": expression}, timeout=60).json()
    assert answer["status"] == "success", f"{expression}: {answer}"
    result: list[object] = answer["data"]["result"]
    return result


def test_a_real_prometheus_scrapes_both_processes_and_answers_every_panel(
    observed: Observed, tmp_path: Path
) -> None:
    with _prometheus(tmp_path, observed) as url:
        deadline = time.monotonic() + PATIENT_S
        while True:
            try:
                # The count of investigations is read from the database once in a while.
                counted = 'on() (faultline_investigations{status="done"} == 1)'
                if len(_asked(url, 'up{job="faultline"} == 1')) == 2 and _asked(
                    url, f"faultline_database_up and {counted}"
                ):
                    break
            except (httpx.TransportError, ValueError):
                pass  # it does not listen yet, or reads its files
            assert time.monotonic() < deadline, (tmp_path / "log").read_text()[-2000:]
            time.sleep(0.2)
        for expression in _dashboard():
            _asked(url, expression.replace("$__rate_interval", "1m"))
        rules = httpx.get(f"{url}/api/v1/rules", timeout=60).json()["data"]["groups"][0]["rules"]
        assert len(rules) == len(_alerts())
        assert _asked(url, 'faultline_investigations{status="done"} == 1')
        assert _asked(url, "faultline_step_seconds_count > 0")
