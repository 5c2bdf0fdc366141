"""From an alert to its answer, over real HTTP, through the real processes."""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.loopback.slack import BOT_USER
from tests.scenarios.bot_story import CHANNEL, Story, bot_story
from tests.scenarios.small_case import write_small_case

ALERTS_CHANNEL = "C0ALERTS"


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """One bot for the stories of this file, begun from nothing.

    The same on PostgreSQL: `test_chaos.py`, whose senders' alerts are these.
    """
    directory = tmp_path_factory.mktemp("story")
    case = write_small_case(directory / "case")
    more = {
        "FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS": "am-token",
        "FAULTLINE_SLACK__ALERT_CHANNELS": ALERTS_CHANNEL,
        "FAULTLINE_PROMETHEUS__URL": "http://127.0.0.1:9",
    }
    with bot_story(directory, case, "sqlite", from_nothing=True, **more) as running:
        running.slack.channels[ALERTS_CHANNEL] = "alerts"
        yield running


def slack_event(story: Story, event: dict[str, Any], event_id: str) -> httpx.Response:
    """An event of the Events API, signed as Slack signs it."""
    body = json.dumps(
        {
            "type": "event_callback",
            "team_id": "T0LOOPBACK",
            "api_app_id": "A1",
            "event_id": event_id,
            "event_time": int(time.time()),
            "event": event,
            "authorizations": [{"team_id": "T0LOOPBACK", "user_id": BOT_USER, "is_bot": True}],
        }
    ).encode()
    stamp = str(int(time.time()))
    signature = hmac.new(
        b"slack-secret", b"v0:" + stamp.encode() + b":" + body, hashlib.sha256
    ).hexdigest()
    headers = {
        "content-type": "application/json",
        "x-slack-request-timestamp": stamp,
        "x-slack-signature": f"v0={signature}",
    }
    return httpx.post(f"{story.bot.url}/slack/events", content=body, headers=headers, timeout=10)


def answer_in(story: Story, channel: str, thread: str | None) -> str:
    """Wait for the answer in that place; its text."""

    def there() -> list[str]:
        found = [
            m
            for m in story.answers()
            if m.channel == channel and m.thread_ts == thread and len(m.versions) > 2
        ]
        return [m.text for m in found]

    story.wait_for(lambda: bool(there()), what=f"an answer in {channel} {thread}")
    return there()[0]


def test_a_pagerduty_alert_is_answered_in_slack_and_in_the_incident(story: Story) -> None:
    acknowledged = story.page_out("P1")
    assert acknowledged.status_code == 202
    investigation = acknowledged.json()["investigation_id"]
    story.wait_for(lambda: bool(story.pagerduty.incidents["P1"].notes), what="a note")
    note = story.pagerduty.incidents["P1"].notes[0].content
    assert "checkout" in note
    assert f"/investigations/{investigation}" in note
    story.wait_for(lambda: any(f.content for f in story.slack.files.values()), what="a chart")
    message = next(
        m
        for m in story.slack.posts
        if m.metadata["event_payload"]["key"] == f"{investigation}:slack"
    )  # type: ignore[index]
    story.wait_for(
        lambda: any(b["type"] == "image" for b in message.blocks), what="the chart in the message"
    )
    assert message.channel == CHANNEL
    assert "checkout" in json.dumps(message.blocks)
    assert "4f2a9c1" in json.dumps(message.blocks) + note, "the deploy before the onset is named"


def test_the_investigation_is_a_folder_that_replays_byte_for_byte(
    story: Story, tmp_path: Path
) -> None:
    investigation = story.page_out("P2").json()["investigation_id"]
    story.wait_for(lambda: bool(story.pagerduty.incidents["P2"].notes), what="a note")
    archive = httpx.get(f"{story.bot.url}/investigations/{investigation}/case.zip", timeout=10)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as zipped:
        zipped.extractall(tmp_path)
    folder = next(tmp_path.rglob("alert.json")).parent
    assert {
        "alert.json",
        "scope.json",
        "evidence.json",
        "findings.json",
        "report.json",
        "report.md",
    } <= {p.name for p in folder.iterdir()}
    assert json_bytes(diagnose(read_case(folder))) == (folder / "findings.json").read_bytes()


def test_a_source_that_is_away_is_named_as_a_gap(story: Story) -> None:
    investigation = story.page_out("P3").json()["investigation_id"]
    story.wait_for(lambda: bool(story.pagerduty.incidents["P3"].notes), what="a note")
    page = httpx.get(f"{story.bot.url}/investigations/{investigation}", timeout=10)
    assert page.status_code == 200
    assert "prometheus" in page.text
    entries = json.loads(_case_file(story, investigation, "evidence.json"))
    assert [e["source"] for e in entries if "reason" in e and e["kind"] == "metrics"] == [
        "prometheus"
    ]


def test_the_same_webhook_twice_is_answered_once(story: Story) -> None:
    first = story.page_out("P4")
    again = story.send("P4", "checkout p99 latency above 800 ms")
    assert again.status_code == 202
    assert again.json()["investigation_id"] == first.json()["investigation_id"]
    story.wait_for(lambda: bool(story.pagerduty.incidents["P4"].notes), what="a note")
    assert len(story.pagerduty.incidents["P4"].notes) == 1


def test_a_tampered_webhook_starts_nothing(story: Story) -> None:
    before = story.store.count()
    answer = httpx.post(
        f"{story.bot.url}/webhooks/pagerduty",
        content=b"{}",
        headers={"x-pagerduty-signature": "v1=00"},
        timeout=10,
    )
    assert answer.status_code == 401
    assert story.store.count() == before


def test_a_mention_is_answered_in_its_thread(story: Story) -> None:
    ts = story.slack.say(CHANNEL, f"<@{BOT_USER}> investigate why checkout is slow")
    event = {
        "type": "app_mention",
        "user": "U0ENGINEER",
        "text": f"<@{BOT_USER}> investigate why checkout is slow",
        "ts": ts,
        "channel": CHANNEL,
        "event_ts": ts,
    }
    assert slack_event(story, event, "Ev1").status_code == 200
    assert slack_event(story, event, "Ev1").status_code == 200
    assert "checkout" in answer_in(story, CHANNEL, ts)
    assert sum(1 for m in story.slack.posts if m.thread_ts == ts) == 1


def test_an_alert_message_in_a_watched_channel_is_answered_in_its_thread(story: Story) -> None:
    ts = story.slack.say(ALERTS_CHANNEL, "[FIRING:1] HighErrorRate checkout", user="UALERTS")
    event = {
        "type": "message",
        "subtype": "bot_message",
        "bot_id": "B07ALERTS",
        "username": "Alertmanager",
        "text": "",
        "ts": ts,
        "event_ts": ts,
        "channel": ALERTS_CHANNEL,
        "channel_type": "channel",
        "attachments": [
            {
                "title": "[FIRING:1] HighErrorRate checkout (local critical payments)",
                "title_link": "http://alertmanager.example/#/alerts?receiver=bot",
                "fallback": "[FIRING:1] HighErrorRate checkout | "
                "http://alertmanager.example/#/alerts?receiver=bot",
                "color": "danger",
            }
        ],
    }
    assert slack_event(story, event, "Ev2").status_code == 200
    answer_in(story, ALERTS_CHANNEL, ts)


def test_an_alertmanager_notification_is_answered(story: Story) -> None:
    alert = {
        "status": "firing",
        "labels": {"alertname": "CheckoutSlow", "service": "checkout", "severity": "critical"},
        "annotations": {"summary": "checkout p99 above 800 ms"},
        "startsAt": "2026-11-20T03:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus.example/graph",
        "fingerprint": "a8717a0bf98548be",
    }
    notification = {
        "version": "4",
        "groupKey": "{}:{}",
        "status": "firing",
        "receiver": "faultline",
        "groupLabels": {},
        "commonLabels": alert["labels"],
        "commonAnnotations": alert["annotations"],
        "externalURL": "http://alertmanager.example",
        "alerts": [alert],
        "truncatedAlerts": 0,
    }
    url = f"{story.bot.url}/webhooks/alertmanager"
    assert httpx.post(url, json=notification, timeout=10).status_code == 401
    taken = httpx.post(
        url, json=notification, headers={"authorization": "Bearer am-token"}, timeout=10
    )
    assert taken.status_code == 202
    investigation = taken.json()["investigation_id"]
    story.wait_for(lambda: _status(story, investigation) == "done", what="an answer")


def test_slack_being_down_delays_no_other_answer_and_loses_none(story: Story) -> None:
    story.slack.traffic.fail_next(3, 503)
    investigation = story.page_out("P5").json()["investigation_id"]
    story.wait_for(
        lambda: bool(story.pagerduty.incidents["P5"].notes), within_s=20, what="the note at once"
    )
    key = f"{investigation}:slack"
    story.wait_for(
        lambda: (
            [(m.metadata or {})["event_payload"]["key"] for m in story.answers()].count(key) == 1
        ),
        what="the answer in Slack, later",
    )


def _status(story: Story, investigation: str) -> str:
    found = story.store.get(investigation)
    return found.status if found else "unknown"


def _case_file(story: Story, investigation: str, name: str) -> bytes:
    archive = httpx.get(f"{story.bot.url}/investigations/{investigation}/case.zip", timeout=10)
    with zipfile.ZipFile(io.BytesIO(archive.content)) as zipped:
        return zipped.read(next(n for n in zipped.namelist() if n.endswith(name)))
