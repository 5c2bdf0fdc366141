"""Sentry's integration webhooks: issue alerts, issues and metric alerts are alerts, `resolved` is
their end.

Replay: Sentry signs the body; the headers with the time, the delivery's id and the kind are
unsigned. So nothing is taken from them: a delivery is known by its body, and what it is about by
what the body holds. When Sentry received an event is in the body: one of `alerts.oldest_days`
ago starts nothing. A metric alert that was resolved is over.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, SecretStr

from faultline.analysis.alert_signal.subjects import Naming
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, Link
from faultline.bot.intake.accepting import Ignored, forgotten, too_old
from faultline.bot.intake.alert_source import WebhookSource, signed_body
from faultline.bot.intake.payload_fields import (
    Address,
    Line,
    Payload,
    Table,
    When,
    filled,
    in_utc,
    json_object,
    single_line,
)
from faultline.bot.intake.service_names import identified
from faultline.bot.intake.signatures import BadSignature, any_equal, hmac_sha256, usable
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.settings import Settings
from faultline.connectors.vendors.sentry import ERROR_RATE, SentrySettings

SOURCE = "sentry"
ANSWER_WITHIN_S = 0.7
"""Sentry waits one second for the answer (docs.sentry.io, "Webhooks")."""
ISSUE_STARTS = frozenset({"created", "unresolved"})
METRIC_STARTS = frozenset({"critical", "warning"})
ENDS = "resolved"
DATA_PARTS = (
    "metric_alert",
    "event",
    "issue",
    "error",
    "comment",
    "root_cause",
    "installation",
)
"""Parts of `data` that say what a webhook is about."""
_PROJECT = re.compile(r"https?://[^\s/]+/api/0/projects/[^\s/]+/([^\s/]{1,100})/.*")
_ISSUE_ID = re.compile(r"\d{1,20}")


def _epoch(value: Any) -> datetime | None:
    """`received`: seconds since 1970, by Sentry's own clock (docs.sentry.io, "Event Payloads")."""
    # In Python a bool is an int, and `fromtimestamp` fails on much larger numbers.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e11:
        return None
    return in_utc(datetime.fromtimestamp(value, UTC))


Received = Annotated[datetime | None, BeforeValidator(_epoch)]


class SentryEvent(Payload):
    """`data.event` of an issue alert."""

    event_id: Line = ""
    issue_id: Line = ""
    title: Line = ""
    culprit: Line = ""
    level: Line = ""
    release: Line = ""
    environment: Line = ""
    datetime: When = None
    received: Received = None
    url: Address = ""
    web_url: Address = ""


class SentryProject(Payload):
    """`data.issue.project`."""

    slug: Line = ""


class SentryIssue(Payload):
    """`data.issue` of an issue's webhook."""

    id: Line = ""
    shortId: Line = ""
    title: Line = ""
    culprit: Line = ""
    level: Line = ""
    substatus: Line = ""
    firstSeen: When = None
    lastSeen: When = None
    permalink: Address = ""
    web_url: Address = ""
    project: Table[SentryProject] = Field(default_factory=SentryProject)


class SentryAlertRule(Payload):
    """`data.metric_alert.alert_rule`."""

    id: Line = ""
    name: Line = ""
    query: Line = ""
    aggregate: Line = ""


class SentryMetricAlert(Payload):
    """`data.metric_alert`."""

    id: Line = ""
    title: Line = ""
    date_started: When = None
    date_detected: When = None
    alert_rule: Table[SentryAlertRule] = Field(default_factory=SentryAlertRule)


class SentryData(Payload):
    """`data`: which of its parts is there says what the webhook is."""

    event: Table[SentryEvent] = Field(default_factory=SentryEvent)
    triggered_rule: Line = ""
    issue: Table[SentryIssue] = Field(default_factory=SentryIssue)
    metric_alert: Table[SentryMetricAlert] = Field(default_factory=SentryMetricAlert)
    description_title: Line = ""
    description_text: Line = ""
    web_url: Address = ""


class SentryWebhook(Payload):
    """The whole body."""

    action: Line = ""
    data: Table[SentryData] = Field(default_factory=SentryData)


def sign_sentry(body: bytes, secret: str) -> str:
    """The value of `sentry-hook-signature`: `<hex HMAC-SHA256 of the body>`."""
    return hmac_sha256(secret, body)


def verify_sentry(body: bytes, header: str | None, secrets: Sequence[SecretStr]) -> None:
    """The signature must fit one of our secrets. Raises BadSignature."""
    if not header:
        raise BadSignature(SOURCE, "no sentry-hook-signature header")
    expected = [sign_sentry(body, secret) for secret in usable(secrets)]
    if not any_equal([header.strip()], expected):
        raise BadSignature(SOURCE, "the signature fits no secret")


def read_sentry(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose signature holds. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    webhook = SentryWebhook.model_validate(payload)
    data, action = webhook.data, webhook.action
    at: datetime | None = None
    if data.metric_alert.id and action in (*METRIC_STARTS, ENDS):
        # Only an object has an id, so `metric_alert` is one.
        projects = payload["data"]["metric_alert"].get("projects")
        project = single_line(projects[0]) if isinstance(projects, list) and projects else ""
        alert = _metric_alert(data, action, project, now)
        at = _ordered_by(data, action)
    elif _ISSUE_ID.fullmatch(data.event.issue_id) and action == "triggered":
        old = too_old(data.event.received, settings, now)
        if old is not None:
            return old
        alert = _event_alert(data, now)
    elif _ISSUE_ID.fullmatch(data.issue.id) and action in (*ISSUE_STARTS, ENDS):
        # A delivery is known by its body, so one that is remembered no longer must not start again.
        # An end is taken however old it is: it starts nothing.
        old = forgotten(data.issue.lastSeen, settings, now) if action != ENDS else None
        if old is not None:
            return old
        alert = _issue_alert(data.issue, action, now)
    else:
        return Ignored(f"nothing to do for {_subject(payload, action)}")
    named = project_namings(alert.labels.get("sentry_project", ""), settings)
    alert = identified(alert, settings, now=now, named=list(named))
    return Arrival(alert, Delivery(SOURCE, hashlib.sha256(body).hexdigest(), at), ReplyTo())


def project_namings(project: str, settings: Settings) -> Iterator[Naming]:
    """The service whose project it is by the settings, else what the project is called."""
    if project:
        for service, entry in settings.services.items():
            if (entry.sentry_project or "").casefold() == project.casefold():
                yield Naming(service, "its project in Sentry")
    yield Naming(project, "its project in Sentry")


def _event_alert(data: SentryData, now: datetime) -> Alert:
    event = data.event
    project = _PROJECT.fullmatch(event.url)
    labels = {
        "release": event.release,
        "environment": event.environment,
        "rule": data.triggered_rule,
        "event_id": event.event_id,
    }
    return _about_issue(
        event.issue_id,
        event.title,
        project[1] if project else "",
        started_at=event.datetime or now,
        url=event.web_url,
        level=event.level,
        culprit=event.culprit,
        labels=labels,
    )


def _issue_alert(issue: SentryIssue, action: str, now: datetime) -> Alert:
    """An issue that came up again began when it was seen last, a new one when it was seen first."""
    started = issue.firstSeen if action == "created" else issue.lastSeen
    return _about_issue(
        issue.id,
        issue.title,
        issue.project.slug,
        started_at=started or now,
        url=issue.web_url or issue.permalink,
        level=issue.level,
        culprit=issue.culprit,
        labels={"issue": issue.shortId, "substatus": issue.substatus},
        ended=action == ENDS,
    )


def _about_issue(
    issue_id: str,
    title: str,
    project: str,
    *,
    started_at: datetime,
    url: str,
    level: str,
    culprit: str,
    labels: Mapping[str, str],
    ended: bool = False,
) -> Alert:
    alert_labels = {
        **labels,
        "fingerprint": f"issue:{issue_id}",
        "issue_id": issue_id,
        "sentry_project": project,
        "url": url,
    }
    return Alert(
        source=SOURCE,
        id=issue_id,
        title=title or f"Sentry issue {issue_id}",
        started_at=started_at,
        status="resolved" if ended else "firing",
        severity=level or None,
        summary=culprit or None,
        labels=filled(alert_labels),
        links=_link("Sentry issue", url),
    )


def _metric_alert(data: SentryData, action: str, project: str, now: datetime) -> Alert:
    metric = data.metric_alert
    rule = metric.alert_rule
    title = rule.name or data.description_title or metric.title
    labels = {
        # `metric_alert.id` changes with each firing, the rule's id does not.
        "fingerprint": f"metric_alert:{rule.id or metric.id}",
        "sentry_project": project,
        "query": rule.query,
        "aggregate": rule.aggregate,
        "url": data.web_url,
    }
    return Alert(
        source=SOURCE,
        id=metric.id,
        title=title or f"Sentry metric alert {metric.id}",
        started_at=metric.date_detected or metric.date_started or now,
        status="resolved" if action == ENDS else "firing",
        signal=ERROR_RATE if rule.aggregate == "count()" else None,
        query=AlertQuery(language="metric", text=rule.aggregate) if rule.aggregate else None,
        severity=action if action in METRIC_STARTS else None,
        summary=data.description_text or None,
        labels=filled(labels),
        links=_link("Sentry metric alert", data.web_url),
    )


def _link(title: str, url: str) -> tuple[Link, ...]:
    return (Link(title=title, url=url),) if url else ()


def _ordered_by(data: SentryData, action: str) -> datetime | None:
    """When a metric alert began; its end lies behind that, and before whatever it reports next."""
    began = data.metric_alert.date_detected or data.metric_alert.date_started
    if began is not None and action == ENDS:
        return began + timedelta(microseconds=1)
    return began


def _subject(payload: Mapping[str, object], action: str) -> str:
    data = payload.get("data")
    about = "webhook"
    if isinstance(data, dict):
        for part in DATA_PARTS:
            if part in data:
                about = part
                break
    return f"{about} {action or 'without an action'}"


ALERT_SOURCE = WebhookSource(
    name=SOURCE,
    title="Sentry webhooks",
    setup=(
        "An internal integration with the resource issue, or as the action of alert rules, whose "
        "webhook is"
    ),
    settings=SentrySettings,
    required=("webhook_secrets",),
    receive=signed_body("sentry-hook-signature", verify_sentry, read_sentry),
    answer_within_s=ANSWER_WITHIN_S,
)
