"""Genuine requests sent again, now or after a week, and requests that come in another order than
they were sent in.

Each story goes through the vendor's own route, really signed, with the store behind it on both
databases.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import select

from faultline.bot.intake.accepting import store_accept, store_first_time
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import AlertSettings
from faultline.bot.store.admission_state import MIN_RETENTION, UNHEARD
from faultline.bot.store.store import Store
from faultline.bot.store.tables import DeliveryRow, InvestigationRow
from tests.bot.intake.conftest import (
    SLACK_SECRETS,
    Senders,
    alertmanager_alert,
    alertmanager_group,
    bot_message,
    pagerduty_event,
    serving,
    slack_event,
    slack_headers,
)
from tests.bot.intake.sns_sender import TOPIC, SnsSender, alarm, envelope, signed
from tests.connectors.local_http import LocalServer

WEEK = timedelta(days=7)
TOKEN = "s3cret"
SENTRY_SECRET = "sentry-secret"
Serve = Callable[..., Senders]


@dataclass(frozen=True)
class Request:
    """A request as it was on the wire: it can be sent again, byte by byte."""

    path: str
    body: bytes
    headers: dict[str, str]

    def tampered(self) -> Request:
        """The same with another body under the same headers."""
        return Request(
            self.path,
            self.body.replace(b"checkout", b"payments").replace(b"Checkout", b"Payments"),
            self.headers,
        )


def ago(**span: float) -> datetime:
    return datetime.now(UTC) - timedelta(**span)


def pagerduty(kind: str, event: str, at: datetime) -> Request:
    payload = pagerduty_event(f"incident.{kind}", event=event)
    payload["event"]["occurred_at"] = at.isoformat()
    body = json.dumps(payload).encode()
    digest = hmac.new(b"pd-old-secret", body, hashlib.sha256).hexdigest()
    return Request("/webhooks/pagerduty", body, {"x-pagerduty-signature": f"v1={digest}"})


def datadog(transition: str, event: str, at: datetime) -> Request:
    alert = {
        "id": "42",
        "cycle_key": "c1",
        "aggreg_key": "g",
        "transition": transition,
        "title": "Checkout errors",
    }
    payload = {
        "id": event,
        "alert": alert,
        "date": str(int(at.timestamp() * 1000)),
        "service": "checkout",
    }
    return Request(
        "/webhooks/datadog", json.dumps(payload).encode(), {"authorization": f"Bearer {TOKEN}"}
    )


def alertmanager(status: str, at: datetime) -> Request:
    alert = alertmanager_alert(status=status) | {"startsAt": at.isoformat()}
    body = json.dumps(alertmanager_group(alert)).encode()
    return Request("/webhooks/alertmanager", body, {"authorization": f"Bearer {TOKEN}"})


def sentry(action: str, at: datetime) -> Request:
    metric = {
        "id": "7",
        "date_detected": at.isoformat(),
        "alert_rule": {"id": "9", "name": "Checkout errors"},
    }
    body = json.dumps({"action": action, "data": {"metric_alert": metric}}).encode()
    digest = hmac.new(SENTRY_SECRET.encode(), body, hashlib.sha256).hexdigest()
    return Request("/webhooks/sentry", body, {"sentry-hook-signature": digest})


def sns(state: str, message: str, at: datetime, **more: str) -> Request:
    changed = alarm(state=state, StateChangeTime=at.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "+0000")
    return Request(
        "/webhooks/sns",
        signed(envelope(changed, MessageId=message, **more)),
        {"content-type": "text/plain"},
    )


def slack(title: str, color: str, event: str, at: datetime) -> Request:
    box = {"title": f"{title} HighErrorRate checkout", "color": color}
    body = json.dumps(
        slack_event(bot_message(ts=f"{at.timestamp():.6f}", attachments=[box]), event_id=event)
    ).encode()
    return Request("/slack/events", body, slack_headers(body, SLACK_SECRETS[0]))


FIRED, ENDED = ago(minutes=9), ago(minutes=5)
VENDORS: dict[str, tuple[Callable[[], Request], Callable[[], Request]]] = {
    "pagerduty": (
        lambda: pagerduty("triggered", "E1", FIRED),
        lambda: pagerduty("resolved", "E2", ENDED),
    ),
    "datadog": (
        lambda: datadog("Triggered", "D1", FIRED),
        lambda: datadog("Recovered", "D2", ENDED),
    ),
    "alertmanager": (
        lambda: alertmanager("firing", FIRED),
        lambda: alertmanager("resolved", FIRED),
    ),
    "sentry": (lambda: sentry("critical", FIRED), lambda: sentry("resolved", FIRED)),
    "sns": (lambda: sns("ALARM", "M1", FIRED), lambda: sns("OK", "M2", ENDED)),
    "slack": (
        lambda: slack("[FIRING:1]", "danger", "Ev1", FIRED),
        lambda: slack("[RESOLVED]", "good", "Ev2", ENDED),
    ),
}
"""By alert source: what tells that an alert fires, and what tells that the same alert has ended."""


@pytest.fixture
def known(settings: Settings) -> Settings:
    """Every alert source is configured."""
    more = {
        "alerts": {"oldest_days": 3},
        "datadog": {"webhook_tokens": [TOKEN]},
        "sentry": {"webhook_secrets": [SENTRY_SECRET]},
        "aws": {"sns_topics": [TOPIC]},
    }
    opened = Settings.model_validate(more)
    return opened.model_copy(
        update={
            "pagerduty": settings.pagerduty,
            "alertmanager": settings.alertmanager,
            "slack": settings.slack,
            "services": settings.services,
        }
    )


@pytest.fixture
def bot(serve: Serve, store: Store, known: Settings) -> Iterator[Senders]:
    """All of it, over a store; SNS's certificate lies on loopback."""
    with LocalServer() as server:
        yield serve(store, known, fetch_sns=SnsSender(server).fetch)


def send(bot: Senders, request: Request) -> httpx.Response:
    return bot.post(request.path, request.body, request.headers)


def a_week_passes(store: Store) -> None:
    """Everything that the store remembers was a week ago."""
    from sqlalchemy.orm import Session

    with Session(store.engine) as session, session.begin():
        for delivery in session.scalars(select(DeliveryRow)):
            delivery.received_at -= WEEK
        for row in session.scalars(select(InvestigationRow)):
            row.accepted_at -= WEEK
            row.status, row.finished_at = "done", row.accepted_at


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_genuine_request_starts_an_investigation_and_its_retry_none(
    bot: Senders, vendor: str
) -> None:
    fires = VENDORS[vendor][0]()
    first, again = send(bot, fires), send(bot, fires)
    assert (first.is_success, again.is_success) == (True, True), (
        "the vendor's retry is answered well"
    )
    assert bot.store.count() == 1


@pytest.mark.parametrize("vendor", ["pagerduty", "sentry", "sns", "slack"])
def test_a_changed_request_is_refused_where_the_vendor_signs(bot: Senders, vendor: str) -> None:
    answer = send(bot, VENDORS[vendor][0]().tampered())
    assert (answer.status_code, answer.text) == (401, "signature\n")
    assert bot.store.count() == 0


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_request_replayed_after_the_alert_has_ended_starts_nothing(
    bot: Senders, vendor: str
) -> None:
    fires, ends = VENDORS[vendor][0](), VENDORS[vendor][1]()
    for request in (fires, ends):
        assert send(bot, request).is_success
    assert bot.store.latest()[0].resolved_at is not None
    for request in (fires, ends, fires):
        assert send(bot, request).is_success
    assert bot.store.count() == 1


@pytest.mark.parametrize("vendor", VENDORS)
def test_a_request_replayed_after_a_week_starts_nothing(bot: Senders, vendor: str) -> None:
    fires, ends = VENDORS[vendor][0](), VENDORS[vendor][1]()
    for request in (fires, ends):
        send(bot, request)
    a_week_passes(bot.store)
    assert send(bot, fires).status_code in (200, 202)
    assert bot.store.count() == 1


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_end_that_comes_before_its_beginning_leaves_nothing_to_investigate(
    bot: Senders, vendor: str
) -> None:
    fires, ends = VENDORS[vendor][0](), VENDORS[vendor][1]()
    for request in (ends, fires):
        assert send(bot, request).is_success
    assert bot.store.count() == 0


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_next_time_the_alert_fires_is_news(bot: Senders, vendor: str) -> None:
    for request in (VENDORS[vendor][0](), VENDORS[vendor][1]()):
        send(bot, request)
    later = {
        "pagerduty": lambda: pagerduty("reopened", "E3", ago(minutes=1)),
        "datadog": lambda: datadog("Triggered", "D3", ago(minutes=1)),
        "alertmanager": lambda: alertmanager("firing", ago(minutes=1)),
        "sentry": lambda: sentry("critical", ago(minutes=1)),
        "sns": lambda: sns("ALARM", "M3", ago(minutes=1)),
        "slack": lambda: slack("[FIRING:1]", "danger", "Ev3", ago(minutes=1)),
    }
    assert send(bot, later[vendor]()).is_success
    assert bot.store.count() == 2


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda: pagerduty("triggered", "E1", ago(days=8)), 202),
        (lambda: datadog("Triggered", "D1", ago(days=8)), 202),
        (
            lambda: sns(
                "ALARM", "M1", ago(days=8), Timestamp=ago(days=7).strftime("%Y-%m-%dT%H:%M:%S.000Z")
            ),
            401,
        ),
    ],
)
def test_what_is_dated_a_week_ago_starts_nothing_even_in_an_empty_store(
    bot: Senders, make: Callable[[], Request], status: int
) -> None:
    assert send(bot, make()).status_code == status
    assert bot.store.count() == 0


def test_a_sentry_event_received_a_week_ago_starts_nothing_even_in_an_empty_store(
    bot: Senders,
) -> None:
    def event(received: datetime) -> Request:
        body = json.dumps(
            {
                "action": "triggered",
                "data": {
                    "event": {"issue_id": "4001", "event_id": "e", "received": received.timestamp()}
                },
            }
        ).encode()
        digest = hmac.new(SENTRY_SECRET.encode(), body, hashlib.sha256).hexdigest()
        return Request("/webhooks/sentry", body, {"sentry-hook-signature": digest})

    assert send(bot, event(ago(days=8))).json()["outcome"] == "ignored"
    assert send(bot, event(ago(minutes=1))).json()["outcome"] == "started"


def test_a_slack_request_of_more_than_five_minutes_ago_is_refused(bot: Senders) -> None:
    fires = slack("[FIRING:1]", "danger", "Ev1", ago(minutes=9))
    old = Request(
        fires.path, fires.body, slack_headers(fires.body, SLACK_SECRETS[0], time.time() - 301)
    )
    assert send(bot, old).status_code == 401
    assert bot.store.count() == 0


def test_a_firing_that_alertmanager_never_ended_starts_nothing_once_it_was_not_repeated_for_days(
    bot: Senders,
) -> None:
    fires = alertmanager("firing", ago(minutes=9))
    send(bot, fires)
    a_week_passes(bot.store)
    assert timedelta(days=1) < UNHEARD < WEEK
    assert send(bot, fires).json()["outcome"] == "duplicate"
    assert bot.store.count() == 1


def test_a_firing_that_alertmanager_repeats_for_days_is_looked_at_again(bot: Senders) -> None:
    from sqlalchemy.orm import Session

    fires = alertmanager("firing", ago(minutes=9))
    send(bot, fires)
    with Session(bot.store.engine) as session, session.begin():
        for delivery in session.scalars(select(DeliveryRow)):
            delivery.received_at -= timedelta(hours=13)
            if not delivery.delivery_id.startswith("heard "):
                session.delete(delivery)  # its slot of the clock has passed
        for row in session.scalars(select(InvestigationRow)):
            row.accepted_at -= timedelta(hours=13)
    assert send(bot, fires).json()["outcome"] == "started"


def test_datadog_bodies_without_id_cycle_and_date_are_not_one_delivery_for_ever(
    bot: Senders,
) -> None:
    def bare(transition: str) -> Request:
        payload = {"alert": {"id": "42", "transition": transition}}
        return Request(
            "/webhooks/datadog", json.dumps(payload).encode(), {"authorization": f"Bearer {TOKEN}"}
        )

    assert send(bot, bare("Triggered")).json()["outcome"] == "started"
    send(bot, bare("Recovered"))
    with_store_of_yesterday(bot.store)
    assert send(bot, bare("Triggered")).json()["outcome"] == "started"


def with_store_of_yesterday(store: Store) -> None:
    """What was delivered before lies in earlier slots of the clock."""
    from sqlalchemy.orm import Session

    with Session(store.engine) as session, session.begin():
        for delivery in session.scalars(select(DeliveryRow)):
            session.delete(delivery)


def test_a_click_that_is_sent_again_reaches_nobody(known: Settings, store: Store) -> None:
    heard: list[str] = []

    def listen(app: Any, _: Settings) -> None:
        @app.action("faultline_right")
        async def on_click(ack: Any, body: dict[str, Any]) -> None:
            heard.append(body["trigger_id"])
            await ack()

    def click(trigger: str) -> bytes:
        payload = {
            "type": "block_actions",
            "trigger_id": trigger,
            "team": {"id": "T1"},
            "user": {"id": "U1"},
            "actions": [
                {"type": "button", "action_id": "faultline_right", "block_id": "b", "value": "x"}
            ],
        }
        return urlencode({"payload": json.dumps(payload)}).encode()

    first_time = store_first_time(store)
    with serving(
        known, store_accept(store), slack_listeners=(listen,), first_time=first_time
    ) as base:
        for body in (click("1"), click("1"), click("2")):
            headers = slack_headers(body, SLACK_SECRETS[0]) | {
                "content-type": "application/x-www-form-urlencoded"
            }
            assert (
                httpx.post(f"{base}/slack/interactivity", content=body, headers=headers).status_code
                == 200
            )
    assert heard == ["1", "2"]


def test_the_store_must_remember_longer_than_any_limit_of_age() -> None:
    assert MIN_RETENTION > UNHEARD
    assert timedelta(days=AlertSettings().oldest_days) < MIN_RETENTION
