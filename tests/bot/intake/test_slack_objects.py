"""An alert that an app posted in Slack carries what each connector needs to find its own object."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.slack_listener import mention_arrival
from faultline.bot.intake.slack_messages import watched
from faultline.bot.intake.slack_payload import Envelope, Message, Ourselves
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Arrival
from faultline.connectors.vendors.aws.scope import named_alarms, places_of
from faultline.connectors.vendors.datadog.monitors import monitor_of
from faultline.connectors.vendors.pagerduty.connector import incident_of
from faultline.connectors.vendors.sentry.issues import issue_of
from faultline.connectors.vendors.slack import SlackSettings
from faultline.connectors.vendors.slack.connector import thread_of
from tests.bot.intake.conftest import WATCHED, bot_message, mention, slack_event

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(slack=SlackSettings(alert_channels=(WATCHED, "C0ALERTS")))
US = Ourselves(frozenset({"U0BOT"}), "B0US", "A0FAULT")


def decided(event: dict[str, Any]) -> Arrival | Ignored:
    """How a message in a watched channel is handled."""
    return watched(Envelope.model_validate(event), US, SETTINGS, now=NOW)


def linked(url: str) -> Alert:
    """The alert in a message with this link."""
    found = decided(
        slack_event(bot_message(text=f"<{url.replace('&', '&amp;')}|Triggered: checkout is slow>"))
    )
    assert isinstance(found, Arrival)
    return found.alert


@pytest.mark.parametrize(
    "url",
    [
        "https://app.datadoghq.com/monitors/1234567?group=host%3Aweb-1&from_ts=1",
        "https://acme.datadoghq.eu/monitors#1234567",
        "https://us5.datadoghq.com/monitors#triggered/1234567",
    ],
)
def test_a_datadog_monitor_is_found(url: str) -> None:
    assert monitor_of(linked(url)) == 1234567


@pytest.mark.parametrize(
    "url",
    [
        "https://acme.sentry.io/issues/4567/?referrer=slack",
        "https://errors.example/organizations/acme/issues/4567/events/latest/",
    ],
)
def test_a_sentry_issue_is_found_on_servers_of_ones_own_too(url: str) -> None:
    assert issue_of(linked(url)) == "4567"


@pytest.mark.parametrize(
    ("url", "region"),
    [
        (
            "https://eu-west-1.console.aws.amazon.com/cloudwatch/"
            "home?region=eu-west-1#alarmsV2:alarm/High%20CPU",
            "eu-west-1",
        ),
        (
            "https://console.aws.amazon.com/cloudwatch/"
            "home?region=us-east-1#alarm:alarmFilter=ANY;name=High%20CPU",
            "us-east-1",
        ),
        (
            "https://console.amazonaws.cn/cloudwatch/home?region=cn-north-1#alarmsV2:alarm/"
            "High%20CPU",
            "cn-north-1",
        ),
    ],
)
def test_a_cloudwatch_alarm_is_found_in_its_region(url: str, region: str) -> None:
    alert = linked(url)
    assert (alert.labels["alarm_name"], alert.labels["aws_region"]) == ("High CPU", region)
    found = named_alarms(alert, places_of(["us-east-1", "eu-west-1", "cn-north-1"], []))
    assert {(one.name, one.place.region) for one in found} == {("High CPU", region)}


def test_a_pagerduty_incident_is_found() -> None:
    assert (
        incident_of(linked("https://acme.pagerduty.com/incidents/PGR0VU2?utm_source=slack"))
        == "PGR0VU2"
    )


def test_a_grafana_rule_is_linked() -> None:
    url = "https://grafana.example/alerting/grafana/ab-cd_1/view?orgId=1"
    assert linked(url).links[0].url == url


def test_labels_do_not_change_which_investigation_an_alert_joins() -> None:
    first = linked("https://app.datadoghq.com/monitors/1234567")
    assert first.labels["fingerprint"] == "Datadog:1234567"
    assert (
        first.fingerprint
        == linked("https://app.datadoghq.com/monitors/1234567?from_ts=9").fingerprint
    )


def test_the_slack_connector_finds_the_thread_of_a_message_and_of_a_question() -> None:
    alert = linked("https://app.datadoghq.com/monitors/1234567")
    assert alert.labels["slack_channel"] == WATCHED
    assert thread_of(alert) == (WATCHED, alert.id)
    envelope = Envelope.model_validate(
        slack_event(mention("<@U0BOT> investigate", thread_ts="1763690000.000100"))
    )
    parent = Message(
        bot_id="B1",
        ts="1763690000.000100",
        text="Triggered: A https://app.datadoghq.com/monitors/77",
    )
    found = mention_arrival(envelope, "", parent, SETTINGS, now=NOW)
    assert found is not None
    assert thread_of(found.alert) == (envelope.event.channel, "1763690000.000100")
    assert monitor_of(found.alert) == 77
    assert found.alert.labels["fingerprint"].startswith("asked:")


def test_of_the_recorded_events_alertmanagers_message_alone_is_an_alert(shared: Path) -> None:
    alerts = []
    for file in sorted((shared / "webhooks/slack").glob("*.json")):
        found = decided(json.loads(file.read_text()))
        if isinstance(found, Arrival):
            alerts.append((file.name, found.alert.labels.get("alertname"), thread_of(found.alert)))
    assert alerts == [
        (
            "message.bot_message.alertmanager.json",
            "HighErrorRate",
            ("C0ALERTS", "1763690000.000100"),
        )
    ]


def test_a_link_to_an_incident_leads_to_the_account_with_that_address() -> None:
    accounts = [
        {"name": "eu", "web_url": "https://acme-eu.pagerduty.com"},
        {"name": "us", "web_url": "https://acme.pagerduty.com"},
    ]
    workspaces = [{"name": "a", "alert_channels": [WATCHED]}, {"name": "b"}]
    settings, _ = settings_of({"pagerduty": accounts, "slack": workspaces}, {}).per_instance(
        "slack"
    )
    found = []
    for host in ("acme-eu", "acme", "other"):
        text = f"<https://{host}.pagerduty.com/incidents/PGR0VU2|Triggered: checkout is slow>"
        envelope = Envelope.model_validate(slack_event(bot_message(text=text)))
        arrival = watched(envelope, US, settings, now=NOW)
        assert isinstance(arrival, Arrival)
        found.append(arrival.reply_to.pagerduty_incident)
        assert arrival.reply_to.slack_channel == f"a:{WATCHED}"
        assert thread_of(arrival.alert, "a") == (WATCHED, arrival.alert.id)
        assert thread_of(arrival.alert, "b") is None
        assert thread_of(arrival.alert) is None
    assert found == ["eu:PGR0VU2", "us:PGR0VU2", None]
