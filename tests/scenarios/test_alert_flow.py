"""A real rule of a real Prometheus fires into a real Alertmanager, whose notification starts an
investigation; when the rule is calm again, the investigation hears of that, too."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr
from sqlalchemy import text

from faultline.bot.intake.accepting import store_accept
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.alertmanager import AlertmanagerSettings
from faultline.loopback.bot_process import free_port
from tests.alertmanagers import running_alertmanager
from tests.bot.intake.conftest import serving
from tests.debian_tools import debian_binary

TOKEN = "flow-token"
RULES = """
groups:
- name: checkout
  interval: 1s
  rules:
  - alert: CheckoutErrors
    expr: checkout_error_ratio > 0.1
    labels: {service: basket, severity: page}
    annotations: {summary: "{{ $value }} of requests fail", runbook_url: "https://runbooks.example.com/checkout"}
"""
PROMETHEUS = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ["{alertmanager}"]}}]}}]}}
scrape_configs: [{{job_name: checkout, static_configs: [{{targets: ["{target}"]}}]}}]
"""
WITHIN_S = 120.0


class Service:
    """A service whose error ratio the test sets."""

    def __init__(self) -> None:
        self.ratio = 0.0
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.address = f"127.0.0.1:{self._http.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[Service]:
        thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )
        thread.start()
        yield self
        self._http.shutdown()
        self._http.server_close()

    def _handler(service: Service) -> type[BaseHTTPRequestHandler]:
        class Metrics(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f"checkout_error_ratio {service.ratio}\n".encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        return Metrics


@contextmanager
def running_prometheus(folder: Path, target: str, alertmanager: str) -> Iterator[str]:
    """A Prometheus that scrapes the target each second and evaluates the rule."""
    binary = debian_binary("prometheus", "usr/bin/prometheus")
    (folder / "rules.yml").write_text(RULES)
    (folder / "prometheus.yml").write_text(
        PROMETHEUS.format(alertmanager=alertmanager.removeprefix("http://"), target=target)
    )
    port = free_port()
    command = [
        str(binary),
        "--config.file=prometheus.yml",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--storage.tsdb.path=prometheus"], cwd=folder, stdout=log, stderr=log
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(condition: Callable[[], bool], what: str) -> None:
    """Wait until it holds."""
    ends = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < ends, f"no {what} in {WITHIN_S:g} s"
        time.sleep(0.2)


def investigations(store: Store) -> list[str]:
    """Ids of all investigations."""
    with store.engine.connect() as connection:
        return [str(row[0]) for row in connection.execute(text("SELECT id FROM investigations"))]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_rule_that_fires_starts_an_investigation_and_ends_it_when_it_is_calm(
    store: Store, tmp_path: Path
) -> None:
    settings = Settings(
        alertmanager=AlertmanagerSettings(webhook_tokens=(SecretStr(TOKEN),)),
        services={"checkout": ServiceSettings(aliases=("basket",))},
    )
    with (
        serving(settings, store_accept(store)) as bot,
        Service().running() as service,
        running_alertmanager(tmp_path, f"{bot}/webhooks/alertmanager", TOKEN) as alertmanager,
        running_prometheus(tmp_path, service.address, alertmanager) as prometheus,
    ):
        service.ratio = 0.4
        wait_for(lambda: bool(investigations(store)), "investigation")
        (investigation_id,) = investigations(store)
        found = store.get(investigation_id)
        assert found is not None
        alert = found.alert
        assert (alert.source, alert.title, alert.service) == (
            "alertmanager",
            "CheckoutErrors",
            "checkout",
        )
        assert (alert.severity, alert.summary, alert.status) == (
            "page",
            "0.4 of requests fail",
            "firing",
        )
        assert {link.title for link in alert.links} >= {"Alert rule", "Runbook", "Alertmanager"}
        active = httpx.get(f"{prometheus}/api/v1/alerts", timeout=30).json()["data"]["alerts"]
        assert [one["labels"]["alertname"] for one in active] == ["CheckoutErrors"]
        service.ratio = 0.0
        wait_for(
            lambda: bool((now := store.get(investigation_id)) and now.resolved_at),
            "end of the alert",
        )
        assert investigations(store) == [investigation_id]
