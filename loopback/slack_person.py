"""A person in Slack on loopback: clicks, fills in forms, opens the Home tab; the bot hears of it as
Slack tells it.

Payloads as in https://docs.slack.dev/reference/interaction-payloads, signed as Slack signs them,
over real HTTP.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import httpx

from faultline.bot.intake.signatures import sign_slack
from faultline.loopback.slack import BOT_USER, TEAM, LoopbackSlack, SlackedMessage
from faultline.loopback.slack_views import TRIGGER_S, Pane, SlackView

APP = "A0FAULTLINE"
ACK_S = 10.0
"""Slack waits 3 s; a busy machine of ours may need longer."""

_count = itertools.count(1)


@dataclass
class SlackPerson:
    """Somebody in the workspace. `bot` is the base address of the bot, `workspace` what its
    settings call this one among several."""

    slack: LoopbackSlack
    bot: str
    secret: str
    id: str = "U0ANN"
    name: str = "ann"
    workspace: str = ""
    team: str = TEAM
    """The workspace that the account belongs to; another one where a channel is shared with it."""
    answers: list[httpx.Response] = field(default_factory=list)
    """What the bot said to each request, oldest first."""

    def click(
        self,
        shown: SlackedMessage | SlackView,
        action: str,
        *,
        option: str | None = None,
        times: int = 1,
        trigger_s: float = TRIGGER_S,
    ) -> httpx.Response:
        """Press a button, or choose `option` of a menu; `times` says how often Slack delivers that
        one click."""
        block, element = _control(_blocks(shown), action, option)
        done = {
            "action_id": action,
            "block_id": block.get("block_id", "b"),
            "type": element["type"],
        }
        done["action_ts"] = f"{time.time():.3f}{next(_count):03d}"
        if element["type"] == "button":
            done |= {"text": element["text"], "value": element.get("value", "")}
        else:
            done["selected_option"] = next(o for o in element["options"] if o["value"] == option)
        payload = {
            **self._payload("block_actions", trigger_s),
            **self._where(shown),
            "actions": [done],
        }
        # Slack delivers a click again when it gets no answer, so the payload is the same.
        for _ in range(times):
            self._interact(payload)
        return self.answers[-1]

    def submit(self, view: SlackView, **answers: str | None) -> httpx.Response:
        """Fill in a form, by block id, and send it; it closes unless the bot answers otherwise."""
        values: dict[str, Any] = {}
        for block in (b for b in view.view["blocks"] if b["type"] == "input"):
            element, field_value = block["element"], answers.get(block["block_id"])
            values[block["block_id"]] = {element["action_id"]: _state(element, field_value)}
        shown = {**view.as_json(), "state": {"values": values}}
        answer = self._interact(
            {**self._payload("view_submission", TRIGGER_S), "view": shown, "response_urls": []}
        )
        # An empty answer closes the form.
        if answer.status_code == 200 and "response_action" not in (
            (answer.text and answer.json()) or {}
        ):
            view.closed = True
        return answer

    def open_home(self) -> httpx.Response:
        """Open the app's Home tab."""
        return self.event(
            {"type": "app_home_opened", "user": self.id, "channel": f"D{self.id}", "tab": "home"}
        )

    def open_assistant(self, *, looking_at: str = "") -> tuple[str, str]:
        """Open the assistant's pane; gives its channel and thread."""
        channel, thread = f"D{self.id}", f"{time.time():.0f}.{next(_count):06d}"
        self.slack.channels.setdefault(channel, "direct message")
        self.slack.surfaces.panes[channel, thread] = Pane()
        about = {"channel_id": looking_at, "team_id": TEAM} if looking_at else {}
        opened = {"user_id": self.id, "context": about, "channel_id": channel, "thread_ts": thread}
        self.event({"type": "assistant_thread_started", "assistant_thread": opened})
        return channel, thread

    def write(self, channel: str, text: str, *, thread: str | None = None) -> httpx.Response:
        """A message in a direct message channel or in a channel."""
        ts = self.slack.say(channel, text, thread_ts=thread, user=self.id)
        kind = "im" if channel.startswith("D") else "channel"
        message = {
            "type": "message",
            "user": self.id,
            "text": text,
            "ts": ts,
            "channel": channel,
            "channel_type": kind,
        }
        return self.event(message | ({"thread_ts": thread} if thread else {}))

    def event(self, event: Mapping[str, Any]) -> httpx.Response:
        """One event of the Events API."""
        body = {
            "type": "event_callback",
            "team_id": TEAM,
            "api_app_id": APP,
            "event_id": f"Ev{next(_count):06d}{time.time_ns()}",
            "event_time": int(time.time()),
            "authorizations": [{"team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
            "event": {"event_ts": f"{time.time():.6f}", **event},
        }
        return self._post("/slack/events", json.dumps(body).encode(), "application/json")

    def _interact(self, payload: Mapping[str, Any]) -> httpx.Response:
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return self._post("/slack/interactivity", body, "application/x-www-form-urlencoded")

    def _post(self, path: str, body: bytes, kind: str) -> httpx.Response:
        if self.workspace:
            path += f"/{self.workspace}"
        stamp = str(int(time.time()))
        headers = {
            "content-type": kind,
            "x-slack-request-timestamp": stamp,
            # The signature covers the time, so an old request cannot be sent again.
            "x-slack-signature": sign_slack(body, stamp, self.secret),
        }
        self.answers.append(
            httpx.post(self.bot + path, content=body, headers=headers, timeout=ACK_S)
        )
        return self.answers[-1]

    def _payload(self, kind: str, trigger_s: float) -> dict[str, Any]:
        return {
            "type": kind,
            "user": {"id": self.id, "username": self.name, "name": self.name, "team_id": self.team},
            "api_app_id": APP,
            "team": {"id": TEAM, "domain": "loopback"},
            "enterprise": None,
            "is_enterprise_install": False,
            "trigger_id": self.slack.surfaces.trigger(self.id, valid_s=trigger_s),
        }

    def _where(self, shown: SlackedMessage | SlackView) -> dict[str, Any]:
        if isinstance(shown, SlackView):
            return {"container": {"type": "view", "view_id": shown.id}, "view": shown.as_json()}
        container = {
            "type": "message",
            "message_ts": shown.ts,
            "channel_id": shown.channel,
            "is_ephemeral": False,
        }
        return {
            "container": container | ({"thread_ts": shown.thread_ts} if shown.thread_ts else {}),
            "channel": {"id": shown.channel, "name": self.slack.channels.get(shown.channel, "")},
            "message": shown.as_json(with_metadata=False),
            "state": {"values": {}},
        }


def actions_of(shown: SlackedMessage | SlackView) -> dict[str, list[str]]:
    """What can be clicked: the action ids, each with the values of its button or menu."""
    actions: dict[str, list[str]] = {}
    for _, element in _elements(_blocks(shown)):
        values = (
            [o["value"] for o in element["options"]]
            if "options" in element
            else [element.get("value", "")]
        )
        actions.setdefault(element["action_id"], []).extend(values)
    return actions


def _blocks(shown: SlackedMessage | SlackView) -> list[Any]:
    blocks: list[Any] = shown.view["blocks"] if isinstance(shown, SlackView) else shown.blocks
    return blocks


def _elements(blocks: list[Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    for block in blocks:
        inside = [*block.get("elements", [])] if block["type"] == "actions" else []
        for element in [*inside, *([block["accessory"]] if "accessory" in block else [])]:
            yield block, element


def _control(
    blocks: list[Any], action: str, option: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    # A menu is found by its option, a button by its action alone.
    for block, element in _elements(blocks):
        values = [o["value"] for o in element["options"]] if "options" in element else [option]
        if element["action_id"] == action and option in values:
            return block, element
    raise AssertionError(f"nothing shows {action} {option or ''}")


def _state(element: Mapping[str, Any], field_value: str | None) -> dict[str, Any]:
    if element["type"] == "plain_text_input":
        return {"type": element["type"], "value": field_value}
    chosen = next((o for o in element["options"] if o["value"] == field_value), None)
    return {"type": element["type"], "selected_option": chosen or element.get("initial_option")}
