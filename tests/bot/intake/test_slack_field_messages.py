"""Slack messages with the layouts and conditions that people reported, and what is right for
each."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faultline.bot.intake.slack_messages import PassedOver, watched
from faultline.bot.intake.slack_payload import Envelope, Ourselves
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.slack import SlackSettings

FILES = Path(__file__).parents[2] / "data" / "field" / "alerts"
POSTED_AT = datetime(2026, 11, 28, 11, 28, 4, 100, tzinfo=UTC)
SETTINGS = Settings(
    slack=SlackSettings(alert_channels=("C0ALERTS",)), services={"checkout": ServiceSettings()}
)
US = Ourselves(frozenset({"U0BOT"}), "B0US", "A0FAULT")

RIGHT = {
    "63.slack.opsgenie": ("checkout", "p2", "Checkout error rate is high", "opsg.in"),
    "65.slack.newrelic-blocks": (
        "checkout",
        "critical",
        "checkout query result is > 5.0 on 'Error rate'",
        "service.newrelic.com",
    ),
    "66.slack.pingdom": (None, None, "shop.example.com is DOWN", "my.pingdom.com"),
    "67.slack.uptimerobot": ("checkout", None, "checkout - Reason: HTTP 502 - Bad Gateway", ""),
    "69.slack.betterstack": ("checkout", None, "New incident for checkout", "betterstack.com"),
    "71.slack.robusta": ("checkout", "high", "KubePodCrashLooping", ""),
    "75.slack.incident-io": ("checkout", "major", "INC-42 Checkout errors", "app.incident.io"),
    "77.slack.healthchecks": ("nightly-billing", None, "“nightly-billing” is DOWN", ""),
    "80.slack.statuscake-plain": ("checkout", None, "Your site 'checkout' went down", ""),
    "81.slack.honeycomb": ("checkout", None, "checkout p99 > 2s", "ui.honeycomb.io"),
}
"""By file: the service, the severity, a part of the title and of the link's host. Each fires from
when it was posted: none has a time with a zone."""


def read(name: str) -> object:
    event = json.loads((FILES / f"{name}.json").read_text())
    return watched(Envelope.model_validate(event), US, SETTINGS, now=POSTED_AT)


@pytest.mark.parametrize("name", RIGHT)
def test_reported_layouts_are_alerts(name: str) -> None:
    arrival = read(name)
    assert isinstance(arrival, Arrival)
    alert = arrival.alert
    service, severity, title, host = RIGHT[name]
    assert (alert.status, alert.service, alert.severity) == ("firing", service, severity)
    assert title in alert.title
    assert alert.started_at == POSTED_AT
    assert (host in alert.links[0].url) if host else not alert.links


def test_a_failed_build_starts_nothing() -> None:
    passed_over = read("83.slack.ci-failed-red")
    assert isinstance(passed_over, PassedOver)
    assert passed_over.reason == "a build or deploy"


def test_every_reported_message_has_its_right_answer() -> None:
    names = {file.name.removesuffix(".json") for file in FILES.glob("*.slack.*.json")}
    assert names == {*RIGHT, "83.slack.ci-failed-red"}
