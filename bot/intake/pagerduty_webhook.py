"""PagerDuty V3 webhooks: an incident that triggers or reopens is an alert, a resolved one its end.

Replay: PagerDuty signs the body alone, so nothing is taken from a header. The identity of a
delivery is that of the event in the body, or the body itself: a captured request sent again is a
duplicate. When the event occurred stands in the body too: one of `alerts.oldest_days` ago, or from
before the incident's end, starts nothing.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from pydantic import Field

from analysis.vocabulary import Alert, Link
from bot.intake.accepting import Ignored, too_old
from bot.intake.payload_fields import Address, Line, Payload, Table, When, json_object
from bot.intake.service_names import catalogued
from bot.settings import Settings
from bot.store.store import Arrival, Delivery, ReplyTo

SOURCE = "pagerduty"
STARTS = frozenset({"incident.triggered", "incident.reopened"})
ENDS = "incident.resolved"


class Reference(Payload):
    """PagerDuty's pointer to another object."""

    id: Line = ""
    summary: Line = ""
    html_url: Address = ""


class Incident(Payload):
    """`event.data` of the incident events: developer.pagerduty.com, "Webhooks overview"."""

    id: Line = ""
    incident_key: Line = ""
    title: Line = ""
    html_url: Address = ""
    urgency: Line = ""
    created_at: When = None
    reopened_at: When = None
    service: Table[Reference] = Field(default_factory=Reference)
    priority: Table[Reference] = Field(default_factory=Reference)


class Event(Payload):
    """The envelope."""

    id: Line = ""
    event_type: Line = ""
    occurred_at: When = None
    data: Table[Incident] = Field(default_factory=Incident)


class Webhook(Payload):
    """The whole body."""

    event: Table[Event] = Field(default_factory=Event)


def read_pagerduty(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose signature holds. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    event = Webhook.model_validate(payload).event
    if event.event_type not in STARTS and event.event_type != ENDS:
        return Ignored(f"nothing to do for {event.event_type or 'an event without a type'}")
    if not event.data.id:
        return Ignored(f"{event.event_type} names no incident")
    if (old := too_old(event.occurred_at, settings, now)) is not None:
        return old
    return Arrival(
        alert=_alert(event, settings, now),
        delivery=Delivery(SOURCE, _delivery_id(event, body), event.occurred_at),
        reply_to=ReplyTo(pagerduty_incident=event.data.id),
    )


def _alert(event: Event, settings: Settings, now: datetime) -> Alert:
    incident = event.data
    again = incident.reopened_at if event.event_type == "incident.reopened" else None
    labels = {
        "incident_key": incident.incident_key or incident.id,
        "urgency": incident.urgency,
        "priority": incident.priority.summary,
        "pagerduty_service": incident.service.id,
    }
    return Alert(
        source=SOURCE,
        id=incident.id,
        title=incident.title or f"PagerDuty incident {incident.id}",
        started_at=again or incident.created_at or event.occurred_at or now,
        status="resolved" if event.event_type == ENDS else "firing",
        service=catalogued(settings, incident.service.summary, incident.service.id),
        severity=incident.priority.summary or incident.urgency or None,
        labels={name: value for name, value in labels.items() if value},
        links=(Link(title="PagerDuty incident", url=incident.html_url),)
        if incident.html_url
        else (),
    )


def _delivery_id(event: Event, body: bytes) -> str:
    if not event.id:
        return hashlib.sha256(body).hexdigest()
    incident = event.data
    at = event.occurred_at.isoformat() if event.occurred_at else ""
    parts = (event.id, event.event_type, incident.id, incident.incident_key, at)
    return hashlib.sha256("\x00".join(parts).encode()).hexdigest()
