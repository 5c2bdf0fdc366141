"""Clicks and forms over Socket Mode: the real client and Bolt against a Slack on loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.conversation.slack.listeners import SlackFace
from faultline.bot.intake import slack_socket
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.slack_socket import start_socket_mode
from faultline.bot.processes.check import all_checks
from faultline.bot.store.listing import Labels
from tests.bot.answer.targets.answers import a_store, an_alert, settings
from tests.bot.intake.conftest import until
from tests.bot.intake.slack_on_loopback import slack_on_loopback


def click(investigation: str) -> dict[str, Any]:
    action = {
        "type": "button",
        "action_id": "faultline_right",
        "block_id": "b",
        "value": investigation,
    }
    return {
        "type": "block_actions",
        "user": {"id": "U1", "username": "ann", "team_id": "T1"},
        "team": {"id": "T1", "domain": "x"},
        "trigger_id": "1.2.3",
        "container": {"type": "message", "channel_id": "C1", "message_ts": "1.2"},
        "channel": {"id": "C1", "name": "incidents"},
        "actions": [
            {**action, "text": {"type": "plain_text", "text": "Right"}, "action_ts": "1763690000.1"}
        ],
    }


def form(investigation: str, cause: str) -> dict[str, Any]:
    values = {"cause": {"given": {"type": "plain_text_input", "value": cause}}}
    view = {
        "id": "V1",
        "type": "modal",
        "callback_id": "faultline_wrong_form",
        "state": {"values": values},
    }
    return {
        "type": "view_submission",
        "user": {"id": "U2", "username": "bob", "team_id": "T1"},
        "team": {"id": "T1", "domain": "x"},
        "view": {**view, "private_metadata": f"{investigation} C1 1.2", "blocks": []},
    }


def test_a_click_and_a_form_are_stored_and_then_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "PING_S", 0.3)
    store = a_store(tmp_path)
    investigation = store.accept(an_alert()).investigation_id or ""
    labels = Labels(store.engine)

    async def nowhere(_: str) -> Path | None:
        return None

    async def story(slack: Any) -> None:
        configured = settings(
            slack={"bot_token": "xoxb-1", "app_token": "xapp-1", "api_url": slack.api_url}
        )
        face = SlackFace(configured, store, nowhere, all_checks)
        more = [lambda app, _: face.register(app)]
        socket = await start_socket_mode(configured, store_accept(store), more=more)
        try:
            await until(lambda: bool(slack.sockets))
            slack.send(click(investigation), envelope="N1", kind="interactive")
            await until(lambda: slack.acknowledged == ["N1"], seconds=60)
            first = labels.get(investigation)
            assert first is not None
            assert (first.right, first.who) == (True, "ann (U1)")
            slack.send(form(investigation, "a lost index"), envelope="N2", kind="interactive")
            await until(lambda: slack.acknowledged == ["N1", "N2"], seconds=60)
        finally:
            await socket.close_async()

    with slack_on_loopback() as slack:
        asyncio.run(story(slack))
    held = labels.get(investigation)
    assert held is not None
    assert (held.right, held.cause, held.who) == (False, "a lost index", "bob (U2)")
    store.engine.dispose()
