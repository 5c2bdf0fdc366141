"""Slack as a source, against a local server that answers in the shapes of its Web API."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.slack import CONNECTOR
from faultline.connectors.vendors.slack.connector import (
    LIMITS,
    MOST_MESSAGES,
    MOST_PAGES,
    SlackConnector,
)
from faultline.connectors.vendors.slack.messages import (
    ServiceWords,
    SlackHistoryMessage,
    announced,
    plain,
)
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import slack as stand_in
from tests.connectors.stand_ins.slack import ALERTS, DEPLOYED, DEPLOYS, THREAD, refused, said, ts

WORDS = ServiceWords({"checkout": ("checkout-api", "basket"), "cart": ()})


def connector(server: LocalServer, channels: tuple[str, ...] = (DEPLOYS,)) -> SlackConnector:
    """As the bot builds it, but in more of a hurry."""
    services = {"checkout": ("checkout-api",), "cart": ()}
    hurried = replace(LIMITS, requests_per_s=100)
    return SlackConnector(
        stand_in.TOKEN, server.url, channels=channels, services=services, limits=hurried
    )


def from_slack() -> Alert:
    """An alert that an app posted in Slack."""
    labels = {"slack_channel": ALERTS, "slack_thread": THREAD}
    return Alert(
        source="slack",
        title="checkout is slow",
        started_at=ALERT_AT,
        service="checkout",
        labels=labels,
    )


def collect(
    server: LocalServer,
    folder: Path,
    about: Alert | None = None,
    channels: tuple[str, ...] = (DEPLOYS,),
) -> Collected:
    """What is collected for an alert."""
    request = request_for(folder, services=("checkout", "cart"), alert=about or from_slack())
    return asyncio.run(collect_from(connector(server, channels), request))


def reasons(found: Collected) -> str:
    """All gaps in one text."""
    return " | ".join(f"{m.query}: {m.reason}" for m in found.missing)


@pytest.fixture
def slack(server: LocalServer) -> LocalServer:
    """Slack, with its channel and its thread."""
    stand_in.serve(server)
    return server


def test_deploys_that_are_announced_are_changes(slack: LocalServer, tmp_path: Path) -> None:
    found = collect(slack, tmp_path)
    assert found.missing == ()
    rows = conform(found.tables["changes"], "changes", "changes").sort("time").to_dicts()
    assert [(r["service"], r["kind"], r["id"]) for r in rows] == [
        ("cart", "deploy", "9f2c1d7e5b"),
        ("checkout", "deploy", "v2.4.1"),
    ]
    deploy = rows[1]
    assert deploy["time"] == DEPLOYED + timedelta(microseconds=100)
    assert deploy["title"] == "U0DANA11 deployed checkout-api v2.4.1 to production"
    assert deploy["author"] == "U0DEPLOY"
    assert (
        deploy["link"]
        == f"https://acme.slack.com/archives/{DEPLOYS}/p{ts(DEPLOYED).replace('.', '')}"
    )


def test_the_thread_so_far_is_evidence_without_our_own_words_and_without_mentions(
    slack: LocalServer, tmp_path: Path
) -> None:
    item = next(i for i in collect(slack, tmp_path).items if i.kind == "alert")
    assert dict(item.details) == {
        "2026-03-02T12:00:00Z U0ALERTS": "Triggered: checkout is slow",
        "2026-03-02T12:01:00Z U0SAM111": "payments timed out, U0DANA11 looks",
        "2026-03-02T12:04:00Z U0DANA11": "I doubled the pool",
    }
    assert item.link == f"https://acme.slack.com/archives/{ALERTS}/p{THREAD.replace('.', '')}"
    assert item.query == f"GET /conversations.replies?channel={ALERTS}&ts={THREAD}"


def test_a_long_thread_keeps_its_head_and_its_latest_messages(
    slack: LocalServer, tmp_path: Path
) -> None:
    many = [said(f"message {n}", ALERT_AT + timedelta(seconds=n), "U0SAM111") for n in range(90)]
    slack.on("/conversations.replies", Reply({"ok": True, "messages": many, "has_more": False}))
    item = next(i for i in collect(slack, tmp_path).items if i.kind == "alert")
    kept = list(item.details.values())
    assert (kept[0], kept[1], kept[-1], len(kept)) == (
        "message 0",
        "message 51",
        "message 89",
        MOST_MESSAGES,
    )
    assert item.cut == "50 of 90 messages left out"


def test_the_windows_and_the_token_are_sent_and_get_alone(
    slack: LocalServer, tmp_path: Path
) -> None:
    collect(slack, tmp_path)
    asyncio.run(connector(slack).check())
    history = next(a for a in slack.asked if a.path == "/conversations.history")
    assert history.query["oldest"] == [
        f"{(ALERT_AT - timedelta(hours=26, minutes=30)).timestamp():.6f}"
    ]
    assert history.query["latest"] == [f"{ALERT_AT.timestamp():.6f}"]
    assert all(a.headers["Authorization"] == "Bearer xoxb-1" for a in slack.asked)
    assert all("token" not in a.query for a in slack.asked)
    assert slack.methods == {"GET"}


def test_pages_without_end_are_cut_and_that_is_said(slack: LocalServer, tmp_path: Path) -> None:
    endless = {
        "ok": True,
        "messages": [said("hi", ALERT_AT, "U0X11")],
        "response_metadata": {"next_cursor": "1"},
    }
    slack.on("/conversations.history", Reply(endless))
    item = next(i for i in collect(slack, tmp_path).items if i.kind == "changes")
    assert item.cut == f"more than {MOST_PAGES} messages are there"


@pytest.mark.parametrize(
    ("answer", "said_of_it"),
    [
        (refused("missing_scope"), "the token lacks the scope for it"),
        (refused("not_in_channel"), "the bot is not in the channel: invite it"),
        (refused("something_new\u202e"), "refused: something_new"),
        (Reply({"ok": True, "messages": "none"}), "unexpected response"),
        (Reply(b'{"ok": tr'), "unexpected response"),
        (Reply([]), "unexpected response"),
        (
            Reply({"ok": False, "error": "ratelimited"}, 429, {"Retry-After": "60"}),
            "the rate limit is used up",
        ),
        (Reply(b"oops", 500), "refused (HTTP 500)"),
    ],
)
def test_a_refusal_is_a_gap_and_the_rest_stands(
    slack: LocalServer, tmp_path: Path, answer: Reply, said_of_it: str
) -> None:
    slack.on("/conversations.history", answer)
    found = collect(slack, tmp_path)
    assert said_of_it in reasons(found)
    assert "internal error" not in reasons(found)
    assert [i.kind for i in found.items] == ["alert"]


def test_a_refused_token_says_so_for_everything_and_is_not_quoted(
    slack: LocalServer, tmp_path: Path
) -> None:
    slack.on("/auth.test", refused("invalid_auth"))
    found = collect(slack, tmp_path)
    assert {m.kind for m in found.missing} == {"alert", "changes"}
    assert "authentication failed" in reasons(found)
    assert "xoxb" not in repr(found)


def test_what_the_settings_say_is_asked_below_slacks_limit(
    slack: LocalServer, tmp_path: Path
) -> None:
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(slack.url)))
    assert built is not None
    assert built.limits.requests_per_s * 60 <= 50
    elsewhere = Alert(source="x", title="t", started_at=ALERT_AT)
    found = asyncio.run(collect_from(built, request_for(tmp_path, alert=elsewhere)))
    assert found.tables["changes"].height == 2
    before = slack.paths().count("/auth.test")
    asyncio.run(collect_from(built, request_for(tmp_path, alert=elsewhere)))
    assert (before, slack.paths().count("/auth.test")) == (1, 1)


def test_an_alert_from_elsewhere_without_channels_asks_nothing(
    slack: LocalServer, tmp_path: Path
) -> None:
    found = collect(
        slack, tmp_path, Alert(source="pagerduty", title="t", started_at=ALERT_AT), channels=()
    )
    assert (found.items, found.missing, slack.asked) == ((), (), [])


def test_check_says_which_channel_cannot_be_read(slack: LocalServer) -> None:
    fine = asyncio.run(connector(slack).check())
    assert (fine.ok, f"deploys announced in {DEPLOYS} can be read" in fine.line) == (True, True)
    some = asyncio.run(connector(slack, (DEPLOYS, "C0OTHER")).check())
    assert "C0OTHER cannot be read (the channel is not there, or the bot is not in it)" in some.line
    slack.on("/auth.test", refused("token_revoked"))
    assert not asyncio.run(connector(slack).check()).ok


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Deployed checkout 1.2.3", [("checkout", "1.2.3")]),
        (":rocket: basket v12 released to production by dana", [("checkout", "v12")]),
        ("Rollback of cart to 1.9.0 completed", [("cart", "1.9.0")]),
        ("deploying checkout@9f2c1d7 ...", [("checkout", "9f2c1d7")]),
        ("Release of checkout is live", [("checkout", "slack 1772452800.000100")]),
        (
            "cart and checkout shipped with 4.5.6-rc.1",
            [("cart", "4.5.6-rc.1"), ("checkout", "4.5.6-rc.1")],
        ),
        ("checkout-worker deployed 1.2.3", []),
        ("checkout will be deployed at noon", []),
        ("deploy of checkout 1.2.3 failed", []),
        ("has checkout been deployed?", []),
        ("please deploy checkout", []),
        ("checkout is slow", []),
        ("we haven't deployed checkout", []),
    ],
)
def test_what_counts_as_an_announcement(text: str, expected: list[tuple[str, str]]) -> None:
    found = announced(SlackHistoryMessage(ts="1772452800.000100", text=text), WORDS)
    assert [(one.service, one.id) for one in found] == expected


def test_announcements_of_apps_stand_in_attachments_and_blocks() -> None:
    box = [
        {
            "fallback": "f",
            "title": "checkout",
            "text": "*Deployed* to prod",
            "fields": [{"title": "x", "value": "1.2.3"}],
        }
    ]
    assert [a.id for a in announced(SlackHistoryMessage(ts=THREAD, attachments=box), WORDS)] == [
        "1.2.3"
    ]
    blocks = [
        {"type": "section", "text": {"type": "mrkdwn", "text": "cart deployed"}},
        {"elements": [{"text": "v2.0.0"}]},
    ]
    assert [a.id for a in announced(SlackHistoryMessage(ts=THREAD, blocks=blocks), WORDS)] == [
        "v2.0.0"
    ]


@given(
    st.text(max_size=300),
    st.recursive(st.none() | st.text(), lambda c: st.lists(c) | st.dictionaries(st.text(), c)),
)
@examples(max_examples=60, deadline=None)
def test_hostile_messages_never_fail(text: str, nested: Any) -> None:
    message = SlackHistoryMessage(
        ts=THREAD, text=f"deployed checkout {text}", attachments=nested, blocks=nested
    )
    assert plain(message).isprintable()
    announced(message, WORDS)
