"""Datadog webhooks: a monitor that triggers is an alert, its recovery the end of it.

Datadog lets its user write the body; this reads the template of docs/connectors/datadog.md. It
signs nothing: a token in a header of the user's own is what proves the sender. A retry carries the
same event id, so it is a duplicate; and one that is dated `alerts.oldest_days` ago, or before the
monitor's recovery, starts nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr

from analysis.vocabulary import Alert, Link
from bot.intake.accepting import Ignored, too_old
from bot.intake.payload_fields import (
    Address,
    Payload,
    Table,
    Text,
    as_labels,
    in_utc,
    json_object,
    one_line,
    plain,
)
from bot.intake.service_names import catalogued
from bot.intake.signatures import BadSignature, verify_alertmanager
from bot.settings import Settings
from bot.store.store import Arrival, Delivery, ReplyTo

SOURCE = "datadog"
TEMPLATE = {
    "id": "$ID",
    "event_type": "$EVENT_TYPE",
    "title": "$EVENT_TITLE",
    "body": "$TEXT_ONLY_MSG",
    "alert": {
        "id": "$ALERT_ID",
        "cycle_key": "$ALERT_CYCLE_KEY",
        "aggreg_key": "$AGGREG_KEY",
        "transition": "$ALERT_TRANSITION",
        "type": "$ALERT_TYPE",
        "metric": "$ALERT_METRIC",
        "query": "$ALERT_QUERY",
        "scope": "$ALERT_SCOPE",
        "status": "$ALERT_STATUS",
        "title": "$ALERT_TITLE",
        "priority": "$ALERT_PRIORITY",
    },
    "date": "$DATE",
    "hostname": "$HOSTNAME",
    "link": "$LINK",
    "snapshot": "$SNAPSHOT",
    "tags": "$TAGS",
    "service": "$TAGS[service]",
    "env": "$TAGS[env]",
    "version": "$TAGS[version]",
}
"""The payload that the page tells the user to set. Variables: docs.datadoghq.com, "Webhooks"."""
ENDS = re.compile(r"(?i)\brecovered\b")
IGNORED = re.compile(r"(?i)\b(?:test|unknown)\b")
_VARIABLE = re.compile(r"\$[A-Z_]+(?:\[\w+\])?")
_TRIGGERED = re.compile(r"^\[[^\]]{1,120}\]\s*")
MOST_TAGS = 40
RETRY_SLOT_S = 600
"""For payloads without id, cycle and date: the same monitor, state and group within so long is a
retry."""


def _filled(value: Any) -> str:
    """A line; "" for a variable that Datadog had no value for, which it sends as it stands or as
    `null`."""
    line = one_line(value)
    return "" if _VARIABLE.fullmatch(line) or line.lower() in ("null", "none", "n/a") else line


def _at(value: Any) -> datetime | None:
    """`$DATE`: ms since 1970."""
    digits = one_line(value, 20)
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 14):
        return None
    return in_utc(datetime.fromtimestamp(int(digits) / 1000, UTC))


Filled = Annotated[str, BeforeValidator(_filled)]
At = Annotated[datetime | None, BeforeValidator(_at)]


class AlertFields(Payload):
    """`alert` of the template."""

    id: Filled = ""
    cycle_key: Filled = ""
    aggreg_key: Filled = ""
    transition: Filled = ""
    type: Filled = ""
    metric: Filled = ""
    query: Text = ""
    scope: Text = ""
    status: Text = ""
    title: Filled = ""
    priority: Filled = ""


class Webhook(Payload):
    """The whole body."""

    id: Filled = ""
    event_type: Filled = ""
    title: Filled = ""
    body: Text = ""
    alert: Table[AlertFields] = Field(default_factory=AlertFields)
    date: At = None
    hostname: Filled = ""
    link: Address = ""
    snapshot: Address = ""
    tags: Text = ""
    service: Filled = ""
    env: Filled = ""
    version: Filled = ""


def verify_datadog(authorization: str | None, tokens: Sequence[SecretStr]) -> None:
    """`Authorization: Bearer token`, or `Basic` with `user:password`, equal to one of `tokens`.
    Raises BadSignature."""
    try:
        verify_alertmanager(authorization, tokens)
    except BadSignature as error:
        raise BadSignature(SOURCE, error.reason) from None


def read_datadog(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose sender is known. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    found = Webhook.model_validate(payload)
    if not found.alert.id:
        return Ignored(
            "the body names no monitor; is the payload the one of docs/connectors/datadog.md?"
        )
    if not found.alert.transition or IGNORED.search(found.alert.transition):
        return Ignored(
            f"nothing to do for {found.alert.transition or 'an event without a transition'}"
        )
    if (old := too_old(found.date, settings, now)) is not None:
        return old
    alert = _alert(found, settings, now)
    return Arrival(alert, Delivery(SOURCE, _delivery_id(found, alert, now), found.date), ReplyTo())


def _delivery_id(found: Webhook, alert: Alert, now: datetime) -> str:
    """What is the same in a retry and in nothing else; a payload that holds none of that is told
    apart by the clock."""
    at = found.date.isoformat() if found.date else ""
    if not (found.id or found.alert.cycle_key or at):
        at = f"slot {int(now.timestamp() // RETRY_SLOT_S)}"
    return _digest(
        found.id, found.alert.cycle_key, found.alert.transition, alert.labels["fingerprint"], at
    )


def _alert(found: Webhook, settings: Settings, now: datetime) -> Alert:
    labels = _labels(found)
    names = (
        found.service,
        labels.get("service", ""),
        labels.get("kube_deployment", ""),
        labels.get("app", ""),
    )
    named = [("Datadog event", found.link), ("Graph", found.snapshot)]
    return Alert(
        source=SOURCE,
        id=found.alert.id,
        title=_title(found),
        started_at=found.date or now,
        status="resolved" if ENDS.search(found.alert.transition) else "firing",
        service=catalogued(settings, *names),
        signal=found.alert.metric or None,
        severity=found.alert.priority or found.alert.type or None,
        summary=plain(found.alert.status) or plain(found.body) or None,
        labels=labels,
        links=tuple(Link(title=title, url=url) for title, url in named if url),
    )


def _title(found: Webhook) -> str:
    """The monitor's name, without the `[Triggered on {...}]` that Datadog puts before it."""
    given = found.alert.title or found.title
    return _TRIGGERED.sub("", given) or given or f"Datadog monitor {found.alert.id}"


def _labels(found: Webhook) -> dict[str, str]:
    """The alert's scope and tags by key; its monitor under `monitor_id`, what it measures under
    `query`."""
    own = found.alert
    said = {
        "monitor_id": own.id,
        "fingerprint": _digest(own.id, own.aggreg_key or own.scope)[:16],
        "query": own.query,
        "monitor_type": found.event_type.removesuffix("_monitor"),
        "transition": own.transition,
        "priority": own.priority,
        "env": found.env,
        "version": found.version,
        "host": found.hostname,
    }
    said = {name: value for name, value in said.items() if value}
    tags = as_labels(
        {
            **_tags(found.tags),
            **_tags(own.scope),
            **({"service": found.service} if found.service else {}),
        }
    )
    return {**tags, **said}


def _tags(listed: str) -> dict[str, str]:
    pairs = (part.strip().partition(":") for part in listed.split(",")[:MOST_TAGS])
    return {key: value for key, mark, value in pairs if mark and key and value}


def _digest(*parts: str) -> str:
    return hashlib.sha256("\x00".join(parts).encode("utf-8", "replace")).hexdigest()


def template() -> str:
    """The payload to set in Datadog, as text."""
    return json.dumps(TEMPLATE, indent=2)
