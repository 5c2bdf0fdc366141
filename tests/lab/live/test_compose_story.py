"""infra/compose without an engine: each service's own command and files as a process on loopback.
Somebody presses the button, an alert fires, and the bot's answer shows what broke."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from faultline.lab.live import open_shop
from faultline.lab.shop.running import free_ports
from faultline.loopback.bot_process import BotProcess
from tests.alertmanagers import running_alertmanager
from tests.debian_tools import debian_binary

ROOM = Path(__file__).parents[3] / "infra/compose"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load((ROOM / "docker-compose.yml").read_text())[
    "services"
]
INTERVAL_S = 2
BASELINE, BEFORE, BROKEN = 15, 16, 10
"""Scrapes in the baseline, before the incident, and in it."""
QUESTIONS = 3
SMALL = ["--small", f"--interval={INTERVAL_S}", "--seed=5"]
"""Less of the shop, in quicker time: everything else is as in the file."""
QUICK = {
    "FAULTLINE_INVESTIGATION__INCIDENT_MINUTES": str(BEFORE * INTERVAL_S / 60),
    "FAULTLINE_INVESTIGATION__BASELINE_MINUTES": str(BASELINE * INTERVAL_S / 60),
    "FAULTLINE_PROMETHEUS__STEP_S": str(INTERVAL_S),
    "FAULTLINE_SERVER__HOST": "127.0.0.1",
}
TIMEOUT_S = 120.0
PORTS = {
    "shop": (8000, 3100, 16686, 9090),
    "faultline": (8080, 9464, 9465),
    "alertmanager": (9093,),
}


class Loopback:
    """Where each service's ports are on this machine."""

    def __init__(self) -> None:
        self._ports = {
            (name, port): free_ports(1) for name, ports in PORTS.items() for port in ports
        }

    def __getitem__(self, place: tuple[str, int]) -> int:
        return self._ports[place]

    def url(self, name: str, port: int) -> str:
        return f"http://127.0.0.1:{self[name, port]}"

    def here(self, text: str) -> str:
        """The text with this machine's addresses for those within the containers' network."""
        for (name, port), ours in self._ports.items():
            # Prometheus stands beside the shop, and people reach all of them on this machine.
            hosts = f"{name}|localhost|127\\.0\\.0\\.1|0\\.0\\.0\\.0"
            text = re.sub(rf"\b(?:{hosts}):{port}\b", f"127.0.0.1:{ours}", text)
        return text


@dataclass
class Lab:
    """The running services."""

    at: Loopback
    page: httpx.Client
    bot: httpx.Client

    def wait(self, question: Callable[[], Any], what: str) -> Any:
        """The first true answer."""
        ends = time.monotonic() + TIMEOUT_S
        while time.monotonic() < ends:
            if answer := question():
                return answer
            time.sleep(0.3)
        pytest.fail(f"there was no sign of {what}")


@contextmanager
def process(command: list[str], folder: Path, **environ: str) -> Iterator[None]:
    """Running until the end of the block, in its folder, with a log beside."""
    with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
        started = subprocess.Popen(
            command, cwd=folder, stdout=log, stderr=log, env={**os.environ, **environ}
        )
    try:
        yield
    finally:
        started.send_signal(signal.SIGTERM)
        assert started.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder, at = tmp_path_factory.mktemp("compose"), Loopback()
    room = folder / "shop"
    room.mkdir()

    def told(service: str) -> list[str]:
        arguments = [at.here(one) for one in SERVICES[service]["command"]]
        return [one.replace("=/shop", f"={room}") for one in arguments]

    with ExitStack() as stack:
        bot = folder / "bot"
        bot.mkdir()
        (bot / "faultline.toml").write_text(at.here((ROOM / "faultline.toml").read_text()))
        environ = {**SERVICES["faultline"]["environment"], **QUICK}
        environ["FAULTLINE_CONFIG"] = str(bot / "faultline.toml")
        assert SERVICES["faultline"]["command"] == ["serve"]
        stack.enter_context(
            BotProcess(bot, environ, port=at["faultline", 8080], log=folder / "bot.log")
        )
        alertmanager = stack.enter_context(
            running_alertmanager(
                folder, configuration=at.here((ROOM / "alertmanager.yml").read_text())
            )
        )
        shop = [sys.executable, "-m", open_shop.__name__, *told("shop"), *SMALL]
        for option, port in (("--port", 8000), ("--loki-port", 3100), ("--jaeger-port", 16686)):
            shop.append(f"{option}={at['shop', port]}")
        shop[shop.index("--host=0.0.0.0")] = "--host=127.0.0.1"
        stack.enter_context(process(shop, folder, **SERVICES["shop"]["environment"]))
        page = stack.enter_context(httpx.Client(base_url=at.url("shop", 8000), timeout=60))
        token = SERVICES["faultline"]["environment"]["FAULTLINE_SERVER__ACCESS_TOKEN"]
        client = stack.enter_context(
            httpx.Client(
                base_url=at.url("faultline", 8080),
                headers={"Authorization": f"Bearer {token}"},
                timeout=60,
            )
        )
        running = Lab(at, page, client)
        running.wait(lambda: answers(page, "/healthz"), "the shop's page")
        configuration = at.here((ROOM / "prometheus.yml").read_text())
        configuration = configuration.replace("5s", f"{INTERVAL_S}s").replace("/shop/", f"{room}/")
        # Alertmanager chose its port itself.
        configuration = configuration.replace(
            f"127.0.0.1:{at['alertmanager', 9093]}", alertmanager.removeprefix("http://")
        )
        (folder / "prometheus.yml").write_text(configuration)
        prometheus = [str(debian_binary("prometheus", "usr/bin/prometheus")), *told("prometheus")]
        prometheus[1] = f"--config.file={folder / 'prometheus.yml'}"
        prometheus[2] = f"--storage.tsdb.path={folder / 'data'}"
        prometheus.append(f"--web.listen-address=127.0.0.1:{at['shop', 9090]}")
        stack.enter_context(process(prometheus, folder))
        yield running


def answers(client: httpx.Client, path: str) -> bool:
    try:
        return client.get(path).status_code == 200
    except httpx.TransportError:
        return False


def up(lab: Lab) -> set[str]:
    """The jobs of which Prometheus reaches every target."""
    try:
        found = httpx.get(f"{lab.at.url('shop', 9090)}/api/v1/query", params={"query": "up"})
    except httpx.TransportError:
        return set()
    if found.status_code == 503:  # not yet ready
        return set()
    series = found.json()["data"]["result"]
    down = {one["metric"]["job"] for one in series if one["value"][1] != "1"}
    return {one["metric"]["job"] for one in series} - down


def finished(lab: Lab) -> list[dict[str, Any]]:
    listed = lab.bot.get("/api/investigations").raise_for_status().json()["investigations"]
    return [one for one in listed if one["status"] == "done"]


def asked_again(lab: Lab, since: datetime) -> dict[str, Any]:
    """The answer to a person's question about what has been broken since."""
    question = {"question": "checkout is slow", "service": "checkout", "since": since.isoformat()}
    asked = lab.bot.post("/api/investigations", json=question).raise_for_status().json()["id"]
    lab.wait(lambda: asked in {one["id"] for one in finished(lab)}, "an answer to the question")
    answer: dict[str, Any] = lab.bot.get(f"/api/investigations/{asked}/answer").json()
    return answer


def test_the_button_breaks_the_shop_and_the_bot_says_what_broke(lab: Lab) -> None:
    lab.wait(lambda: up(lab) == {"shop", "faultline"}, "every target")
    assert "The shop is healthy" in lab.page.get("/").text
    # Also a rate, which needs a few scrapes, is known from the baseline's beginning on.
    time.sleep((BASELINE + BEFORE + 4) * INTERVAL_S)
    elsewhere = {"Sec-Fetch-Site": "cross-site"}
    assert lab.page.post("/break/slow_code", headers=elsewhere).status_code == 403
    assert lab.page.post("/break/gremlins").status_code == 404
    assert lab.page.post("/break/slow_code").status_code == 303
    shown = lab.page.get("/").text
    assert "does more work in every request (slow_code, at payments)" in shown

    broken = datetime.now(UTC)

    alerted = lab.wait(lambda: finished(lab), "an answer to the alert")
    assert "LatencyHigh" in json.dumps(alerted)
    # Here an alert fires within seconds, when metrics have hardly moved. So it is asked once more,
    # and again while the shop, which a busy machine slows down, has shown too little.
    for _ in range(QUESTIONS):
        time.sleep(BROKEN * INTERVAL_S)
        answer = asked_again(lab, broken)
        if answer["verdict"] == "cause_found":
            break
    else:
        pytest.fail(answer["headline"])
    found = {one["kind"]: one for one in answer["findings"]}
    # Each source that the settings name has told of it, and the shop of its deploy.
    assert found.keys() >= {"metric_shift", "log_new", "span_errors", "change_near"}
    changes = [one["sentence"] for one in answer["findings"] if one["kind"] == "change_near"]
    assert any("Deploy payments v" in sentence for sentence in changes), changes

    assert lab.page.post("/repair").status_code == 303
    assert "The shop is healthy" in lab.page.get("/").text


def test_a_surprise_keeps_its_name_until_it_is_asked_for(lab: Lab) -> None:
    lab.page.post("/repair")
    lab.page.post("/break/surprise")
    assert "The shop is broken. An alert fires" in lab.page.get("/").text
    # Two faults at once would hide each other.
    lab.page.post("/break/slow_code")
    lab.page.post("/reveal")
    shown = lab.page.get("/").text
    assert re.search(r"The shop is broken: .+ \(\w+, at \w+\)", shown)
    lab.page.post("/repair")
    assert "The shop is healthy" in lab.page.get("/").text
