"""Scope: which services, which windows, which training job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain

from faultline.analysis.errors import FaultlineError
from faultline.analysis.ranking.impact import OBJECTIVE_LABELS
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.investigation.runbooks.matching import NOTHING_MORE, ScopeHints
from faultline.bot.policy.job_identity import identify_job
from faultline.bot.policy.services import catalogue_calls, catalogue_name, service_in
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.abilities import KnowsHistory, KnowsServices
from faultline.connectors.shared.contract.base import Connector
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


# The service that somebody's question means, where the catalogue does not know it: the sources know
# which services exist.

log = logging.getLogger("faultline.steps")

LOOKBACK = timedelta(hours=1)
"""A service that wrote nothing for so long before the incident is none that fails now."""


async def with_named_service(
    alert: Alert, question: str | None, connectors: Sequence[Connector], *, deadline_s: float
) -> Alert:
    """The alert with the service that the question means, by its name in the sources. A service
    that did not come from the question itself stays. A source that is too slow, or fails, is left
    out."""
    if not question or (alert.service and alert.service.casefold() not in question.casefold()):
        return alert
    around = Window(start=alert.started_at - LOOKBACK, end=alert.started_at)
    services = [
        _services_of(connector, around, deadline_s)
        for connector in connectors
        if isinstance(connector, KnowsServices)
    ]
    service_names = chain.from_iterable(await asyncio.gather(*services))
    service = service_in(question, service_names)
    return alert if service is None else alert.model_copy(update={"service": service})


async def _services_of(
    connector: KnowsServices, around: Window, deadline_s: float
) -> Sequence[str]:
    try:
        async with asyncio.timeout(deadline_s):
            return [masked(name) for name in await connector.services_in(around)]
    except (FaultlineError, TimeoutError) as error:
        log.warning("%s lists no services: %s", connector.name, type(error).__name__)
        return ()


# Windows for systems whose sources hold less than the settings ask for: a lab that was just
# started, a Prometheus that is new.


LEAST = timedelta(minutes=2)
"""The shortest baseline: eight samples at the usual 15 s. Fewer do not tell how far a signal moves
by itself."""
ENOUGH = timedelta(minutes=10)
"""40 samples at the usual 15 s: beyond it the incident window gets what is left, up to its own
length."""
A_LIMIT = 0.5
"""A baseline that is shorter than this share of the one in the settings is a limit of the
answer."""


async def fitted_to_history(
    alert: Alert, scope: Scope, connectors: Sequence[Connector], *, deadline_s: float
) -> Scope:
    """The scope with windows that the data reaches. Where metrics are collected theirs count, as
    logs and spans are there only when something happens."""
    if not scope.baseline:
        return scope
    window = Window(start=scope.baseline[0].start, end=scope.incident.end)
    able = [connector for connector in connectors if isinstance(connector, KnowsHistory)]
    of_metrics = [connector for connector in able if "metrics" in connector.kinds]
    lookups = [_begin_of(connector, window, deadline_s) for connector in of_metrics or able]
    begins = [begin for begin in await asyncio.gather(*lookups) if begin is not None]
    return fitted(scope, alert.started_at, min(begins)) if begins else scope


def fitted(scope: Scope, began: datetime, data_since: datetime) -> Scope:
    """The windows of an incident that `began` then, within the data that exists since `data_since`.

    The baseline keeps at least half of what lies before, or ten minutes. Where hardly anything
    does, nothing can be compared and the windows stay: the answer says so.
    """
    full_baseline, incident = scope.baseline[0], scope.incident
    if data_since <= full_baseline.start:
        return scope
    history = began - data_since
    if history < 2 * LEAST or incident.start > began:
        return scope.model_copy(update={"data_since": data_since})
    before = min(began - incident.start, max(history / 2, history - ENOUGH))
    start = began - before
    baseline = Window(start=data_since, end=start)
    changed: dict[str, object] = {"incident": Window(start=start, end=incident.end)}
    for name in ("baseline", "baseline_logs", "baseline_spans"):
        windows: tuple[Window, ...] | None = getattr(scope, name)
        if windows is not None:
            # The same hours of earlier days follow the first window. They stay.
            changed[name] = (baseline, *windows[1:])
    if baseline.seconds < A_LIMIT * full_baseline.seconds:
        changed["data_since"] = data_since
    return scope.model_copy(update=changed)


async def _begin_of(connector: KnowsHistory, window: Window, deadline_s: float) -> datetime | None:
    try:
        async with asyncio.timeout(deadline_s):
            return await connector.data_since(window)
    except (FaultlineError, TimeoutError) as error:
        log.warning("%s does not say since when: %s", connector.name, type(error).__name__)
        return None
