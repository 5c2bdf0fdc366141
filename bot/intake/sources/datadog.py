"""Datadog webhooks: a monitor that triggers is an alert, its recovery the end of it.

Datadog lets its user write the body; this reads the template of docs/connectors/datadog.md. It
signs nothing: a token in a header of the user's own is what proves the sender. A retry carries the
same event id, so it is a duplicate; and one that is dated `alerts.oldest_days` ago, or before the
monitor's recovery, starts nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored, too_old
from faultline.bot.intake.alert_source import WebhookSource, token_in_header
from faultline.bot.intake.payload_fields import (
    Address,
    Payload,
    Table,
    Text,
    as_labels,
    digest_of,
    filled,
    in_utc,
    json_object,
    plain,
    single_line,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.connectors.vendors.datadog import DatadogSettings

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
NO_DATA = re.compile(r"(?i)\bno data\b")
_VARIABLE = re.compile(r"\$[A-Z_]+(?:\[\w+\])?")
_TRIGGERED = re.compile(r"^\[[^\]]{1,120}\]\s*")
_TITLE_STATE = re.compile(
    r"(?i)^\[(?P<transition>(?:re-)?triggered|recovered|warn(?:ing)?|no data|test)"
    r"(?: on \{(?P<scope>[^{}]{0,500})\})?\]"
)
"""What Datadog puts before the name of the monitor."""
FLAT = ("id", "cycle_key", "metric", "query", "scope", "status", "title", "transition", "type")
"""Fields of `alert` that other payloads have beside it, as `alert_id` and the like."""
MOST_TAGS = 40
SERVICE_TAGS = ("service", "kube_deployment", "app")
RETRY_SLOT_S = 600
"""For payloads without id, cycle and date: the same monitor, state and group within so long is a
retry."""


def _filled(value: Any) -> str:
    """A line; "" for a variable that Datadog had no value for, which it sends as it stands or as
    `null`."""
    line = single_line(value)
    return "" if _VARIABLE.fullmatch(line) or line.lower() in ("null", "none", "n/a") else line


def _at(value: Any) -> datetime | None:
    """`$DATE`: ms since 1970."""
    digits = single_line(value, 20)
    # `isdigit` alone accepts characters such as "²", on which `int` fails.
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 14):
        return None
    return in_utc(datetime.fromtimestamp(int(digits) / 1000, UTC))


Filled = Annotated[str, BeforeValidator(_filled)]
At = Annotated[datetime | None, BeforeValidator(_at)]


class DatadogAlert(Payload):
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


class DatadogWebhook(Payload):
    """The whole body."""

    id: Filled = ""
    event_type: Filled = ""
    title: Filled = ""
    body: Text = ""
    alert: Table[DatadogAlert] = Field(default_factory=DatadogAlert)
    date: At = None
    hostname: Filled = ""
    link: Address = ""
    snapshot: Address = ""
    tags: Text = ""
    service: Filled = ""
    env: Filled = ""
    version: Filled = ""


def read_datadog(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose sender is known. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    webhook = DatadogWebhook.model_validate(_nested(payload))
    transition = webhook.alert.transition
    if not webhook.alert.id:
        return Ignored(
            "the body names no monitor; is the payload the one of docs/connectors/datadog.md?"
        )
    # The button "Test Notifications" sends the transition that was chosen, with a separate title.
    if webhook.title.upper().startswith("[TEST]"):
        return Ignored("it is the test of a monitor's notifications")
    if not transition or IGNORED.search(transition):
        return Ignored(f"nothing to do for {transition or 'an event without a transition'}")
    old = too_old(webhook.date, settings, now)
    if old is not None:
        return old
    alert = _alert(webhook, settings, now)
    delivery = Delivery(SOURCE, _delivery_id(webhook, alert, now), webhook.date)
    return Arrival(alert, delivery, ReplyTo())


def _nested(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload in the form of our template: others have `alert_id` and the like beside each
    other, and Datadog's default holds the state, the scope and the monitor in its title alone."""
    if isinstance(payload.get("alert"), dict):
        return payload
    alert = {name: payload[f"alert_{name}"] for name in FLAT if f"alert_{name}" in payload}
    title = single_line(payload.get("title"))
    match = _TITLE_STATE.match(title)
    if match:
        monitor = title[match.end() :].strip()
        scope = match["scope"] or ""
        in_title = {
            "transition": match["transition"],
            "scope": scope,
            "title": monitor,
            # Without the monitor's id its name tells it apart from others.
            "id": monitor,
        }
        alert = {**in_title, **alert}
    return {
        **payload,
        "alert": alert,
        "hostname": payload.get("hostname", payload.get("host_name")),
    }


def _delivery_id(webhook: DatadogWebhook, alert: Alert, now: datetime) -> str:
    """What only a retry has in common. A payload without any of that is identified by the
    clock."""
    datadog_alert = webhook.alert
    at = webhook.date.isoformat() if webhook.date else ""
    if not (webhook.id or datadog_alert.cycle_key or at):
        at = f"slot {int(now.timestamp() // RETRY_SLOT_S)}"
    return digest_of(
        webhook.id,
        datadog_alert.cycle_key,
        datadog_alert.transition,
        alert.labels["fingerprint"],
        at,
    )


def _alert(webhook: DatadogWebhook, settings: Settings, now: datetime) -> Alert:
    alert = webhook.alert
    labels = _labels(webhook)
    named = [Naming(webhook.service, "its tag service")]
    for label in SERVICE_TAGS:
        named.append(Naming(labels.get(label, ""), f"its tag {label}"))
    no_data = NO_DATA.search(alert.transition) is not None
    links: list[Link] = []
    for title, url in (("Datadog event", webhook.link), ("Graph", webhook.snapshot)):
        if url:
            links.append(Link(title=title, url=url))
    title = _title(webhook)
    datadog_alert = Alert(
        source=SOURCE,
        id=alert.id,
        title=f"{title} has no data" if no_data else title,
        started_at=webhook.date or now,
        status="resolved" if ENDS.search(alert.transition) else "firing",
        # Nothing was measured, so nothing of the metric can be said to be unusual.
        signal=None if no_data else alert.metric or None,
        query=AlertQuery(language="datadog", text=alert.query) if alert.query else None,
        severity=alert.priority or alert.type or None,
        summary=_summary(webhook, no_data=no_data),
        labels=labels,
        links=tuple(links),
        no_data=no_data,
    )
    return identified(datadog_alert, settings, now=now, named=named)


def _summary(webhook: DatadogWebhook, *, no_data: bool) -> str | None:
    if no_data:
        metric = webhook.alert.metric or "what the monitor queries"
        return f"Datadog got no data of {metric}. No threshold was crossed."
    # The default body is Markdown between two marks.
    body = plain(webhook.body).replace("%%%", "").strip()
    return plain(webhook.alert.status) or body or None


def _title(webhook: DatadogWebhook) -> str:
    """The monitor's name, without the `[Triggered on {...}]` that Datadog puts before it."""
    title = webhook.alert.title or webhook.title
    return _TRIGGERED.sub("", title) or title or f"Datadog monitor {webhook.alert.id}"


def _labels(webhook: DatadogWebhook) -> dict[str, str]:
    """The alert's scope and tags by key; its monitor under `monitor_id`, what it measures under
    `query`."""
    alert = webhook.alert
    # The scope is what triggered the alert, so it overrides other tags of the same name.
    tags = {**_tags(webhook.tags), **_tags(alert.scope)}
    if webhook.service:
        tags["service"] = webhook.service
    named = {
        "monitor_id": alert.id,
        # A monitor alerts for each of its groups. Only the key or the scope tells them apart.
        "fingerprint": digest_of(alert.id, alert.aggreg_key or alert.scope)[:16],
        "query": alert.query,
        "monitor_type": webhook.event_type.removesuffix("_monitor"),
        "transition": alert.transition,
        "priority": alert.priority,
        "env": webhook.env,
        "version": webhook.version,
        "host": webhook.hostname,
    }
    # What Datadog says of the monitor counts more than a tag that happens to have the same name.
    return {**as_labels(tags), **filled(named)}


def _tags(listed: str) -> dict[str, str]:
    tags: dict[str, str] = {}
    for part in listed.split(",")[:MOST_TAGS]:
        key, mark, value = part.strip().partition(":")
        if mark and key and value:
            tags[key] = value
    return tags


def template() -> str:
    """The payload to set in Datadog, as text."""
    return json.dumps(TEMPLATE, indent=2)


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Datadog webhooks",
    setup="A webhook with the payload and the header of docs/connectors/datadog.md, to",
    settings=DatadogSettings,
    required=("webhook_tokens",),
    receive=token_in_header(read_datadog),
)
