"""Scope: which services, which windows, which training job."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from analysis.vocabulary import Alert, Scope, Window
from bot.settings import ServiceSettings, Settings

SAFE_JOB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""What a training job's name may look like: it becomes part of paths and queries."""


def scope_for(alert: Alert, settings: Settings, *, now: datetime, recorded: Scope | None = None) -> Scope:
    """The scope of one alert; a recorded case brings its own windows."""
    name = catalogue_name(alert.service, settings)
    entry = settings.services.get(name) if name else None
    services = tuple(dict.fromkeys(filter(None, (name, *(entry.depends_on if entry else ())))))
    job = _job(alert, entry)
    if recorded is not None:
        return recorded.model_copy(
            update={"services": recorded.services or services, "job": recorded.job or job, "connectors": ()}
        )
    start = alert.started_at - timedelta(minutes=settings.investigation.incident_minutes)
    baseline = Window(start=start - timedelta(minutes=settings.investigation.baseline_minutes), end=start)
    return Scope(
        incident=Window(start=start, end=max(now, alert.started_at)),
        baseline=(baseline,),
        services=services,
        job=job,
    )


def catalogue_name(service: str | None, settings: Settings) -> str | None:
    """The catalogue's name for what an alert calls a service; the alert's own word when the catalogue has none."""
    if service is None:
        return None
    wanted = service.casefold()
    for name, entry in settings.services.items():
        if wanted in {n.casefold() for n in (name, entry.pagerduty_service, *entry.aliases) if n}:
            return name
    return service


def _job(alert: Alert, entry: ServiceSettings | None) -> str | None:
    job = alert.job or (entry.training_job if entry else None)
    return job if job and SAFE_JOB.fullmatch(job) else None
