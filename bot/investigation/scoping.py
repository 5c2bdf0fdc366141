"""Scope: which services, which windows, which training job."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from analysis.ranking.error_budget import OBJECTIVE_LABELS
from analysis.vocabulary import Alert, Scope, Window
from bot.investigation.runbooks.applying import NOTHING_MORE, ScopeHints
from bot.policy.job_identity import identify_job
from bot.policy.service_catalogue import catalogue_calls, catalogue_name
from bot.settings import Settings

MAX_SERVICES = 40
"""Services of an investigation that alerts joined: each is one more to ask every source for."""


def scope_for(
    alert: Alert,
    settings: Settings,
    *,
    now: datetime,
    recorded: Scope | None = None,
    hints: ScopeHints = NOTHING_MORE,
) -> Scope:
    """The scope of one alert with what runbooks add; a recorded case brings its own windows."""
    name = catalogue_name(alert.service, settings)
    entry = settings.services.get(name) if name else None
    more = (catalogue_name(service, settings) for service in hints.services)
    services = tuple(
        dict.fromkeys(filter(None, (name, *(entry.depends_on if entry else ()), *more)))
    )
    added = {"queries": hints.queries, "log_words": hints.log_words}
    training = identify_job(alert, settings, entry.training_job if entry else None)
    job = training.name if training else None
    if recorded is not None:
        known = {
            "services": recorded.services or services,
            "job": recorded.job or job,
            "connectors": (),
        }
        return recorded.model_copy(
            update={**known, **added, "training": recorded.training or training}
        )
    own = settings.investigation
    start = alert.started_at - timedelta(minutes=max(own.incident_minutes, hints.before_alert or 0))
    length = timedelta(minutes=max(own.baseline_minutes, hints.baseline or 0))
    baseline = Window(start=start - length, end=start)
    latest = alert.started_at + timedelta(hours=settings.investigation.incident_hours)
    incident = Window(start=start, end=max(min(now, latest), alert.started_at))
    earlier = same_hours_before(baseline.start, incident.end, settings.investigation.history_days)
    return Scope(
        incident=incident,
        baseline=(baseline, *earlier),
        baseline_logs=(baseline,) if earlier else None,
        baseline_spans=(baseline,) if earlier else None,
        services=services,
        calls=catalogue_calls(settings),
        job=job,
        training=training,
        queries=hints.queries,
        log_words=hints.log_words,
    )


def with_related(scope: Scope, related: Iterable[Alert], settings: Settings) -> Scope:
    """The scope with the services of alerts that joined, and with what those call."""
    named = (catalogue_name(alert.service, settings) for alert in related)
    joined = dict.fromkeys(name for name in named if name)
    called = (
        callee
        for name in joined
        if name in settings.services
        for callee in settings.services[name].depends_on
    )
    services = dict.fromkeys((*scope.services, *joined, *called))
    return scope.model_copy(
        update={"services": tuple(services)[: max(MAX_SERVICES, len(scope.services))]}
    )


def same_hours_before(start: datetime, end: datetime, days: int) -> tuple[Window, ...]:
    """The same hours on each of the `days` before, the latest first."""
    return tuple(
        Window(start=start - timedelta(days=n), end=end - timedelta(days=n))
        for n in range(1, days + 1)
    )


def with_objective(alert: Alert, settings: Settings) -> Alert:
    """The alert with its service's objective as a label, unless it brings its own."""
    entry = settings.services.get(catalogue_name(alert.service, settings) or "")
    if (
        entry is None
        or entry.slo_objective is None
        or any(label in alert.labels for label in OBJECTIVE_LABELS)
    ):
        return alert
    return alert.model_copy(
        update={"labels": {**alert.labels, OBJECTIVE_LABELS[0]: f"{entry.slo_objective:g}"}}
    )
