"""Alerts of Prometheus that fire together are one incident and one signed page."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from faultline.analysis.errors import FaultlineError
from faultline.lab.live.relay import AlertRelay
from faultline.loopback.pagerduty import LoopbackPagerDuty
from tests.connectors.local_http import LocalServer, Reply

SECRET = "relay-secret"
HOOK = "/webhooks/pagerduty"


@pytest.fixture
def bot() -> Iterator[LocalServer]:
    with LocalServer() as server:
        server.on(HOOK, Reply({"investigation_id": "20260302-115000-abcdef"}, status=202))
        yield server


@pytest.fixture
def pagerduty() -> LoopbackPagerDuty:
    return LoopbackPagerDuty()


@pytest.fixture
def relay(bot: LocalServer, pagerduty: LoopbackPagerDuty) -> AlertRelay:
    built = AlertRelay(pagerduty, SECRET)
    built.bot_url = bot.url
    return built


def alert(name: str, *, fires: bool = True, **labels: str) -> dict[str, Any]:
    ends = datetime.now(UTC) + timedelta(minutes=4 if fires else -1)
    return {
        "labels": {"alertname": name, **labels},
        "annotations": {"summary": f"{name} fires"},
        "endsAt": ends.isoformat(),
        "generatorURL": "http://prometheus/graph?g0.expr=up",
    }


def send(relay: AlertRelay, *alerts: dict[str, Any]) -> None:
    with TestClient(relay.app) as client:
        assert client.post("/api/v2/alerts", json=list(alerts)).json() == {}


def test_the_first_alert_after_it_is_armed_pages_and_the_others_belong_to_it(
    relay: AlertRelay, bot: LocalServer, pagerduty: LoopbackPagerDuty
) -> None:
    send(relay, alert("Early", service="web"))
    relay.arm()
    send(relay, alert("Slow", service="checkout"), alert("Failing", service="web"))
    send(relay, alert("Slow", service="checkout"))
    page = relay.pages.get_nowait()
    assert relay.pages.empty()
    assert (page.incident, page.title, page.service) == ("PLIVE0001", "Slow fires", "checkout")
    assert page.labels == {"alertname": "Slow", "service": "checkout"}
    assert page.investigation == "20260302-115000-abcdef"
    assert len(relay.firing) == 3
    (request,) = bot.asked
    event = json.loads(request.body)["event"]
    assert event["event_type"] == "incident.triggered"
    assert event["data"]["title"] == "Slow fires"
    assert event["data"]["html_url"].startswith("https://acme.pagerduty.com/")
    digest = hmac.new(SECRET.encode(), request.body, hashlib.sha256).hexdigest()
    headers = {name.lower(): value for name, value in request.headers.items()}
    assert headers["x-pagerduty-signature"] == f"v1={digest}"
    assert pagerduty.incidents["PLIVE0001"].status == "triggered"

    relay.resolve(page)
    assert pagerduty.incidents["PLIVE0001"].status == "resolved"
    assert json.loads(bot.asked[-1].body)["event"]["event_type"] == "incident.resolved"


def test_an_alert_that_ended_fires_no_more_and_opens_nothing(relay: AlertRelay) -> None:
    relay.arm()
    send(relay, alert("Slow", fires=False, service="checkout"))
    assert relay.pages.empty()
    send(relay, alert("Slow", service="checkout"))
    assert relay.pages.get_nowait().title == "Slow fires"
    send(relay, alert("Slow", fires=False, service="checkout"))
    assert relay.firing == {}


def test_a_disarmed_relay_opens_nothing(relay: AlertRelay, bot: LocalServer) -> None:
    relay.arm()
    relay.disarm()
    send(relay, alert("Slow", service="checkout"))
    assert relay.pages.empty()
    assert bot.asked == []


def test_an_alert_of_no_service_is_of_the_front_door(relay: AlertRelay) -> None:
    relay.arm()
    send(relay, alert("Slow"))
    assert relay.pages.get_nowait().service == "web"


def test_a_webhook_that_the_bot_refuses_ends_the_play(relay: AlertRelay, bot: LocalServer) -> None:
    bot.on(HOOK, Reply({}, status=401))
    relay.arm()
    with pytest.raises(FaultlineError, match=r"the bot refused a webhook \(401\)"):
        send(relay, alert("Slow", service="checkout"))
