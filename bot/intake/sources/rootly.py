"""Rootly's outgoing webhooks: an incident that starts and an alert are alerts, resolved, cancelled
and deleted ones their ends.

Source: docs.rootly.com, "Outgoing Webhooks" and "Event Payloads", and Rootly's OpenAPI document.
Replay: the signed time is that of one attempt, and how late Rootly tries again is not documented.
So when an event was issued, which the body holds, decides what is too old.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import Field, SecretStr, model_validator

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored, too_old
from faultline.bot.intake.alert_source import WebhookSource, signed_body
from faultline.bot.intake.payload_fields import (
    Address,
    Labels,
    Line,
    Payload,
    Rows,
    Table,
    Text,
    When,
    digest_of,
    filled,
    json_object,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.signatures import BadSignature, any_equal, hmac_sha256, usable
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.alert_sources import RootlySettings

SOURCE = "rootly"
STARTS = frozenset({"incident.created", "alert.created"})
ENDS = frozenset(
    {
        "incident.resolved",
        "incident.cancelled",
        "incident.deleted",
        "alert.resolved",
        "alert.deleted",
    }
)


def _attributes(value: Any) -> Any:
    """What Rootly's API wraps as `data.attributes`, its webhooks do not always."""
    wrapped = value.get("data") if isinstance(value, dict) else None
    inner = wrapped.get("attributes") if isinstance(wrapped, dict) else None
    return inner if isinstance(inner, dict) else value


class RootlyNamed(Payload):
    """A service, an environment or a severity."""

    name: Line = ""
    slug: Line = ""

    unwrapped = model_validator(mode="before")(_attributes)


class RootlyLabel(Payload):
    """A label of an alert."""

    key: Line = ""
    value: Line = ""


class RootlyEvent(Payload):
    """`event`."""

    id: Line = ""
    type: Line = ""
    issued_at: When = None


class RootlyData(Payload):
    """`data`: an incident, or an alert, which has `source` and `external_url` instead of a title
    and a page."""

    id: Line = ""
    kind: Line = ""
    title: Line = ""
    summary: Text = ""
    description: Text = ""
    source: Line = ""
    status: Line = ""
    url: Address = ""
    external_url: Address = ""
    severity: Table[RootlyNamed] = Field(default_factory=RootlyNamed)
    services: Rows[RootlyNamed] = ()
    environments: Rows[RootlyNamed] = ()
    labels: Rows[RootlyLabel] = ()
    data: Labels = Field(default_factory=dict)
    started_at: When = None
    created_at: When = None


class RootlyWebhook(Payload):
    """The whole body."""

    event: Table[RootlyEvent] = Field(default_factory=RootlyEvent)
    data: Table[RootlyData] = Field(default_factory=RootlyData)


def sign_rootly(body: bytes, sent: str, secret: str) -> str:
    """The value behind `v1=` in `x-rootly-signature`: the HMAC-SHA256 of time and body."""
    return hmac_sha256(secret, sent.encode() + body)


def verify_rootly(body: bytes, header: str | None, secrets: Sequence[SecretStr]) -> None:
    """`t=<time>,v1=<signature>` must fit one of our secrets. Raises BadSignature."""
    # The slice drops the "=" that `partition` returns between key and value.
    parts = dict(part.strip().partition("=")[::2] for part in (header or "")[:500].split(","))
    sent, signature = parts.get("t", ""), parts.get("v1", "")
    if not sent or not signature:
        raise BadSignature(SOURCE, "no x-rootly-signature header with t and v1")
    expected = [sign_rootly(body, sent, secret) for secret in usable(secrets)]
    if not any_equal([signature], expected):
        raise BadSignature(SOURCE, "the signature fits no secret")


def read_rootly(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose signature holds. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    webhook = RootlyWebhook.model_validate(payload)
    event, about = webhook.event, webhook.data
    if event.type not in STARTS | ENDS or not about.id:
        return Ignored(f"nothing to do for {event.type or 'an event without a type'}")
    # Neither is happening now.
    if about.kind in ("scheduled", "backfilled"):
        return Ignored(f"a {about.kind} incident")
    # An end is taken however late it is: it starts nothing.
    if event.type in STARTS:
        old = too_old(event.issued_at, settings, now)
        if old is not None:
            return old
    named: list[Naming] = []
    for service in about.services:
        for name in (service.slug, service.name):
            named.append(Naming(name, "its service in Rootly"))
    alert = identified(_alert(event, about, now), settings, now=now, named=named)
    # A retry has the same event; without an id the body is known.
    identity = event.id or hashlib.sha256(body).hexdigest()
    delivery = Delivery(SOURCE, digest_of(identity, event.type, about.id), event.issued_at)
    return Arrival(alert, delivery, ReplyTo())


def _alert(event: RootlyEvent, about: RootlyData, now: datetime) -> Alert:
    what = event.type.partition(".")[0]
    values_by_key = {label.key: label.value for label in about.labels}
    url = about.url or about.external_url
    names = [name for row in about.environments for name in (row.slug, row.name)]
    environment = next(filter(None, (*names, values_by_key.get("environment"))), "")
    # The last one wins: foreign labels must not replace those that we rely on.
    labels = {
        **about.data,
        **values_by_key,
        "fingerprint": f"{what}:{about.id}",
        "environment": environment,
        "alert_source": about.source,
        "url": url,
    }
    title = about.title or about.summary
    severities = (about.severity.name, about.severity.slug, values_by_key.get("severity"))
    return Alert(
        source=SOURCE,
        id=about.id,
        title=title.splitlines()[0][:300] if title else f"Rootly {what}",
        started_at=about.started_at or about.created_at or event.issued_at or now,
        status="resolved" if event.type in ENDS else "firing",
        severity=next(filter(None, severities), None),
        summary=about.description or (about.summary if about.title else "") or None,
        labels=filled(labels),
        links=(Link(title=f"Rootly {what}", url=url),) if url else (),
    )


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Rootly webhooks",
    setup=f"A webhook endpoint (Settings > Webhooks) for {', '.join(sorted(STARTS | ENDS))}, to",
    settings=RootlySettings,
    required=("webhook_secrets",),
    receive=signed_body("x-rootly-signature", verify_rootly, read_rootly),
)
