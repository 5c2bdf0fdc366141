"""Sentry's integration webhooks: issue alerts, issues and metric alerts are alerts, `resolved` is
their end.

Replay: Sentry signs the body; the headers with the time, the delivery's id and the kind are
unsigned. So nothing is taken from them: a delivery is known by its body, and what it is about by
what the body holds. When Sentry received an event stands in the body: one of `alerts.oldest_days`
ago starts nothing. A metric alert that was resolved is over.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from analysis.vocabulary import Alert, Link
from bot.intake.accepting import Ignored, forgotten, too_old
from bot.intake.payload_fields import (
    Address,
    Line,
    Payload,
    Table,
    When,
    in_utc,
    json_object,
    one_line,
)
from bot.intake.service_names import catalogued
from bot.settings import Settings
from bot.store.store import Arrival, Delivery, ReplyTo
from connectors.sentry import ERROR_RATE

SOURCE = "sentry"
ANSWER_WITHIN_S = 0.7
"""Sentry waits one second for the answer (docs.sentry.io, "Webhooks")."""
ISSUE_STARTS = frozenset({"created", "unresolved"})
METRIC_STARTS = frozenset({"critical", "warning"})
ENDS = "resolved"
_PROJECT = re.compile(r"https?://[^\s/]+/api/0/projects/[^\s/]+/([^\s/]{1,100})/.*")
_ISSUE_ID = re.compile(r"\d{1,20}")


def _epoch(value: Any) -> datetime | None:
    """`received`: seconds since 1970, by Sentry's own clock (docs.sentry.io, "Event Payloads")."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1e11:
        return None
    return in_utc(datetime.fromtimestamp(value, UTC))


Received = Annotated[datetime | None, BeforeValidator(_epoch)]


class Event(Payload):
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


class Project(Payload):
    """`data.issue.project`."""

    slug: Line = ""


class Issue(Payload):
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
    project: Table[Project] = Field(default_factory=Project)


class AlertRule(Payload):
    """`data.metric_alert.alert_rule`."""

    id: Line = ""
    name: Line = ""
    query: Line = ""
    aggregate: Line = ""


class MetricAlert(Payload):
    """`data.metric_alert`."""

    id: Line = ""
    title: Line = ""
    date_started: When = None
    date_detected: When = None
    alert_rule: Table[AlertRule] = Field(default_factory=AlertRule)


class Data(Payload):
    """`data`: which of its parts is there says what the webhook is."""

    event: Table[Event] = Field(default_factory=Event)
    triggered_rule: Line = ""
    issue: Table[Issue] = Field(default_factory=Issue)
    metric_alert: Table[MetricAlert] = Field(default_factory=MetricAlert)
    description_title: Line = ""
    description_text: Line = ""
    web_url: Address = ""


class Webhook(Payload):
    """The whole body."""

    action: Line = ""
    data: Table[Data] = Field(default_factory=Data)


def read_sentry(body: bytes, settings: Settings, *, now: datetime) -> Arrival | Ignored:
    """The alert in a body whose signature holds. Never fails: what cannot be read is ignored, with
    the reason."""
    payload = json_object(body)
    if payload is None:
        return Ignored("the body is not a JSON object")
    webhook = Webhook.model_validate(payload)
    data, action = webhook.data, webhook.action
    at: datetime | None = None
    if data.metric_alert.id and action in (*METRIC_STARTS, ENDS):
        raw = payload["data"]["metric_alert"]
        alert, at = (
            _metric_alert(data, action, _first(raw.get("projects")), settings, now),
            _began(data, action),
        )
    elif _ISSUE_ID.fullmatch(data.event.issue_id) and action == "triggered":
        if (old := too_old(data.event.received, settings, now)) is not None:
            return old
        alert = _event_alert(data, settings, now)
    elif _ISSUE_ID.fullmatch(data.issue.id) and action in (*ISSUE_STARTS, ENDS):
        if action != ENDS and (old := forgotten(data.issue.lastSeen, settings, now)) is not None:
            return old
        alert = _issue(data.issue, action, settings, now)
    else:
        return Ignored(f"nothing to do for {_what(payload, action)}")
    return Arrival(alert, Delivery(SOURCE, hashlib.sha256(body).hexdigest(), at), ReplyTo())


def _event_alert(data: Data, settings: Settings, now: datetime) -> Alert:
    event = data.event
    found = _PROJECT.fullmatch(event.url)
    more = {"release": event.release, "environment": event.environment, "rule": data.triggered_rule}
    return _about_issue(
        event.issue_id,
        event.title,
        found[1] if found else "",
        settings,
        started_at=event.datetime or now,
        url=event.web_url,
        level=event.level,
        culprit=event.culprit,
        labels=more | {"event_id": event.event_id},
    )


def _issue(issue: Issue, action: str, settings: Settings, now: datetime) -> Alert:
    """An issue that came up again began when it was seen last, a new one when it was seen first."""
    started = issue.firstSeen if action == "created" else issue.lastSeen
    return _about_issue(
        issue.id,
        issue.title,
        issue.project.slug,
        settings,
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
    settings: Settings,
    *,
    started_at: datetime,
    url: str,
    level: str,
    culprit: str,
    labels: dict[str, str],
    ended: bool = False,
) -> Alert:
    said = labels | {
        "fingerprint": f"issue:{issue_id}",
        "issue_id": issue_id,
        "sentry_project": project,
    }
    return Alert(
        source=SOURCE,
        id=issue_id,
        title=title or f"Sentry issue {issue_id}",
        started_at=started_at,
        status="resolved" if ended else "firing",
        service=_service(project, settings),
        severity=level or None,
        summary=culprit or None,
        labels={name: value for name, value in (said | {"url": url}).items() if value},
        links=(Link(title="Sentry issue", url=url),) if url else (),
    )


def _metric_alert(
    data: Data, action: str, project: str, settings: Settings, now: datetime
) -> Alert:
    metric = data.metric_alert
    rule = metric.alert_rule
    labels = {
        "fingerprint": f"metric_alert:{rule.id or metric.id}",
        "sentry_project": project,
        "query": rule.query,
        "aggregate": rule.aggregate,
        "url": data.web_url,
    }
    return Alert(
        source=SOURCE,
        id=metric.id,
        title=rule.name
        or data.description_title
        or metric.title
        or f"Sentry metric alert {metric.id}",
        started_at=metric.date_detected or metric.date_started or now,
        status="resolved" if action == ENDS else "firing",
        service=_service(project, settings),
        signal=ERROR_RATE if rule.aggregate == "count()" else None,
        severity=action if action in METRIC_STARTS else None,
        summary=data.description_text or None,
        labels={name: value for name, value in labels.items() if value},
        links=(Link(title="Sentry metric alert", url=data.web_url),) if data.web_url else (),
    )


def _began(data: Data, action: str) -> datetime | None:
    """When a metric alert began; its end lies behind that, and before whatever it tells of next."""
    began = data.metric_alert.date_detected or data.metric_alert.date_started
    return began + timedelta(microseconds=1) if began and action == ENDS else began


def _service(project: str, settings: Settings) -> str | None:
    """The service whose project it is, else what the catalogue makes of its name."""
    if not project:
        return None
    wanted = project.casefold()
    ours = (
        s
        for s, e in settings.services.items()
        if e.sentry_project and e.sentry_project.casefold() == wanted
    )
    return next(ours, None) or catalogued(settings, project)


def _first(projects: object) -> str:
    return one_line(projects[0]) if isinstance(projects, list) and projects else ""


def _what(payload: dict[str, object], action: str) -> str:
    data = payload.get("data")
    known = ("metric_alert", "event", "issue", "error", "comment", "root_cause", "installation")
    part = next((k for k in known if isinstance(data, dict) and k in data), "webhook")
    return f"{part} {action or 'without an action'}"
