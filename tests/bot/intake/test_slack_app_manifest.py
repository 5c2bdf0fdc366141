"""The Slack app manifest asks for what the code uses, and for nothing else; docs/slack.md says
why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from faultline.bot.conversation.slack.listeners import EVENTS
from faultline.bot.intake.sources.slack import CLICKS_PATH, EVENTS_PATH

ROOT = Path(__file__).resolve().parents[3]
MANIFEST: dict[str, Any] = yaml.safe_load(
    (ROOT / "docs/slack-app-manifest.yml").read_text(encoding="utf-8")
)
PAGE = (ROOT / "docs/slack.md").read_text(encoding="utf-8")
READ_ALL = {"channels:history", "groups:history", "im:history"}
SCOPE_OF_CALL = {
    "assistant_threads_setStatus": {"assistant:write"},
    "assistant_threads_setSuggestedPrompts": {"assistant:write"},
    "assistant_threads_setTitle": {"assistant:write"},
    "auth_test": set(),
    "apps_connections_open": set(),
    "chat_postEphemeral": {"chat:write"},
    "chat_postMessage": {"chat:write"},
    "chat_update": {"chat:write"},
    "chat_delete": {"chat:write"},
    "conversations_history": READ_ALL,
    "conversations_info": {"channels:read", "groups:read", "im:read"},
    "conversations_members": {"channels:read", "groups:read", "im:read"},
    "conversations_replies": READ_ALL,
    "files_upload_v2": {"files:write"},
    "usergroups_users_list": {"usergroups:read"},
    "users_info": {"users:read"},
    "users_lookupByEmail": {"users:read.email"},
    "views_open": set(),
    "views_publish": set(),
    "views_push": set(),
    "views_update": set(),
}
"""docs.slack.dev, "Methods": the scopes a bot token needs; apps.connections.open needs an app
token."""
SCOPE_OF_EVENT = {
    "app_home_opened": set(),
    "app_mention": {"app_mentions:read"},
    "assistant_thread_started": {"assistant:write"},
    "assistant_thread_context_changed": {"assistant:write"},
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
    "message.im": {"im:history"},
}
FAMILIES = "assistant|chat|files|conversations|auth|apps|usergroups|users|reactions|pins|views"


def source() -> str:
    """Everything that is shipped."""
    return "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "bot").rglob("*.py"))


def scopes() -> set[str]:
    return set(MANIFEST["oauth_config"]["scopes"]["bot"])


def events() -> set[str]:
    return set(MANIFEST["settings"]["event_subscriptions"]["bot_events"])


def test_every_scope_is_used_by_an_event_or_a_call_and_every_call_has_its_scope() -> None:
    called = set(re.findall(rf"\.((?:{FAMILIES})_[a-zA-Z_0-9]+)\(", source())) - {"views_of"}
    assert called <= SCOPE_OF_CALL.keys(), "a call whose scope is not known here"
    needed: set[str] = set()
    needed = needed.union(
        *(SCOPE_OF_EVENT[event] for event in events()), *(SCOPE_OF_CALL[c] for c in called)
    )
    assert scopes() == needed


def test_every_event_is_listened_to_and_every_listener_has_its_event() -> None:
    listened = set(re.findall(r'@app\.event\("([\w.]+)"\)', source()))
    assert set(EVENTS) <= listened
    assert {event.partition(".")[0] for event in events()} == listened


def test_clicks_and_events_go_to_the_addresses_that_are_served() -> None:
    settings = MANIFEST["settings"]
    assert settings["event_subscriptions"]["request_url"] == f"https://BOT{EVENTS_PATH}"
    assert settings["interactivity"] == {
        "is_enabled": True,
        "request_url": f"https://BOT{CLICKS_PATH}",
    }


def test_the_home_tab_and_the_assistant_are_switched_on() -> None:
    features = MANIFEST["features"]
    assert features["app_home"]["home_tab_enabled"]
    assert features["app_home"]["messages_tab_enabled"]
    assert not features["app_home"]["messages_tab_read_only_enabled"]
    assert features["assistant_view"]["assistant_description"]


def test_the_page_gives_a_reason_for_each_scope_and_each_event() -> None:
    for name in sorted(scopes() | events()):
        assert f"`{name}`" in PAGE, f"{name} is not explained in docs/slack.md"
