"""Which services have which signals just now, asked for `faultline check`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta

from analysis.vocabulary import Scope, Window
from connectors.gpu_metrics import PROMETHEUS as GPU_METRICS
from connectors.prometheus.exporter_metrics import built_in
from connectors.prometheus.http_api import PrometheusApi
from connectors.prometheus.overview import REACHES_DAYS, SIGNALS, PrometheusOverview
from connectors.prometheus.promql import PromQuery, selector
from connectors.prometheus.query_choice import AvailableTemplate, QueryChoice
from connectors.prometheus.series import subject_of
from connectors.prometheus.templates import PromTemplate

OF_EVERY_TARGET = ("scrape", "process")
"""What every Prometheus has, itself included: to name them would say nothing."""


async def survey(api: PrometheusApi, choice: QueryChoice, window: Window) -> PrometheusOverview:
    """Which services have which signals in that time. Raises ConnectorError."""
    names = await api.metric_names([window])
    available = await choice.available(api, names, [window])
    asked = _queries(choice, available, window)
    answers = await asyncio.gather(*(api.instant(query.promql, window.end) for _, query in asked))
    services: dict[str, set[str]] = {signal: set() for signal in SIGNALS}
    for (_, query), found in zip(asked, answers, strict=True):
        for series in found:
            services[query.signal] |= {subject_of(series.metric, query)} - {""}
    intervals = {one.template.metric: one.every_s for one, _ in asked if one.every_s}
    days = None
    if asked:
        days = await _reach(api, asked[0][0].template, window.end)
    of_jobs = any(one.template.subject == "job" for one in available)
    training = of_jobs or any(names.intersection(one.metrics) for one in GPU_METRICS)
    exporters = _exporters(names)
    return PrometheusOverview(services, tuple(intervals.values()), training, days, exporters)


def _queries(
    choice: QueryChoice, available: Iterable[AvailableTemplate], window: Window
) -> list[tuple[AvailableTemplate, PromQuery]]:
    """The queries for the signals that every service should have."""
    scope = Scope(incident=window)
    asked = []
    for one in available:
        query = choice.default(one, scope, (), {})
        if query is not None and one.template.signal in SIGNALS:
            asked.append((one, query))
    return asked


def _exporters(names: Collection[str]) -> tuple[str, ...]:
    """The exporters of which some metrics exist."""
    found: dict[str, None] = {}
    for one in built_in():
        if one.exporter not in OF_EVERY_TARGET and all(name in names for name in one.metrics):
            found[one.exporter] = None
    return tuple(found)


async def _reach(api: PrometheusApi, template: PromTemplate, now: datetime) -> int | None:
    """How many days back there is data of the metric."""
    metric = selector(template.stored_as or template.metric)
    for days in REACHES_DAYS:
        if await api.instant(f"count({metric})", now - timedelta(days=days)):
            return days
    return None
