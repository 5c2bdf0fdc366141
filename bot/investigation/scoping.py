"""Scope: which services, which windows, which training job."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from faultline.analysis.ranking.error_budget import OBJECTIVE_LABELS
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.investigation.runbooks.applying import NOTHING_MORE, ScopeHints
from faultline.bot.policy.job_identity import identify_job
from faultline.bot.policy.services import catalogue_calls, catalogue_name
from faultline.bot.settings import Settings
from faultline.connectors.shared.settings.shared_settings import ServiceSettings

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
    services = _services(name, entry, hints, settings)
    training = identify_job(alert, settings, entry.training_job if entry else None)
    job = training.name if training else None
    if recorded is not None:
        update: dict[str, object] = {
            "services": recorded.services or services,
            "job": recorded.job or job,
            "connectors": (),
            "queries": hints.queries,
            "log_words": hints.log_words,
            "training": recorded.training or training,
        }
        return recorded.model_copy(update=update)
    baseline, incident = _windows(alert, settings, hints, now)
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


def _services(
    name: str | None, entry: ServiceSettings | None, hints: ScopeHints, settings: Settings
) -> tuple[str, ...]:
    """The alert's service, what it calls, and what runbooks add; each once, in that order."""
    named: list[str | None] = [name]
    if entry is not None:
        named += entry.depends_on
    named += [catalogue_name(service, settings) for service in hints.services]
    return tuple(dict.fromkeys(service for service in named if service))


def _windows(
    alert: Alert, settings: Settings, hints: ScopeHints, now: datetime
) -> tuple[Window, Window]:
    """The baseline, and the incident right after it."""
    investigation = settings.investigation
    # Runbooks can make a window longer, never shorter.
    before_alert = max(investigation.incident_minutes, hints.before_alert or 0)
    length = max(investigation.baseline_minutes, hints.baseline or 0)
    start = alert.started_at - timedelta(minutes=before_alert)
    baseline = Window(start=start - timedelta(minutes=length), end=start)
    latest = alert.started_at + timedelta(hours=investigation.incident_hours)
    # The vendor's clock may be ahead of ours, so that the alert lies in our future.
    end = max(min(now, latest), alert.started_at)
    return baseline, Window(start=start, end=end)


def with_related(scope: Scope, related: Iterable[Alert], settings: Settings) -> Scope:
    """The scope with the services of alerts that joined, and with what those call."""
    named = (catalogue_name(alert.service, settings) for alert in related)
    joined = dict.fromkeys(name for name in named if name)
    called: list[str] = []
    for name in joined:
        if name in settings.services:
            called += settings.services[name].depends_on
    services = tuple(dict.fromkeys((*scope.services, *joined, *called)))
    # What the alert's own scope names is never cut.
    most = max(MAX_SERVICES, len(scope.services))
    return scope.model_copy(update={"services": services[:most]})


def same_hours_before(start: datetime, end: datetime, days: int) -> tuple[Window, ...]:
    """The same hours on each of the `days` before, the latest first."""
    return tuple(
        Window(start=start - timedelta(days=n), end=end - timedelta(days=n))
        for n in range(1, days + 1)
    )


def with_objective(alert: Alert, settings: Settings) -> Alert:
    """The alert with its service's objective as a label, unless it brings its own."""
    entry = settings.services.get(catalogue_name(alert.service, settings) or "")
    if entry is None or entry.slo_objective is None:
        return alert
    if any(label in alert.labels for label in OBJECTIVE_LABELS):
        return alert
    labels = {**alert.labels, OBJECTIVE_LABELS[0]: f"{entry.slo_objective:g}"}
    return alert.model_copy(update={"labels": labels})
