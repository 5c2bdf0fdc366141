"""Alertmanager webhooks, version 4 (Grafana's alerting sends the same): a group of alerts, firing
and resolved.

Alertmanager sends no delivery id, so one is derived from what it sent and a five-minute slot of the
clock: a retry of a notification is a duplicate, its repetition after `repeat_interval` joins the
open investigation (or starts one, when that is too old to join). A retry that crosses into the next
slot joins: harmless. An occurrence is known by the alert and the time it began at: once it has
ended, or was not reported for days, a notification of it starts nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from faultline.analysis.alert_signal.rule_texts import query_of_url
from faultline.analysis.kinds.place_names import place_identity
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import WebhookSource, token_in_header
from faultline.bot.intake.payload_fields import (
    LARGEST_NUMBER,
    MAX_LABELS,
    Address,
    Annotations,
    Labels,
    Line,
    Payload,
    Text,
    When,
    as_rows,
    as_url,
    digest_of,
    json_object,
    single_line,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.signatures import Refused
from faultline.bot.policy.relation import selectors_of
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
NO_DATA, ERROR = "NoData", "Error"
"""What Grafana writes into the annotation `grafana_state_reason`."""
SUMMARY_ANNOTATIONS = ("summary", "description", "message", "title")
LINK_ANNOTATIONS = (
    ("runbook_url", "Runbook"),
    ("dashboard_url", "Dashboard"),
    ("dashboard", "Dashboard"),
    ("trace_url", "Trace"),
    ("profile_url", "Profile"),
)


_VALUE_LABELS = re.compile(r"labels=\{([^{}]{1,2000})\}")
_VALUE_LABEL = re.compile(r"([A-Za-z_][\w.-]{0,127})=(.*?)(?=, [A-Za-z_][\w.-]*=|$)")


def _numbers(value: Any) -> dict[str, float]:
    rows = value.items() if isinstance(value, dict) else ()
    return {
        single_line(name): float(number)
        for name, number in list(rows)[:MAX_LABELS]
        if isinstance(number, (int, float)) and abs(number) < LARGEST_NUMBER
    }


Values = Annotated[dict[str, float], BeforeValidator(_numbers)]


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
    valueString: Text = ""
    values: Values = Field(default_factory=dict)

    @property
    def identity(self) -> str:
        """The sender's fingerprint. Where it names none: the labels, and the place that the rule
        alone fixes, as in `sum by (job) (errors{namespace="shop"})`."""
        if self.fingerprint:
            return self.fingerprint
        query = query_of_url(self.generatorURL)
        selectors = selectors_of(query.language, query.text) if query is not None else {}
        place = set(place_identity({**selectors, **self.labels})) - set(place_identity(self.labels))
        return _digest(*map("=".join, sorted(self.labels.items())), *sorted(place))[:16]


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
    test = {"alertname": "TestAlert", "instance": "Grafana"}
    if all(test.items() <= alert.labels.items() for alert in alerts):
        return Ignored("it is the test of a contact point in Grafana")
    return [_incoming(alert, group, settings, now) for alert in alerts]


def _incoming(
    vendor_alert: AlertmanagerAlert,
    group: AlertmanagerNotification,
    settings: Settings,
    now: datetime,
) -> Arrival:
    fingerprint = vendor_alert.identity
    status = vendor_alert.status or group.status
    labels = {**_labels_in(vendor_alert.valueString), **vendor_alert.labels}
    reason = _state_reason(vendor_alert)
    texts = map(vendor_alert.annotations.get, SUMMARY_ANNOTATIONS)
    summary = next(filter(None, texts), None)
    title = vendor_alert.labels.get("alertname") or summary or "Alert"
    if reason:
        title = labels.get("rulename") or title
        summary = _without_data(title, reason, vendor_alert, summary)
        title += " has no data" if reason == NO_DATA else " cannot be evaluated"
    alert = Alert(
        source=SOURCE,
        id=fingerprint,
        title=title,
        started_at=vendor_alert.startsAt or now,
        status="resolved" if status == "resolved" else "firing",
        system=labels.get("system"),
        severity=labels.get("severity") or labels.get("priority"),
        summary=summary,
        observed=None if reason else _observed(vendor_alert.values),
        labels={**labels, "fingerprint": fingerprint},
        links=_links(vendor_alert, group),
        no_data=reason is not None,
    )
    words = "\n".join(vendor_alert.annotations.values())
    alert = identified(alert, settings, now=now, words=words)
    slot = int(now.timestamp() // RETRY_SLOT_S)
    started = vendor_alert.startsAt.isoformat() if vendor_alert.startsAt else ""
    delivery_id = _digest(group.groupKey, alert.status, fingerprint, started, str(slot))
    delivery = Delivery(
        SOURCE,
        delivery_id,
        _ordered_by(vendor_alert, alert),
        f"{fingerprint} {started}" if started else None,
    )
    return Arrival(alert, delivery, ReplyTo())


def _state_reason(vendor_alert: AlertmanagerAlert) -> str | None:
    """Why Grafana could not evaluate the rule, where it could not."""
    by_name = {"DatasourceNoData": NO_DATA, "DatasourceError": ERROR}
    name = by_name.get(vendor_alert.labels.get("alertname", ""))
    # "Alerting" or "Normal" may stand in for a missing state: then only an annotation says so.
    annotated = vendor_alert.annotations.get("grafana_state_reason", "")
    return name or (annotated if annotated in by_name.values() else None)


def _without_data(
    rule: str, reason: str, vendor_alert: AlertmanagerAlert, summary: str | None
) -> str:
    """What happened to the rule; its own text speaks of a threshold that nothing crossed."""
    happened = "got no data from" if reason == NO_DATA else "failed to query"
    source = vendor_alert.labels.get("datasource_uid", "its data source")
    lines = [f"Grafana's rule “{rule}” {happened} {source}. Its threshold was not evaluated."]
    error = vendor_alert.annotations.get("Error")
    if error:
        lines.append(error)
    if summary:
        lines.append(f"The rule's own text: {summary}")
    return "\n".join(lines)


def _labels_in(value_string: str) -> dict[str, str]:
    """The labels of the series, which Grafana writes there even where a rule drops them."""
    labels: dict[str, str] = {}
    for group in _VALUE_LABELS.findall(value_string):
        for name, value in _VALUE_LABEL.findall(group):
            labels.setdefault(name, value.strip())
    return labels


def _observed(values: Mapping[str, float]) -> float | None:
    """What the rule measured: the one value that is no condition's 0 or 1."""
    measured = [value for value in values.values() if value not in (0, 1)]
    return measured[0] if len(measured) == 1 else None


def _ordered_by(vendor_alert: AlertmanagerAlert, alert: Alert) -> datetime | None:
    """When the occurrence began; its end lies behind that and before whatever fires next."""
    if vendor_alert.startsAt is None or alert.status == "firing":
        return vendor_alert.startsAt
    return vendor_alert.startsAt + timedelta(microseconds=1)


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
