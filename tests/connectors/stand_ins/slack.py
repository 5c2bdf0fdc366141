"""Slack: a channel where deploys are announced, and the thread of an alert about checkout."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
TOKEN, DEPLOYS, ALERTS, BOT_USER = "xoxb-1", "C0DEPLOYS", "C0ALERTS", "U0FAULTLINE"
DEPLOYED = ONSET - timedelta(minutes=2)
PAGE = 2
"""Messages per page, so that a few messages make several pages."""


def settings(url: str) -> dict[str, Any]:
    """One channel; checkout has another name there."""
    slack = {"bot_token": TOKEN, "api_url": url, "deploy_channels": [DEPLOYS]}
    return {"slack": slack, "services": {"checkout": {"aliases": ["checkout-api"]}, "cart": {}}}


def ts(at: datetime, number: int = 100) -> str:
    """A message's identity."""
    return f"{int(at.timestamp())}.{number:06d}"


THREAD = ts(ALERT_AT)


def serve(server: LocalServer) -> None:
    """Both methods, and who the bot is."""
    who = {
        "ok": True,
        "url": "https://acme.slack.com/",
        "team": "acme",
        "user": "faultline",
        "team_id": "T0ACME01",
    }
    server.on("/auth.test", Reply({**who, "user_id": BOT_USER, "bot_id": "B0FAULT01"}))
    server.on("/conversations.history", _history)
    server.on("/conversations.replies", _replies)


def announcements() -> list[dict[str, Any]]:
    """Newest first, as Slack lists them."""
    return [
        said(
            "Should we have deployed checkout 2.5 already?",
            ALERT_AT - timedelta(minutes=1),
            "U0ASKER1",
        ),
        said("checkout was deployed: my findings", ALERT_AT - timedelta(minutes=2), BOT_USER),
        said(
            "<@U0DANA11> deployed <https://ci.example.com/9|checkout-api> v2.4.1 to production",
            DEPLOYED,
            "U0DEPLOY",
        ),
        said("Deployment of cart 7.0.0 failed", DEPLOYED - timedelta(minutes=9), "U0DEPLOY"),
        said("Rolled back cart to 9f2c1d7e5b", DEPLOYED - timedelta(hours=3), "U0DEPLOY"),
        said("Lunch is released, v1.0.0 &amp; fresh", DEPLOYED - timedelta(hours=4), "U0COOK11"),
    ]


def replies() -> list[dict[str, Any]]:
    """The alert's message, and what people said below it."""
    head = {"thread_ts": THREAD, "reply_count": 3, "subscribed": False}
    below = {"thread_ts": THREAD, "parent_user_id": "U0ALERTS"}
    return [
        said("Triggered: checkout is slow", ALERT_AT, "U0ALERTS") | head,
        said(
            "<!channel> payments timed out, <@U0DANA11> looks",
            ALERT_AT + timedelta(minutes=1),
            "U0SAM111",
        )
        | below,
        said("Investigating...", ALERT_AT + timedelta(minutes=1), BOT_USER) | below,
        said("I doubled the pool", ALERT_AT + timedelta(minutes=4), "U0DANA11") | below,
    ]


def said(text: str, at: datetime, user: str) -> dict[str, Any]:
    """One message."""
    return {"type": "message", "text": text, "user": user, "ts": ts(at)}


def _history(asked: Asked) -> Reply:
    if asked.query.get("channel") != [DEPLOYS]:
        return refused("channel_not_found")
    oldest, latest = (
        float(asked.query.get(k, [d])[0]) for k, d in (("oldest", "0"), ("latest", "9e9"))
    )
    kept = [m for m in announcements() if oldest <= float(m["ts"]) <= latest]
    return _page(kept, asked, pin_count=0, channel_actions_ts=None, channel_actions_count=0)


def _replies(asked: Asked) -> Reply:
    if asked.query.get("ts") != [THREAD]:
        return refused("thread_not_found")
    return _page(replies(), asked)


def _page(messages: list[dict[str, Any]], asked: Asked, **more: Any) -> Reply:
    start = int(asked.query.get("cursor", ["0"])[0])
    following = start + PAGE < len(messages)
    answer = {"ok": True, "messages": messages[start : start + PAGE], "has_more": following, **more}
    if following:
        answer["response_metadata"] = {"next_cursor": str(start + PAGE)}
    return Reply(answer)


def refused(error: str) -> Reply:
    """How Slack refuses."""
    return Reply({"ok": False, "error": error})
