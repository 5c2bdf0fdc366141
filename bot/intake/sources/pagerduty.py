"""PagerDuty V3 webhooks: an incident that triggers or reopens is an alert, a resolved one its end.

Replay: PagerDuty signs the body alone, so nothing is taken from a header. The identity of a
delivery is that of the event in the body, or the body itself: a captured request sent again is a
duplicate. When the event occurred is in the body too: one of `alerts.oldest_days` ago, or from
before the incident's end, starts nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from pydantic import Field, SecretStr

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored, too_old
from faultline.bot.intake.alert_source import WebhookSource, signed_body
from faultline.bot.intake.payload_fields import (
    Address,
    Line,
    Payload,
    Table,
    When,
    digest_of,
    filled,
    json_object,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.signatures import BadSignature, any_equal, hmac_sha256, usable
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.named_ids import named_id
from faultline.connectors.vendors.pagerduty import ACCOUNT_LABEL, PagerDutySettings

SOURCE = "pagerduty"
STARTS = frozenset({"incident.triggered", "incident.reopened"})
ENDS = "incident.resolved"
MAX_SIGNATURES = 16
"""PagerDuty sends one signature for each active secret; more than this is not PagerDuty."""


class PagerDutyReference(Payload):
    """PagerDuty's pointer to another object."""

    id: Line = ""
    summary: Line = ""
    html_url: Address = ""


class PagerDutyIncident(Payload):
    """`event.data` of the incident events: developer.pagerduty.com, "Webhooks overview"."""

    id: Line = ""
    incident_key: Line = ""
    title: Line = ""
    html_url: Address = ""
    urgency: Line = ""
    created_at: When = None
    reopened_at: When = None
    service: Table[PagerDutyReference] = Field(default_factory=PagerDutyReference)
    priority: Table[PagerDutyReference] = Field(default_factory=PagerDutyReference)


class PagerDutyEvent(Payload):
    """The envelope."""

    id: Line = ""
    event_type: Line = ""
    occurred_at: When = None
    data: Table[PagerDutyIncident] = Field(default_factory=PagerDutyIncident)


class PagerDutyWebhook(Payload):
    """The whole body."""

    event: Table[PagerDutyEvent] = Field(default_factory=PagerDutyEvent)


def sign_pagerduty(body: bytes, secret: str) -> str:
    """One value of `x-pagerduty-signature`: `v1=<hex HMAC-SHA256 of the body>`."""
    return "v1=" + hmac_sha256(secret, body)


def verify_pagerduty(body: bytes, header: str | None, secrets: Sequence[SecretStr]) -> None:
    """One of several comma-separated signatures must fit one of our secrets. Raises
    BadSignature."""
    if not header:
        raise BadSignature(SOURCE, "no x-pagerduty-signature header")
    parts = [part.strip() for part in header.split(",")]
    # Each signature is compared with each secret: bound the work that a stranger can cause.
    if len(parts) > MAX_SIGNATURES:
        raise BadSignature(SOURCE, "too many signatures")
    expected = [sign_pagerduty(body, secret) for secret in usable(secrets)]
    if not any_equal(parts, expected):
        raise BadSignature(SOURCE, "no signature fits any secret")


def read_pagerduty(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose signature holds. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    event = PagerDutyWebhook.model_validate(payload).event
    if event.event_type not in STARTS and event.event_type != ENDS:
        return Ignored(f"nothing to do for {event.event_type or 'an event without a type'}")
    if not event.data.id:
        return Ignored(f"{event.event_type} names no incident")
    old = too_old(event.occurred_at, settings, now)
    if old is not None:
        return old
    if not event.id:
        delivery_id = hashlib.sha256(body).hexdigest()
    else:
        incident = event.data
        at = event.occurred_at.isoformat() if event.occurred_at else ""
        parts = (event.id, event.event_type, incident.id, incident.incident_key, at)
        delivery_id = digest_of(*parts)
    account, delivery = settings.pagerduty.instance.name, delivery_id
    return Arrival(
        alert=_alert(event, settings, now),
        delivery=Delivery(SOURCE, named_id(account, delivery), event.occurred_at),
        reply_to=ReplyTo(pagerduty_incident=named_id(account, event.data.id)),
    )


def _alert(event: PagerDutyEvent, settings: Settings, now: datetime) -> Alert:
    incident = event.data
    started_at = incident.created_at or event.occurred_at or now
    # An incident that was reopened keeps the time at which it was first created.
    if event.event_type == "incident.reopened" and incident.reopened_at:
        started_at = incident.reopened_at
    links: tuple[Link, ...] = ()
    if incident.html_url:
        links = (Link(title="PagerDuty incident", url=incident.html_url),)
    account = settings.pagerduty.instance.name
    labels = {
        # Equal keys of two accounts are two incidents.
        "incident_key": named_id(account, incident.incident_key or incident.id),
        ACCOUNT_LABEL: account,
        "urgency": incident.urgency,
        "priority": incident.priority.summary,
        "pagerduty_service": incident.service.id,
    }
    alert = Alert(
        source=SOURCE,
        id=incident.id,
        title=incident.title or f"PagerDuty incident {incident.id}",
        started_at=started_at,
        status="resolved" if event.event_type == ENDS else "firing",
        severity=incident.priority.summary or incident.urgency or None,
        labels=filled(labels),
        links=links,
    )
    # One service there often stands for a team or a cluster: only the catalogue makes it more.
    names = (incident.service.summary, incident.service.id)
    named = [Naming(name, "its service in PagerDuty", is_hint=True) for name in names]
    return identified(alert, settings, now=now, named=named)


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="PagerDuty webhooks",
    setup=(
        "A V3 webhook subscription for incident.triggered, incident.reopened and "
        "incident.resolved that delivers to"
    ),
    settings=PagerDutySettings,
    required=("webhook_secrets",),
    receive=signed_body("x-pagerduty-signature", verify_pagerduty, read_pagerduty),
)
