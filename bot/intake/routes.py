"""The HTTP addresses that take alerts and clicks: /webhooks/<vendor>, /slack/events and
/slack/interactivity.

An answer says only what its sender may know: 202 with the investigation's id, 401 "signature", 404
with the setting to set, 400, 408 or 413 about the body, 503 when the same request should be sent
again.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from slack_bolt.adapter.starlette.async_handler import to_async_bolt_request, to_starlette_response
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from bot.intake.accepting import Accept, FirstTime, Ignored, IntakeLimits, NotAccepted, take
from bot.intake.alertmanager_webhook import read_alertmanager
from bot.intake.datadog_webhook import read_datadog, verify_datadog
from bot.intake.pagerduty_webhook import read_pagerduty
from bot.intake.payload_fields import form_payload, json_object
from bot.intake.questions.door import Door
from bot.intake.request_body import Refused, read_body
from bot.intake.sentry_webhook import ANSWER_WITHIN_S, read_sentry
from bot.intake.signatures import (
    BadSignature,
    verify_alertmanager,
    verify_pagerduty,
    verify_sentry,
    verify_slack,
)
from bot.intake.slack_events import MISSHAPEN, Register, SlackEvents
from bot.intake.sns_signature import Fetch, fetch_https
from bot.intake.sns_webhook import SnsWebhook
from bot.settings import Settings
from bot.store.store import Accepted, Arrival, Delivery

Handler = Callable[[Request], Awaitable[Response]]
PAGERDUTY, ALERTMANAGER, SLACK = "/webhooks/pagerduty", "/webhooks/alertmanager", "/slack/events"
DATADOG = "/webhooks/datadog"
SENTRY = "/webhooks/sentry"
SLACK_CLICKS = "/slack/interactivity"
"""Clicks and forms: https://docs.slack.dev/interactivity/handling-user-interaction"""
SNS = "/webhooks/sns"

log = logging.getLogger("faultline.intake")


def intake_routes(
    settings: Settings,
    accept: Accept,
    *,
    limits: IntakeLimits | None = None,
    fetch_sns: Fetch = fetch_https,
    slack_listeners: Sequence[Register] = (),
    door: Door | None = None,
    first_time: FirstTime | None = None,
) -> list[BaseRoute]:
    """The routes; one whose secrets are not set answers 404 and names the setting.

    `fetch_sns` reaches SNS itself; `slack_listeners` add what other rooms want to hear from Slack;
    `door` takes the questions that people ask there, without it they are not answered; `first_time`
    remembers clicks, so that one which was recorded is not done again.
    """
    limits = limits or replace(IntakeLimits(), max_body_bytes=settings.server.max_body_bytes)
    handlers = {
        PAGERDUTY: _pagerduty(settings, accept, limits),
        ALERTMANAGER: _alertmanager(settings, accept, limits),
        DATADOG: _datadog(settings, accept, limits),
        SENTRY: _sentry(settings, accept, limits),
        SNS: _sns(settings, accept, limits, fetch_sns),
    }
    slack = _slack(settings, accept, limits, slack_listeners, door, first_time)
    handlers |= {SLACK: slack, SLACK_CLICKS: slack}
    return [
        Route(path, _answering(handler), methods=["POST"]) for path, handler in handlers.items()
    ]


def _pagerduty(settings: Settings, accept: Accept, limits: IntakeLimits) -> Handler:
    secrets = settings.pagerduty.webhook_secrets
    if not secrets:
        return _not_configured("FAULTLINE_PAGERDUTY__WEBHOOK_SECRETS")

    async def handle(request: Request) -> Response:
        body = await read_body(request, limits)
        verify_pagerduty(body, request.headers.get("x-pagerduty-signature"), secrets)
        found = read_pagerduty(body, settings, now=datetime.now(UTC))
        if isinstance(found, Ignored):
            return _ignored("pagerduty", found)
        return _taken([await take(accept, found, within_s=limits.accept_within_s)])

    return handle


def _alertmanager(settings: Settings, accept: Accept, limits: IntakeLimits) -> Handler:
    tokens = settings.alertmanager.webhook_tokens
    if not tokens:
        return _not_configured("FAULTLINE_ALERTMANAGER__WEBHOOK_TOKENS")

    async def handle(request: Request) -> Response:
        verify_alertmanager(request.headers.get("authorization"), tokens)
        body = await read_body(request, limits)
        found = read_alertmanager(body, settings, now=datetime.now(UTC))
        if isinstance(found, Ignored):
            raise Refused(400, found.reason)
        return _taken(await _take_all(accept, found, limits))

    return handle


def _sentry(settings: Settings, accept: Accept, limits: IntakeLimits) -> Handler:
    secrets = settings.sentry.webhook_secrets
    if not secrets:
        return _not_configured("FAULTLINE_SENTRY__WEBHOOK_SECRETS")

    async def handle(request: Request) -> Response:
        body = await read_body(request, limits)
        verify_sentry(body, request.headers.get("sentry-hook-signature"), secrets)
        found = read_sentry(body, settings, now=datetime.now(UTC))
        if isinstance(found, Ignored):
            return _ignored("sentry", found)
        return _taken(
            [await take(accept, found, within_s=min(limits.accept_within_s, ANSWER_WITHIN_S))]
        )

    return handle


def _datadog(settings: Settings, accept: Accept, limits: IntakeLimits) -> Handler:
    tokens = settings.datadog.webhook_tokens
    if not tokens:
        return _not_configured("FAULTLINE_DATADOG__WEBHOOK_TOKENS")

    async def handle(request: Request) -> Response:
        verify_datadog(request.headers.get("authorization"), tokens)
        body = await read_body(request, limits)
        found = read_datadog(body, settings, now=datetime.now(UTC))
        if isinstance(found, Ignored):
            return _ignored("datadog", found)
        return _taken([await take(accept, found, within_s=limits.accept_within_s)])

    return handle


def _sns(settings: Settings, accept: Accept, limits: IntakeLimits, fetch: Fetch) -> Handler:
    if not settings.aws.sns_topics:
        return _not_configured("FAULTLINE_AWS__SNS_TOPICS")
    webhook = SnsWebhook(settings, fetch)

    async def handle(request: Request) -> Response:
        body = await read_body(request, limits)
        found = await webhook.read(body, request.headers, now=datetime.now(UTC))
        if isinstance(found, Ignored):
            return _ignored("sns", found)
        return _taken([await take(accept, found, within_s=limits.accept_within_s)])

    return handle


def _slack(
    settings: Settings,
    accept: Accept,
    limits: IntakeLimits,
    listeners: Sequence[Register],
    door: Door | None,
    first_time: FirstTime | None,
) -> Handler:
    secrets = settings.slack.signing_secrets
    if not secrets:
        return _not_configured("FAULTLINE_SLACK__SIGNING_SECRETS")
    if settings.slack.bot_token is None:
        return _not_configured("FAULTLINE_SLACK__BOT_TOKEN")
    events = SlackEvents(settings, accept, limits, listeners, door)

    async def handle(request: Request) -> Response:
        body = await read_body(request, limits)
        timestamp, signature = (
            request.headers.get(f"x-slack-{n}") for n in ("request-timestamp", "signature")
        )
        verify_slack(body, timestamp, signature, secrets, now=time.time())
        if request.url.path == SLACK:
            payload = json_object(body)
            if payload is None or not isinstance(payload.get("event", {}), dict):
                return _ignored("slack", Ignored("the body is not an event"), status=200)
        else:
            payload = form_payload(body)
            if payload is None:
                return _ignored("slack", Ignored("the body is no form with a payload"), status=200)
            if first_time is not None and not await first_time(_click(body)):
                return _ignored("slack", Ignored("the same click came before"), status=200)
        if payload.get("type") == "app_rate_limited":
            log.warning(
                "slack is dropping events: more than 30,000 in an hour for this app and workspace"
            )
        try:
            answer = await events.app.async_dispatch(to_async_bolt_request(request, body))
        except MISSHAPEN as error:
            return _ignored(
                "slack", Ignored(f"Bolt cannot read the event ({type(error).__name__})"), status=200
            )
        if answer.status == 404:
            return _ignored("slack", Ignored("nothing to do for it"), status=200)
        return to_starlette_response(answer)

    return handle


def _click(body: bytes) -> Delivery:
    """A click or form by its body: each has a trigger of its own, and Slack sends none twice."""
    return Delivery("slack-click", hashlib.sha256(body).hexdigest())


async def _take_all(
    accept: Accept, found: Sequence[Arrival], limits: IntakeLimits
) -> list[Accepted]:
    """One after the other, so that a storm too large for one answer gets further with each
    retry."""
    deadline = time.monotonic() + limits.group_within_s
    taken: list[Accepted] = []
    for one in found:
        if time.monotonic() >= deadline:
            raise NotAccepted(
                f"{len(taken)} of {len(found)} alerts stored within {limits.group_within_s:g} s"
            )
        taken.append(await take(accept, one, within_s=limits.accept_within_s))
    return taken


def _taken(taken: Sequence[Accepted]) -> Response:
    outcomes = [{"outcome": one.outcome, "investigation_id": one.investigation_id} for one in taken]
    first = next((one.investigation_id for one in taken if one.investigation_id), None)
    return JSONResponse(
        {"outcome": taken[0].outcome, "investigation_id": first, "alerts": outcomes},
        status_code=202,
    )


def _ignored(source: str, ignored: Ignored, status: int = 202) -> Response:
    log.info("%s delivery ignored: %s", source, ignored.reason)
    return JSONResponse({"outcome": "ignored", "reason": ignored.reason}, status_code=status)


def _not_configured(variable: str) -> Handler:
    async def handle(request: Request) -> Response:
        return PlainTextResponse(f"not configured: set {variable}\n", status_code=404)

    return handle


def _answering(handler: Handler) -> Handler:
    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except BadSignature as error:
            log.warning("%s refused: %s", error.source, error.reason)
            return PlainTextResponse("signature\n", status_code=401)
        except Refused as error:
            log.warning("%s refused: %s", request.url.path, error)
            return PlainTextResponse(f"{error}\n", status_code=error.status)
        except NotAccepted as error:
            log.error("%s not taken: %s", request.url.path, error)
            return PlainTextResponse("try again\n", status_code=503, headers={"retry-after": "1"})

    return endpoint
