"""Slack as an alert source: alerts of other bots in its channels, mentions, clicks and forms.

It is not a webhook like the others: Bolt reads the events, the same ones also come over Socket
Mode, and what people ask goes to the conversation.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import AlertSource, Intake
from faultline.bot.intake.payload_fields import form_payload, json_object
from faultline.bot.intake.signatures import (
    Handler,
    ignored_response,
    not_configured,
    read_body,
    verify_slack,
)
from faultline.bot.policy.values import Delivery
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings, secret_variable
from faultline.connectors.shared.rows.named_ids import named_id
from faultline.connectors.vendors.slack import SlackSettings

if TYPE_CHECKING:
    from faultline.bot.intake.slack_events import SlackEvents

EVENTS_PATH = "/slack/events"
CLICKS_PATH = "/slack/interactivity"
"""Clicks and forms: https://docs.slack.dev/interactivity/handling-user-interaction"""

log = logging.getLogger("faultline.intake")


@dataclass(frozen=True, kw_only=True)
class SlackSource(AlertSource):
    """Events, clicks and forms over HTTP; `faultline.bot.intake.slack_socket` takes them
    without."""

    @property
    def paths(self) -> Mapping[str, str]:
        """Events, and clicks and forms."""
        return _paths("")

    def paths_in(self, settings: Settings) -> Mapping[str, str]:
        """Those of each workspace."""
        paths: dict[str, str] = {}
        for workspace_settings in settings.per_instance(self.section):
            paths |= _paths(workspace_settings.slack.instance.name)
        return paths

    def pasted_paths(self, settings: Settings) -> Mapping[str, str | None]:
        """Where each workspace sends its events; clicks are named in the app's manifest."""
        pasted_paths: dict[str, str | None] = {}
        for workspace_settings in settings.per_instance(self.section):
            path = next(iter(_paths(workspace_settings.slack.instance.name)))
            # One of Socket Mode sends nothing here.
            pasted_paths[path] = (
                None if workspace_settings.slack.app_token else self._missing_in(workspace_settings)
            )
        return pasted_paths

    def _missing_in(self, settings: Settings) -> str | None:
        """The variable of a workspace that must be set first for HTTP."""
        for key in self.required:
            if not getattr(settings.slack, key):
                return secret_variable(self.section, key, settings.slack.instance.name or None)
        return None

    def configured(self, settings: Settings) -> tuple[str, ...]:
        """Events over HTTP and over Socket Mode, each where it is configured."""
        names: list[str] = []
        for workspace_settings in settings.per_instance(self.section):
            workspace = workspace_settings.slack.instance.name
            if workspace_settings.slack.signing_secrets:
                names.append(f"{self.title} {workspace}".strip())
            if workspace_settings.slack.app_token is not None:
                names.append(f"Slack Socket Mode {workspace}".strip())
        return tuple(names)

    def handlers(self, settings: Settings, intake: Intake) -> Mapping[str, Handler]:
        """Two handlers for each workspace."""
        handlers: dict[str, Handler] = {}
        for workspace_settings in settings.per_instance(self.section):
            handlers |= self._handlers_of_workspace(workspace_settings, intake)
        return handlers

    def _handlers_of_workspace(self, settings: Settings, intake: Intake) -> Mapping[str, Handler]:
        """Two handlers before one Bolt app. A workspace's own secrets alone open its paths."""
        workspace = settings.slack.instance.name
        slack = settings.slack
        missing = self._missing_in(settings)
        if missing is not None:
            return dict.fromkeys(_paths(workspace), not_configured(missing))
        events = LateEvents(settings, intake)

        async def verified(request: Request) -> bytes:
            body = await read_body(request, intake.limits)
            timestamp = request.headers.get("x-slack-request-timestamp")
            signature = request.headers.get("x-slack-signature")
            verify_slack(body, timestamp, signature, slack.signing_secrets, now=time.time())
            return body

        async def handle_event(request: Request) -> Response:
            body = await verified(request)
            payload = json_object(body)
            if payload is None or not isinstance(payload.get("event", {}), dict):
                return _ignored("the body is not an event")
            return await _dispatched(await events.loaded(), request, body, payload)

        async def handle_click(request: Request) -> Response:
            body = await verified(request)
            payload = form_payload(body)
            if payload is None:
                return _ignored("the body is no form with a payload")
            # Whether a click or form is new. Raises NotAccepted.
            if intake.first_time is None:
                is_first = True
            else:
                # Each has its own trigger, and Slack sends none twice: the body is its identity.
                digest = hashlib.sha256(body).hexdigest()
                is_first = await intake.first_time(
                    Delivery("slack-click", named_id(workspace, digest))
                )
            if not is_first:
                return _ignored("the same click came before")
            return await _dispatched(await events.loaded(), request, body, payload)

        return dict(zip(_paths(workspace), (handle_event, handle_click), strict=True))


class LateEvents:
    """Bolt's app of a workspace, and all that listens to it: loaded with the first genuine event,
    so that a bot without questions does not hold it in memory."""

    def __init__(self, settings: Settings, intake: Intake) -> None:
        self._settings = settings
        self._intake = intake
        self._loading = asyncio.Lock()
        self._events: SlackEvents | None = None

    async def loaded(self) -> SlackEvents:
        """The same each time. No other request waits for it."""
        async with self._loading:
            if self._events is None:
                self._events = await in_thread(self._load)
        return self._events

    def _load(self) -> SlackEvents:
        from faultline.bot.intake.slack_events import SlackEvents

        intake = self._intake
        return SlackEvents(
            self._settings,
            intake.accept,
            intake.limits,
            intake.slack_listeners,
            intake.message_router,
        )


def _paths(workspace: str) -> Mapping[str, str]:
    """Of a named workspace they end with its name. Metrics tell them apart by it, too."""
    if not workspace:
        return {EVENTS_PATH: "slack", CLICKS_PATH: "slack clicks"}
    return {
        f"{EVENTS_PATH}/{workspace}": f"slack {workspace}",
        f"{CLICKS_PATH}/{workspace}": f"slack clicks {workspace}",
    }


async def _dispatched(
    events: SlackEvents, request: Request, body: bytes, payload: Mapping[str, Any]
) -> Response:
    """What Bolt and our listeners answer."""
    from slack_bolt.adapter.starlette.async_handler import (
        to_async_bolt_request,
        to_starlette_response,
    )

    from faultline.bot.intake.slack_events import MISSHAPEN

    if payload.get("type") == "app_rate_limited":
        log.warning(
            "slack is dropping events: more than 30,000 in an hour for this app and workspace"
        )
    try:
        answer = await events.app.async_dispatch(to_async_bolt_request(request, body))
    except MISSHAPEN as error:
        return _ignored(f"Bolt cannot read the event ({type(error).__name__})")
    # Bolt answers so where no listener fits, and Slack would send the event again.
    if answer.status == 404:
        return _ignored("nothing to do for it")
    return to_starlette_response(answer)


def _ignored(reason: str) -> Response:
    # Slack repeats whatever is not answered with 200.
    return ignored_response("slack", Ignored(reason), status=200)


ALERT_SOURCE = SlackSource(
    name="slack",
    title="Slack events",
    settings=SlackSettings,
    required=("signing_secrets", "bot_token"),
    setup=(
        "Mention the bot in a channel with a question, or name the channels to watch in "
        "slack.alert_channels. Event subscriptions deliver to"
    ),
)
