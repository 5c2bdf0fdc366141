"""The Slack app manifest asks for what the code uses, and for nothing else."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MANIFEST = (ROOT / "docs/slack-app-manifest.yml").read_text(encoding="utf-8")
SCOPE_OF_CALL = {
    "chat_postMessage": {"chat:write"},
    "chat_update": {"chat:write"},
    "chat_delete": {"chat:write"},
    "files_upload_v2": {"files:write"},
    "conversations_replies": {"channels:history", "groups:history"},
    "conversations_history": {"channels:history", "groups:history"},
    "auth_test": set(),
    "apps_connections_open": set(),
}
"""docs.slack.dev, "Methods": the scopes a bot token needs; auth.test needs none, apps.connections.open an app token."""
SCOPE_OF_EVENT = {
    "app_mention": {"app_mentions:read"},
    "message.channels": {"channels:history"},
    "message.groups": {"groups:history"},
}


def listed(key: str) -> set[str]:
    block = re.search(rf"^( *){key}:\n((?:\1  - .+\n)+)", MANIFEST, re.MULTILINE)
    assert block, f"{key} is missing"
    return set(re.findall(r"- (\S+)", block[2]))


def test_every_scope_is_used_by_an_event_or_a_call_and_every_call_has_its_scope() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "bot").rglob("*.py"))
    called = set(re.findall(r"\.((?:chat|files|conversations|auth|apps|users|reactions|pins|views)_\w+)\(", source))
    assert called <= SCOPE_OF_CALL.keys(), "a call whose scope is not known here"
    needed = set().union(
        *(SCOPE_OF_EVENT[event] for event in listed("bot_events")), *(SCOPE_OF_CALL[c] for c in called)
    )
    assert listed("bot") == needed


def test_the_address_is_the_one_that_is_served() -> None:
    assert "request_url: https://BOT/slack/events\n" in MANIFEST
