"""Alerts that other bots post in Slack are recognised, and little else is."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.slack_alerts import alert_in
from faultline.bot.intake.slack_links import alert_link
from faultline.bot.intake.slack_messages import watched
from faultline.bot.intake.slack_payload import Envelope, Message, Ourselves, slack_plain, slack_urls
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from faultline.connectors.vendors.pagerduty import PagerDutySettings
from faultline.connectors.vendors.slack import SlackSettings
from tests.bot.intake.conftest import WATCHED, bot_message, secrets, slack_event
from tests.bot.intake.test_pagerduty_webhook import JSON

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
US = Ourselves(frozenset({"U0BOT"}), "B0US", "A0FAULT")
SETTINGS = Settings(
    slack=SlackSettings(alert_channels=(WATCHED,)),
    services={"checkout": ServiceSettings(aliases=("basket",))},
)
PAGERDUTY = "https://acme.pagerduty.com/incidents/PGR0VU2"


def read(message: dict[str, Any]) -> Alert | None:
    return alert_in(Message.model_validate(message), SETTINGS, now=NOW)


def boxed(title: str, **more: Any) -> dict[str, Any]:
    return {"bot_id": "B1", "ts": "1763690000.000100", "attachments": [{"title": title, **more}]}


def decide(event: dict[str, Any], settings: Settings = SETTINGS) -> Arrival | Ignored:
    return watched(Envelope.model_validate(slack_event(event)), US, settings, now=NOW)


def test_what_alertmanager_really_posts_is_an_alert_and_its_end(shared: Path) -> None:
    firing, resolved = (
        read(
            json.loads(
                (shared / f"webhooks/alertmanager/slack_incoming_webhook.{state}.json").read_text()
            )["body"]
        )
        for state in ("firing", "resolved")
    )
    assert firing is not None
    assert resolved is not None
    assert firing.title == "HighErrorRate checkout (local critical payments)"
    assert (firing.service, firing.severity) == ("checkout", "critical")
    assert (firing.status, resolved.status) == ("firing", "resolved")
    assert firing.fingerprint == resolved.fingerprint


def test_the_time_of_the_message_is_the_time_of_the_alert() -> None:
    alert = read(boxed("[FIRING:1] A"))
    assert alert is not None
    assert alert.started_at == datetime(2025, 11, 21, 1, 53, 20, 100, tzinfo=UTC)


@pytest.mark.parametrize(
    ("url", "vendor", "key"),
    [
        (PAGERDUTY, "PagerDuty", "PGR0VU2"),
        (
            "https://app.datadoghq.com/monitors/1234567?group=host%3Aweb-1&from_ts=1",
            "Datadog",
            "1234567/host:web-1",
        ),
        ("https://acme.datadoghq.eu/monitors#1234567", "Datadog", "1234567"),
        ("https://acme.sentry.io/issues/4567/?referrer=slack", "Sentry", "4567"),
        ("https://sentry.example/organizations/acme/issues/4567/", "Sentry", "4567"),
        ("https://grafana.example/alerting/grafana/ab-cd_1/view?orgId=1", "Grafana", "ab-cd_1"),
        ("http://vm:9093/#/alerts?receiver=bot", "Alertmanager", ""),
        (
            "https://eu-west-1.console.aws.amazon.com/cloudwatch/"
            "home?region=eu-west-1#alarmsV2:alarm/High%20CPU",
            "CloudWatch",
            "eu-west-1/High CPU",
        ),
        (
            "https://console.aws.amazon.com/cloudwatch/"
            "home?region=us-east-1#alarm:alarmFilter=ANY;name=High",
            "CloudWatch",
            "us-east-1/High",
        ),
    ],
)
def test_links_of_alerting_tools_say_what_is_alerting(url: str, vendor: str, key: str) -> None:
    link = alert_link(url)
    assert link is not None
    assert (link.vendor, link.key) == (vendor, key)
    alert = read(
        {"bot_id": "B1", "text": f"<{url.replace('&', '&amp;')}|Something is wrong>", "ts": "1.0"}
    )
    assert alert is not None
    assert alert.title == "Something is wrong"
    assert [found.url for found in alert.links] == [url]


@pytest.mark.parametrize(
    "url",
    [
        "https://github.com/acme/shop/issues/4567",
        "https://pagerduty.com.evil.example/incidents/PGR0VU2",
        "https://evil.example/?x=acme.pagerduty.com/incidents/PGR0VU2",
        "https://app.datadoghq.com/dashboard/abc",
        "https://notdatadoghq.com/monitors/1",
        "https://[bad/incidents/PGR0VU2",
        "",
    ],
)
def test_other_links_say_nothing(url: str) -> None:
    assert alert_link(url) is None


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (boxed("[FIRING:3] A"), "firing"),
        (boxed("[RESOLVED] A", color="danger"), "resolved"),
        (boxed("Triggered: A on host:x"), "firing"),
        (boxed("Recovered: A on host:x"), "resolved"),
        (boxed("Re-Triggered on host:x: A"), "firing"),
        (boxed("A", color="danger"), "firing"),
        (boxed("A", color="#E01E5A"), "firing"),
        (boxed("A", color="good"), "resolved"),
        (boxed("A", color="#2eb886", title_link=PAGERDUTY), "resolved"),
        ({"bot_id": "B1", "text": ":rotating_light: *ALARM: A*", "ts": "1.0"}, "firing"),
        ({"bot_id": "B1", "text": "OK: A", "ts": "1.0"}, "resolved"),
        ({"bot_id": "B1", "text": f"Resolved #2: <{PAGERDUTY}|A>", "ts": "1.0"}, "resolved"),
    ],
)
def test_the_layouts_of_alerts_are_recognised(message: dict[str, Any], status: str) -> None:
    alert = read(message)
    assert alert is not None
    assert alert.status == status
    assert alert.title.startswith("A")


@pytest.mark.parametrize(
    "message",
    [
        {"bot_id": "B1", "text": "Deployed shop 1.2.3 to production", "ts": "1.0"},
        {"bot_id": "B1", "text": "Good morning! https://wiki.example/on-call", "ts": "1.0"},
        boxed("Deploy finished", color="#439FE0"),
        boxed("Almost out of holidays", color="#FFA500"),
        {
            "bot_id": "B1",
            "text": "",
            "ts": "1.0",
            "attachments": [{"text": "no title", "color": "danger"}],
        },
        {"bot_id": "B1", "text": "", "ts": ""},
        {
            "bot_id": "B1",
            "ts": "1.0",
            "text": " ".join(f"https://a.pagerduty.com/incidents/P00000{n}" for n in range(5)),
        },
    ],
)
def test_what_else_bots_post_is_no_alert(message: dict[str, Any]) -> None:
    assert read(message) is None


def test_blocks_are_read_like_attachments() -> None:
    message = {
        "bot_id": "B1",
        "ts": "1.0",
        "text": "",
        "blocks": [
            {"type": "header", "text": {"type": "plain_text", "text": "Triggered: basket is slow"}},
            {
                "type": "actions",
                "elements": [{"type": "button", "text": {"text": "Open"}, "url": PAGERDUTY}],
            },
        ],
    }
    alert = read(message)
    assert alert is not None
    assert (alert.title, alert.service) == ("basket is slow", "checkout")
    assert alert.links[0].url == PAGERDUTY


def test_an_alert_is_known_by_its_link_whatever_its_title() -> None:
    first = read(boxed("#2: Boom", title_link=PAGERDUTY))
    later = read(boxed("Acknowledged: Boom", title_link=PAGERDUTY))
    assert first is not None
    assert later is not None
    assert first.fingerprint == later.fingerprint


def test_equal_titles_of_two_namespaces_are_two_alerts() -> None:
    def fields(namespace: str) -> list[dict[str, str]]:
        return [{"title": "namespace", "value": namespace}]

    first, second, again = (
        read(boxed("[FIRING:1] ErrorsHigh", fields=fields(name)))
        for name in ("prod", "stg", "prod")
    )
    assert first is not None
    assert second is not None
    assert again is not None
    assert first.fingerprint == again.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("raw", "plain"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("see <https://x.example/?a=1&amp;region=eu|the graph>", "see the graph"),
        ("see <https://x.example/>", "see https://x.example/"),
        ("<!channel> <@U123> hi <#C1|ops> <!subteam^S1|@sre>", "  hi #ops "),
        ("&lt;@U123&gt; stays", "<@U123> stays"),
        ("<!date^1392734382^{date}|2014-02-18>", "2014-02-18"),
        ("<", "<"),
    ],
)
def test_slack_markup_becomes_plain_text(raw: str, plain: str) -> None:
    assert slack_plain(raw) == plain


def test_links_lose_slacks_escapes_and_the_full_stop_after_them() -> None:
    text = "<https://x.example/?a=1&amp;region=eu|graph>, or http://y.example/z. Bye"
    assert slack_urls(text) == ["https://x.example/?a=1&region=eu", "http://y.example/z"]


def test_an_alert_is_answered_in_its_own_thread() -> None:
    found = decide(bot_message())
    assert isinstance(found, Arrival)
    assert found.delivery.id == "Ev1"
    assert (found.reply_to.slack_channel, found.reply_to.slack_thread) == (
        WATCHED,
        "1763690000.000100",
    )


@pytest.mark.parametrize(
    "change",
    [
        {"channel": "C0OTHER"},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"subtype": "", "bot_id": "", "user": "U1"},
        {"bot_id": "B0US"},
        {"user": "U0BOT"},
        {"app_id": "A0FAULT"},
        {"bot_profile": {"app_id": "A0FAULT"}},
        {"metadata": {"event_type": "faultline_report", "event_payload": {}}},
        {"text": "<@U0BOT> investigate"},
        {"thread_ts": "1763600000.000100"},
    ],
)
def test_our_own_messages_people_edits_and_replies_start_nothing(change: dict[str, Any]) -> None:
    assert isinstance(decide(bot_message(**change)), Ignored)


def test_a_reply_or_an_edit_that_says_resolved_ends_the_alert() -> None:
    ended = {
        "attachments": [{"title": "[RESOLVED] HighErrorRate checkout (critical)", "color": "good"}]
    }
    started = decide(bot_message())
    reply = decide(bot_message(thread_ts="1763600000.000100", **ended))
    edit = decide(
        {
            "type": "message",
            "subtype": "message_changed",
            "channel": WATCHED,
            "message": bot_message(**ended),
        }
    )
    assert isinstance(started, Arrival)
    assert isinstance(reply, Arrival)
    assert isinstance(edit, Arrival)
    assert {reply.alert.status, edit.alert.status} == {"resolved"}
    assert {started.alert.fingerprint} == {reply.alert.fingerprint, edit.alert.fingerprint}


def test_a_linked_pagerduty_incident_gets_the_note_unless_pagerduty_itself_tells_us() -> None:
    message = bot_message(attachments=[{"title": "#2: Boom", "title_link": PAGERDUTY}])
    found = decide(message)
    assert isinstance(found, Arrival)
    assert found.reply_to.pagerduty_incident == "PGR0VU2"
    both = SETTINGS.model_copy(
        update={"pagerduty": PagerDutySettings(webhook_secrets=secrets(("k",)))}
    )
    found = decide(message, both)
    assert isinstance(found, Arrival)
    assert found.reply_to.pagerduty_incident is None


def test_slacks_blanked_samples_are_read_without_harm(shared: Path) -> None:
    files = list((shared / "webhooks/slack").glob("*.json"))
    assert len(files) > 8
    for file in files:
        envelope = Envelope.model_validate(json.loads(file.read_text()))
        found = watched(envelope, US, SETTINGS, now=NOW)
        assert isinstance(found, Arrival) == (file.name == "message.bot_message.alertmanager.json")


PARTS = (
    "text",
    "attachments",
    "blocks",
    "metadata",
    "bot_profile",
    "ts",
    "thread_ts",
    "message",
    "user",
)
BOX = st.fixed_dictionaries(
    {"title": st.text(max_size=30)}, optional=dict.fromkeys(("color", "fields", "title_link"), JSON)
)


@examples(max_examples=60)
@given(
    st.fixed_dictionaries({}, optional=dict.fromkeys(PARTS, JSON)),
    st.lists(BOX, max_size=2),
    st.sampled_from(["", "bot_message", "message_changed"]),
)
def test_any_message_is_ignored_or_an_alert_that_can_be_stored(
    event: Any, boxes: Any, subtype: str
) -> None:
    found = decide(
        {"channel": WATCHED, "bot_id": "B1", "subtype": subtype, "attachments": boxes, **event}
    )
    if isinstance(found, Arrival):
        assert len(found.alert.fingerprint) == 16
        found.alert.model_dump_json().encode()


@examples(max_examples=60)
@given(st.text(max_size=200))
def test_any_text_is_read(text: str) -> None:
    slack_plain(text)
    slack_urls("https://" + text)
    alert_link("https://" + text)
    read({"bot_id": "B1", "text": "ALARM: " + text, "ts": text})
