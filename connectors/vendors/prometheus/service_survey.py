"""Which services have which signals just now, asked for `faultline check`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta

from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.training.gpu_metrics import PROMETHEUS as GPU_METRICS
from faultline.connectors.vendors.prometheus.exporter_metrics import built_in
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.overview import (
    REACHES_DAYS,
    SIGNALS,
    PrometheusOverview,
)
from faultline.connectors.vendors.prometheus.promql import PromQuery, selector
from faultline.connectors.vendors.prometheus.query_choice import AvailableTemplate, QueryChoice
from faultline.connectors.vendors.prometheus.series import subject_of
from faultline.connectors.vendors.prometheus.templates import PromTemplate

OF_EVERY_TARGET = ("scrape", "process")
"""What every Prometheus has, itself included: to name them would say nothing."""


async def survey(api: PrometheusApi, choice: QueryChoice, window: Window) -> PrometheusOverview:
    """Which services have which signals in that time. Raises ConnectorError."""
    names = await api.metric_names([window])
    available = await choice.available(api, names, [window])
    queries = _queries(choice, available, window)
    services = await _services(api, [query for _, query in queries], window.end)
    intervals = {}
    for available_template, _ in queries:
        if available_template.every_s:
            intervals[available_template.template.metric] = available_template.every_s
    days = None
    if queries:
        first, _ = queries[0]
        days = await _reach(api, first.template, window.end)
    # Whether there are metrics of training jobs or of GPUs.
    if any(template.template.subject == "job" for template in available):
        has_training = True
    else:
        metrics = {metric for gpu_metric in GPU_METRICS for metric in gpu_metric.metrics}
        has_training = not metrics.isdisjoint(names)
    return PrometheusOverview(
        services,
        tuple(intervals.values()),
        training=has_training,
        days=days,
        exporters=_exporters(names),
    )


async def _services(
    api: PrometheusApi, queries: Sequence[PromQuery], at: datetime
) -> dict[str, set[str]]:
    """Who has each signal."""
    answers = await asyncio.gather(*(api.instant(query.promql, at) for query in queries))
    services: dict[str, set[str]] = {signal: set() for signal in SIGNALS}
    for query, answer in zip(queries, answers, strict=True):
        for series in answer:
            name = subject_of(series.metric, query)
            if name:
                services[query.signal].add(name)
    return services


def _queries(
    choice: QueryChoice, available: Iterable[AvailableTemplate], window: Window
) -> list[tuple[AvailableTemplate, PromQuery]]:
    """The queries for the signals that every service should have."""
    scope = Scope(incident=window)
    queries = []
    for template in available:
        query = choice.default(template, scope, (), {})
        if query is not None and template.template.signal in SIGNALS:
            queries.append((template, query))
    return queries


def _exporters(names: Collection[str]) -> tuple[str, ...]:
    """The exporters that have metrics there."""
    exporters: dict[str, None] = {}
    for metric in built_in():
        if metric.exporter not in OF_EVERY_TARGET and all(name in names for name in metric.metrics):
            exporters[metric.exporter] = None
    return tuple(exporters)


async def _reach(api: PrometheusApi, template: PromTemplate, now: datetime) -> int | None:
    """How many days back there is data of the metric."""
    metric = selector(template.stored_as or template.metric)
    # The longest first: one answer settles it.
    for days in REACHES_DAYS:
        if await api.instant(f"count({metric})", now - timedelta(days=days)):
            return days
    return None
