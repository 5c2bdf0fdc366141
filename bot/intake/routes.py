"""The HTTP addresses that take alerts and clicks: those of every alert source.

An answer says only what its sender may know: 202 with the investigation's id, 401 "signature" (429
from an address that was wrong too often), 404 with the setting to set, 400, 408 or 413 about the
body, 503 when the same request should be sent again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route

from faultline.bot.intake.accepting import Accept, FirstTime, IntakeLimits
from faultline.bot.intake.alert_source import AlertSource, Intake
from faultline.bot.intake.alert_sources import alert_sources
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.signatures import (
    FailedSenders,
    Keep,
    not_configured,
    with_errors_answered,
)
from faultline.bot.intake.watchdog import Watchdog
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store

if TYPE_CHECKING:
    from faultline.bot.intake.slack_events import Register


def intake_routes(
    settings: Settings,
    accept: Accept,
    *,
    sources: Sequence[AlertSource] | None = None,
    limits: IntakeLimits | None = None,
    slack_listeners: Sequence[Register] = (),
    message_router: MessageRouter | None = None,
    first_time: FirstTime | None = None,
    watchdog: Watchdog | None = None,
    keep: Keep | None = None,
    store: Store | None = None,
) -> list[BaseRoute]:
    """The routes of these sources (unset: of all); one whose secrets are not set answers 404 and
    names the setting.

    `slack_listeners` add what other rooms want to hear from Slack; `message_router` takes the
    questions that people ask there, without it they are not answered; `first_time` remembers
    clicks, so that one which was recorded is not done again; `watchdog` hears the alert that always
    fires, without it that is an alert like others; `keep` keeps changes that a webhook brings;
    `store` is for what people do in Teams.
    Raises SettingsError for a plug-in that cannot be used.
    """
    limits = limits or replace(IntakeLimits(), max_body_bytes=settings.server.max_body_bytes)
    intake = Intake(
        accept, limits, slack_listeners, message_router, first_time, watchdog, keep, store
    )
    # One count for all routes, so that a stranger cannot start again at the next one.
    senders = FailedSenders(settings)
    routes: list[BaseRoute] = []
    for source in alert_sources() if sources is None else sources:
        routes += _routes_of(source, settings, intake, senders)
    return routes


def _routes_of(
    source: AlertSource, settings: Settings, intake: Intake, senders: FailedSenders
) -> list[BaseRoute]:
    missing = source.missing(settings)
    if missing is None:
        handlers = source.handlers(settings, intake)
    else:
        handlers = dict.fromkeys(source.paths_in(settings), not_configured(missing))
    routes: list[BaseRoute] = []
    for path, handler in handlers.items():
        routes.append(Route(path, with_errors_answered(handler, senders), methods=["POST"]))
    return routes
