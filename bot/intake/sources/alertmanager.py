"""Alertmanager webhooks, version 4 (Grafana's alerting sends the same): a group of alerts, firing
and resolved.

Alertmanager sends no delivery id, so one is derived from what it sent and a five-minute slot of the
clock: a retry of a notification is a duplicate, its repetition after `repeat_interval` joins the
open investigation (or starts one, when that is too old to join). A retry that crosses into the next
slot joins: harmless. An occurrence is known by the alert and the time it began at: once it has
ended, or was not reported for days, a notification of it starts nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated

from pydantic import BeforeValidator, Field

from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import WebhookSource, token_in_header
from faultline.bot.intake.payload_fields import (
    Address,
    Annotations,
    Labels,
    Line,
    Payload,
    When,
    as_rows,
    as_url,
    digest_of,
    json_object,
    single_line,
)
from faultline.bot.intake.service_names import catalogued
from faultline.bot.intake.signatures import Refused
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.connectors.vendors.alertmanager import AlertmanagerSettings

SOURCE = "alertmanager"
MAX_BODY_BYTES = 16 * 1024 * 1024
"""A group of 1,500 alerts with long annotations has a few MB; Alertmanager sets no limit."""
MAX_ALERTS = 10_000
"""Alerts of one notification. A second or so of work for every thousand."""
RETRY_SLOT_S = 300
"""Alertmanager retries a notification for one `group_interval` at the longest; its default is 5
minutes."""
SERVICE_LABELS = ("service", "app", "job")
SUMMARY_ANNOTATIONS = ("summary", "description", "message", "title")
LINK_ANNOTATIONS = (
    ("runbook_url", "Runbook"),
    ("dashboard_url", "Dashboard"),
    ("dashboard", "Dashboard"),
    ("trace_url", "Trace"),
    ("profile_url", "Profile"),
)


class AlertmanagerAlert(Payload):
    """One entry of `alerts`: prometheus.io, "Notification template reference"."""

    status: Line = ""
    labels: Labels = Field(default_factory=dict)
    annotations: Annotations = Field(default_factory=dict)
    startsAt: When = None
    generatorURL: Address = ""
    dashboardURL: Address = ""
    panelURL: Address = ""
    fingerprint: Line = ""


class AlertmanagerNotification(Payload):
    """The whole body."""

    version: Line = ""
    status: Line = ""
    groupKey: Line = ""
    externalURL: Address = ""
    alerts: Annotated[
        tuple[AlertmanagerAlert, ...], BeforeValidator(partial(as_rows, most=MAX_ALERTS))
    ] = ()


def read_alertmanager(body: bytes, settings: Settings, *, now: datetime) -> list[Arrival] | Ignored:
    """The alerts of one notification, in its order. What cannot be read is ignored,
    with the reason. Raises Refused with 413 for more alerts than can be taken, as none may be lost
    in silence."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    alert_rows = payload.get("alerts")
    if isinstance(alert_rows, list) and len(alert_rows) > MAX_ALERTS:
        raise Refused(413, f"more than {MAX_ALERTS} alerts; set max_alerts of the receiver")
    group = AlertmanagerNotification.model_validate(payload)
    alerts = [alert for alert in group.alerts if alert.labels or alert.fingerprint]
    if not alerts:
        return Ignored("the notification holds no alert")
    return [_incoming(alert, group, settings, now) for alert in alerts]


def _incoming(
    vendor_alert: AlertmanagerAlert,
    group: AlertmanagerNotification,
    settings: Settings,
    now: datetime,
) -> Arrival:
    fingerprint = vendor_alert.fingerprint or _fingerprint(vendor_alert.labels)
    status = vendor_alert.status or group.status
    names = [vendor_alert.labels.get(label, "") for label in SERVICE_LABELS]
    alert = Alert(
        source=SOURCE,
        id=fingerprint,
        title=vendor_alert.labels.get("alertname") or _summary(vendor_alert) or "Alert",
        started_at=vendor_alert.startsAt or now,
        status="resolved" if status == "resolved" else "firing",
        service=catalogued(settings, *names),
        system=vendor_alert.labels.get("system"),
        severity=vendor_alert.labels.get("severity") or vendor_alert.labels.get("priority"),
        summary=_summary(vendor_alert),
        labels={**vendor_alert.labels, "fingerprint": fingerprint},
        links=_links(vendor_alert, group),
    )
    slot = int(now.timestamp() // RETRY_SLOT_S)
    started = vendor_alert.startsAt.isoformat() if vendor_alert.startsAt else ""
    delivery_id = _digest(group.groupKey, alert.status, fingerprint, started, str(slot))
    delivery = Delivery(
        SOURCE,
        delivery_id,
        _ordered_by(vendor_alert, alert),
        _occurrence(vendor_alert, fingerprint),
    )
    return Arrival(alert, delivery, ReplyTo())


def _fingerprint(labels: Mapping[str, str]) -> str:
    """For senders that leave it out; the same labels are the same alert."""
    pairs = [f"{name}={value}" for name, value in sorted(labels.items())]
    return _digest(*pairs)[:16]


def _ordered_by(vendor_alert: AlertmanagerAlert, alert: Alert) -> datetime | None:
    """When the occurrence began; its end lies behind that and before whatever fires next."""
    if vendor_alert.startsAt is None or alert.status == "firing":
        return vendor_alert.startsAt
    return vendor_alert.startsAt + timedelta(microseconds=1)


def _occurrence(vendor_alert: AlertmanagerAlert, fingerprint: str) -> str | None:
    return f"{fingerprint} {vendor_alert.startsAt.isoformat()}" if vendor_alert.startsAt else None


def _summary(vendor_alert: AlertmanagerAlert) -> str | None:
    for name in SUMMARY_ANNOTATIONS:
        if name in vendor_alert.annotations:
            return vendor_alert.annotations[name]
    return None


def _links(vendor_alert: AlertmanagerAlert, group: AlertmanagerNotification) -> tuple[Link, ...]:
    pairs = [("Alert rule", vendor_alert.generatorURL)]
    for name, title in LINK_ANNOTATIONS:
        pairs.append((title, as_url(vendor_alert.annotations.get(name))))
    pairs.append(("Dashboard", vendor_alert.panelURL or vendor_alert.dashboardURL))
    pairs.append(("Alertmanager", group.externalURL))
    # Annotations often repeat the rule's own dashboard.
    unique = dict.fromkeys(pairs)
    return tuple(Link(title=title, url=url) for title, url in unique if url)


def _digest(*parts: str) -> str:
    cut = [single_line(part, 2_000) for part in parts]
    return digest_of(*cut)


def _read_or_refuse(body: bytes, settings: Settings, *, now: datetime) -> list[Arrival]:
    alertmanager = read_alertmanager(body, settings, now=now)
    if isinstance(alertmanager, Ignored):
        # Alertmanager sends nothing but alerts, so this is a mistake in somebody's configuration:
        # an error shows in its log, where "accepted" would not.
        raise Refused(400, alertmanager.reason)
    return alertmanager


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Alertmanager webhooks",
    setup="A receiver of Prometheus Alertmanager, or a contact point of Grafana:",
    example="""receivers:
  - name: faultline
    webhook_configs:
      - url: {url}
        http_config: {authorization: {credentials: YOUR_TOKEN}}""",
    settings=AlertmanagerSettings,
    required=("webhook_tokens",),
    receive=token_in_header(_read_or_refuse),
    max_body_bytes=MAX_BODY_BYTES,
)
