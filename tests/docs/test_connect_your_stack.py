"""docs/connect-your-stack.md: its settings are taken, and `faultline check` says what it promises,
of a real Prometheus and of what answers like Kubernetes and Slack."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from faultline.bot.processes.check import all_checks
from faultline.bot.settings import load_settings
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.vendors.kubernetes import KubernetesSettings
from faultline.loopback.server import serve_in_thread
from faultline.loopback.slack import LoopbackSlack
from tests.connectors.conftest import OpenMetrics, running_prometheus
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import kubernetes as cluster

PAGE = Path(__file__).parents[2] / "docs" / "connect-your-stack.md"
BOT_TOKEN = "xoxb-good"
KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: shop
contexts: [{name: shop, context: {cluster: shop, user: me}}]
clusters: [{name: shop, cluster: {server: %s}}]
users: [{name: me, user: {token: %s}}]
"""


def samples() -> str:
    """Requests of two services in the last 40 minutes, scraped every minute; checkout's take time,
    too."""
    series = OpenMetrics()
    end = int(time.time())
    for t in range(end - 2400, end, 60):
        count = t - end + 3000
        for service in ("checkout", "cart"):
            for status, share in (("200", 1.0), ("500", 0.01)):
                labels = f'service="{service}",status="{status}"'
                series.add("http_requests_total", "counter", labels, int(count * share), t)
        for bound in ("0.1", "+Inf"):
            labels = f'service="checkout",le="{bound}"'
            series.add("http_request_duration_seconds_bucket", "unknown", labels, count, t)
    return series.finished()


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Check]:
    """What `check` says with the page's own settings, but for the addresses."""
    folder = tmp_path_factory.mktemp("stack")
    blocks = re.findall(r"```toml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    slack_url, stop_slack = serve_in_thread(LoopbackSlack(token=BOT_TOKEN).app)
    (folder / "prometheus").mkdir()
    try:
        with (
            running_prometheus(folder / "prometheus", samples()) as prometheus,
            LocalServer() as kubernetes,
        ):
            cluster.serve(kubernetes)
            (folder / "config").write_text(KUBECONFIG % (kubernetes.url, cluster.TOKEN))
            text = "\n".join(blocks).replace("http://127.0.0.1:9090", prometheus.url)
            assert '"~/.kube/config"' in text
            text = text.replace("~/.kube/config", str(folder / "config"))
            (folder / "faultline.toml").write_text(text)
            settings = load_settings(
                folder / "faultline.toml",
                environ={
                    "FAULTLINE_STORE__DIRECTORY": str(folder / "state"),
                    "FAULTLINE_SLACK__BOT_TOKEN": BOT_TOKEN,
                    "FAULTLINE_SLACK__APP_TOKEN": "xapp-good",
                    "FAULTLINE_SLACK__API_URL": f"{slack_url}/api",
                },
            )
            return {check.name: check for check in asyncio.run(all_checks(settings))}
    finally:
        stop_slack()


def test_every_part_of_the_page_is_there_and_works(checks: dict[str, Check]) -> None:
    assert {"inbound", "replies", "prometheus", "kubernetes", "slack"} <= set(checks)
    assert [one for one in checks.values() if not one.ok] == []


def test_prometheus_says_who_can_be_investigated_and_what_they_lack(
    checks: dict[str, Check],
) -> None:
    line = checks["prometheus"].line
    assert "2 services (cart, checkout)" in line
    assert "no p99 latency of cart" in line
    assert "scraped every 60 s" in line


def test_kubernetes_says_what_can_be_read(checks: dict[str, Check]) -> None:
    assert "can be read" in checks["kubernetes"].line


def test_the_home_directory_may_be_written_as_in_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    settings = load_settings(environ={"FAULTLINE_KUBERNETES__KUBECONFIG": "~/.kube/config"})
    kubeconfig = settings.section(KubernetesSettings).kubeconfig
    assert kubeconfig == Path("/home/ann/.kube/config")
