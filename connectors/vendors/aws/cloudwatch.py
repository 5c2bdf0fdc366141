"""CloudWatch metrics: the resources of services by template, and the metric or expression of the
alarm itself.

Arithmetic (rates, shares) is done here and not as metric math, so that a minute without errors, for
which CloudWatch has no sample at all, counts as zero where there were requests.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from faultline.analysis.alert_signal.conditions import AlertCondition
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Collected, Item
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
)
from faultline.connectors.shared.rows.collection_builder import nanoseconds
from faultline.connectors.shared.rows.log_windows import merged
from faultline.connectors.vendors.aws.alarm_metrics import AlarmMetric
from faultline.connectors.vendors.aws.calls import AwsCalls, entries, objects
from faultline.connectors.vendors.aws.console import metrics_link
from faultline.connectors.vendors.aws.evidence import AwsEvidence, moment, words
from faultline.connectors.vendors.aws.level_states import WatchedWindows, level_states
from faultline.connectors.vendors.aws.metric_templates import (
    TEMPLATES,
    AwsMetricTemplate,
    dimensions,
    metric_name,
)
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_kinds import BY_KIND
from faultline.connectors.vendors.aws.session import AwsPlace

MOST_QUERIES = 500
MOST_POINTS = 100_800
"""Of one GetMetricData call (CloudWatch quotas); points in an answer beyond come page by page."""
PERIODS = ((timedelta(days=15), 60), (timedelta(days=63), 300), (timedelta(days=455), 3600))
"""For that long a resolution in seconds is kept (CloudWatch user guide, "Metrics retention")."""
MOST_PAGES = 20
BALANCERS = BY_KIND["target_group"].namespace
Series = Mapping[datetime, float]
Stat = tuple[str, str, str]
"""Namespace, metric, statistic."""


@dataclass(frozen=True)
class _MetricStat:
    """One metric of one resource, under the id by which the answer names it."""

    id: str
    namespace: str
    metric: str
    stat: str
    dimensions: Mapping[str, str]

    def query(self, period_s: int) -> dict[str, Any]:
        """As GetMetricData takes it."""
        named = [{"Name": name, "Value": value} for name, value in self.dimensions.items()]
        metric = {"Namespace": self.namespace, "MetricName": self.metric, "Dimensions": named}
        return {
            "Id": self.id,
            "MetricStat": {"Metric": metric, "Period": period_s, "Stat": self.stat},
        }


@dataclass(frozen=True)
class _ResourceSignals:
    """Rows of one resource by signal, and the item that names them."""

    resource: Resource
    signals: Mapping[str, list[tuple[Any, ...]]]
    item: Item


async def metrics_of(calls: AwsCalls, resources: Sequence[Resource], scope: Scope) -> AwsEvidence:
    """The templates' signals of the resources, place by place."""
    places = list(dict.fromkeys(resource.place for resource in resources))
    aws_evidence = AwsEvidence()
    questions = []
    for place in places:
        there = [resource for resource in resources if resource.place == place]
        questions.append(_of_place(calls, place, there, scope))
    by_service: dict[str, list[_ResourceSignals]] = {}
    for part, signal_sets in await asyncio.gather(*questions):
        aws_evidence.missing += part.missing
        aws_evidence.items += part.items
        aws_evidence.add("states", part.rows.get("states", ()))
        for signal_set in signal_sets:
            by_service.setdefault(signal_set.resource.service, []).append(signal_set)
    for of_service in by_service.values():
        _add_preferred(aws_evidence, of_service)
    return aws_evidence


async def alarm_metric(calls: AwsCalls, metric: AlarmMetric, scope: Scope) -> AwsEvidence:
    """What the alarm itself looks at, over all windows, in its own period."""
    aws_evidence = AwsEvidence()
    spans = merged((*scope.baseline, scope.incident))
    # No finer than the alarm looks, and no finer than CloudWatch still keeps.
    period = max(period_for(spans[0].start), 60 * math.ceil(metric.period_s / 60))
    queries = [_with_period(query, period) for query in metric.queries]
    try:
        series, notes = await _ask(calls, metric.place, queries, spans, period)
    except FaultlineError as error:
        aws_evidence.lacks("metrics", metric.text, error)
        return aws_evidence
    rows: list[tuple[Any, ...]] = []
    for shown in metric.shown:
        for at, value in sorted(series.get(shown.id, {}).items()):
            scaled = value * shown.scale
            rows.append((at, metric.service, shown.signal, scaled, shown.unit, shown.labels))
    if not aws_evidence.add("metrics", rows):
        aws_evidence.lacks("metrics", metric.text, "no samples in these windows")
        return aws_evidence
    window = Window(start=spans[0].start, end=spans[-1].end)
    link = metrics_link(metric.place.region, metric.graph, window, period)
    query = f"GetMetricData {metric.place} {metric.text} every {period} s"
    item = Item("metrics", query, window, link, rows=len(rows), cut=notes.get(""))
    aws_evidence.items.append(item.holding(rows))
    return aws_evidence


async def alarm_evaluation(calls: AwsCalls, metric: AlarmMetric, scope: Scope) -> Collected:
    """When what the alarm looks at was beyond its threshold, metric math included. Raises
    FaultlineError."""

    async def ask(_: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        # In the period of the alarm: a mean of five minutes crosses other thresholds.
        period = max(period_for(at.window.start), 60 * math.ceil(metric.period_s / 60))
        queries = [_with_period(query, period) for query in metric.queries]
        series, _notes = await _ask(calls, metric.place, queries, [at.window], period)
        return [
            EvaluatedSeries(
                msgspec.json.decode(shown.labels) if shown.labels else {},
                [
                    (nanoseconds(moment), value * shown.scale)
                    for moment, value in sorted(series.get(shown.id, {}).items())
                ],
            )
            for shown in metric.shown
            if series.get(shown.id)
        ]

    first = metric.shown[0]
    scaled = None if metric.threshold is None else metric.threshold * first.scale
    condition = AlertCondition(metric.text, metric.text, metric.comparison, scaled, decides=True)
    query = AlertQuery(language="metric", text=metric.text)
    link = metrics_link(metric.place.region, metric.graph, scope.incident, metric.period_s)
    return await evaluated(query, scope, ask, link=link, condition=condition, unit=first.unit)


async def _of_place(
    calls: AwsCalls, place: AwsPlace, resources: Sequence[Resource], scope: Scope
) -> tuple[AwsEvidence, list[_ResourceSignals]]:
    """What the resources of one place brought, and what is missing."""
    aws_evidence = AwsEvidence()
    spans = merged((*scope.baseline, scope.incident))
    period = period_for(spans[0].start)
    stats_by_resource = await _stats_by_resource(calls, resources, aws_evidence)
    queries = []
    for stats in stats_by_resource.values():
        queries += [stat.query(period) for stat in stats.values()]
    if not queries:
        return aws_evidence, []
    try:
        series, notes = await _ask(calls, place, queries, spans, period)
    except FaultlineError as error:
        names = ", ".join(resource.name for resource in stats_by_resource)
        aws_evidence.lacks("metrics", f"GetMetricData {place} {names}", error)
        return aws_evidence, []
    window = Window(start=spans[0].start, end=spans[-1].end)
    watched = WatchedWindows(window, scope.incident, period)
    signal_sets = []
    for resource, stats in stats_by_resource.items():
        samples = {stat: series.get(metric_stat.id, {}) for stat, metric_stat in stats.items()}
        signals = _signals(resource, samples, period, spans[-1])
        text = _text(resource, stats, period)
        rows = [row for of_signal in signals.values() for row in of_signal]
        if not rows:
            reason = "no samples in these windows; is the name right, and the region?"
            aws_evidence.lacks("metrics", text, reason)
            continue
        link = metrics_link(place.region, _graph(resource, stats), window, period)
        # What was left out of this resource's samples, else of all.
        cut = next((notes[s.id] for s in stats.values() if s.id in notes), notes.get(""))
        item = Item("metrics", text, window, link, rows=len(rows), cut=cut).holding(rows)
        signal_sets.append(_ResourceSignals(resource, signals, item))
        states = level_states(resource, signals, watched, text, link)
        if aws_evidence.add("states", states):
            aws_evidence.items.append(Item("states", text, window, link, rows=len(states), cut=cut))
    return aws_evidence, signal_sets


async def _stats_by_resource(
    calls: AwsCalls, resources: Sequence[Resource], aws_evidence: AwsEvidence
) -> dict[Resource, dict[Stat, _MetricStat]]:
    """What is to be asked of each resource that has metrics."""
    balancers = await asyncio.gather(
        *(_load_balancer(calls, resource, aws_evidence) for resource in resources)
    )
    stats_by_resource = {}
    for order, (resource, balancer) in enumerate(zip(resources, balancers, strict=True)):
        # Some kinds have no metrics.
        if _templates(resource) and (resource.kind != "target_group" or balancer):
            stats_by_resource[resource] = _metric_stats(resource, order, balancer)
    return stats_by_resource


def _graph(resource: Resource, stats: Mapping[Stat, _MetricStat]) -> list[list[Any]]:
    """As the console's page of metrics takes it: each metric, and each share of one in another on
    its own axis."""
    lines: list[list[Any]] = []
    for stat in stats.values():
        shown = {"id": stat.id, "stat": stat.stat}
        lines.append(
            [
                stat.namespace,
                stat.metric,
                *[text for pair in stat.dimensions.items() for text in pair],
                shown,
            ]
        )
    for number, template in enumerate(_templates(resource)):
        total = _total_stat(template)
        if total is None:
            continue
        part, whole = stats[_stat(template)].id, stats[total].id
        share = f"FILL({part},0)/{whole}"
        if template.rate:
            share += f"/PERIOD({part})"
        name = {"id": f"share{number}", "label": template.signal, "yAxis": "right"}
        lines.append([{"expression": share, **name}])
    return lines


async def _load_balancer(
    calls: AwsCalls, resource: Resource, aws_evidence: AwsEvidence
) -> str | None:
    """The load balancer that a target group's metrics name beside it."""
    if resource.kind != "target_group":
        return None
    query = f"ListMetrics {resource.place} {BALANCERS} TargetGroup={resource.name}"
    try:
        answer = await calls.call(
            resource.place,
            "cloudwatch",
            "ListMetrics",
            Namespace=BALANCERS,
            MetricName="RequestCount",
            Dimensions=[{"Name": "TargetGroup", "Value": resource.name}],
        )
    except FaultlineError as error:
        aws_evidence.lacks("metrics", query, error)
        return None
    for metric in objects(answer.get("Metrics")):
        named = {}
        for dimension in objects(metric.get("Dimensions")):
            named[words(dimension.get("Name"))] = words(dimension.get("Value"))
        if named.get("LoadBalancer") and set(named) == {"LoadBalancer", "TargetGroup"}:
            return named["LoadBalancer"]
    aws_evidence.lacks("metrics", query, "no load balancer has metrics of this target group")
    return None


def _metric_stats(resource: Resource, order: int, balancer: str | None) -> dict[Stat, _MetricStat]:
    """Each metric and statistic that the resource's templates need, once."""
    named = dimensions(resource, balancer)
    stats: dict[Stat, _MetricStat] = {}
    for template in _templates(resource):
        for key in (_stat(template), _total_stat(template)):
            if key is None or key in stats:
                continue
            namespace, metric, stat = key
            name = metric_name(resource, metric)
            # Ids of one request differ, also between resources.
            query_id = f"r{order}m{len(stats)}"
            stats[key] = _MetricStat(query_id, namespace, name, stat, named)
    return stats


def _templates(resource: Resource) -> list[AwsMetricTemplate]:
    return [template for template in TEMPLATES if template.kind == resource.kind]


def _stat(template: AwsMetricTemplate) -> Stat:
    return _namespace(template), template.metric, template.stat


def _total_stat(template: AwsMetricTemplate) -> Stat | None:
    """What a share is a share of."""
    if template.over is None:
        return None
    return _namespace(template), template.over, template.over_stat or template.stat


def _namespace(template: AwsMetricTemplate) -> str:
    return template.namespace or BY_KIND[template.kind].namespace


async def _ask(
    calls: AwsCalls,
    place: AwsPlace,
    queries: Sequence[Mapping[str, Any]],
    spans: Sequence[Window],
    period_s: int,
) -> tuple[dict[str, dict[datetime, float]], dict[str, str]]:
    """Samples by query id, and what was left out by query id ("" for all)."""
    series: dict[str, dict[datetime, float]] = {}
    notes: dict[str, str] = {}
    for span in spans:
        points = max(1, math.ceil(span.seconds / period_s))
        # Both quotas bound one call: its queries, and the points of all of them.
        together = max(1, min(MOST_QUERIES, MOST_POINTS // points))
        for first in range(0, len(queries), together):
            requested_queries = queries[first : first + together]
            await _ask_once(
                calls, place, requested_queries, _aligned(span, period_s), series, notes
            )
    return series, notes


async def _ask_once(
    calls: AwsCalls,
    place: AwsPlace,
    queries: Sequence[Mapping[str, Any]],
    span: Window,
    series: dict[str, dict[datetime, float]],
    notes: dict[str, str],
) -> None:
    token = None
    for _ in range(MOST_PAGES):
        answer = await calls.call(
            place,
            "cloudwatch",
            "GetMetricData",
            MetricDataQueries=list(queries),
            StartTime=span.start,
            EndTime=span.end,
            ScanBy="TimestampAscending",
            NextToken=token,
        )
        for result in objects(answer.get("MetricDataResults")):
            query_id = words(result.get("Id"))
            series.setdefault(query_id, {}).update(_samples(result))
            # The next page brings the rest of what is partial.
            if result.get("StatusCode") not in ("Complete", "PartialData", None):
                notes[query_id] = f"CloudWatch says {words(result.get('StatusCode'), 40)}"
        token = answer.get("NextToken")
        if not token:
            return
    notes[""] = f"only {MOST_PAGES} pages of samples were taken; there are more"


def _samples(result: Mapping[str, Any]) -> Iterable[tuple[datetime, float]]:
    times, values = entries(result.get("Timestamps")), entries(result.get("Values"))
    if len(times) != len(values):
        raise ConnectorError("aws", "GetMetricData", "times and values differ in number")
    for raw, value in zip(times, values, strict=True):
        at = moment(raw)
        if at is not None and isinstance(value, (int, float)) and math.isfinite(value):
            yield at, float(value)


def _signals(
    resource: Resource, series: Mapping[Stat, Series], period_s: int, last: Window
) -> dict[str, list[tuple[Any, ...]]]:
    """Rows by signal."""
    labels = msgspec.json.encode({"resource": f"{resource.kind} {resource.name}"}).decode()
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for template in _templates(resource):
        signal, unit = template.signal, template.unit
        signal_rows: list[tuple[Any, ...]] = []
        for at, value in sorted(_values(template, series, period_s, last).items()):
            signal_rows.append((at, resource.service, signal, value * template.scale, unit, labels))
        if signal_rows:
            rows[signal] = signal_rows
    return rows


def _values(
    template: AwsMetricTemplate, series: Mapping[Stat, Series], period_s: int, last: Window
) -> Series:
    """A template's values: as they are, as a share of another metric, or as a rate."""
    values = series.get(_stat(template), {})
    total_stat = _total_stat(template)
    if total_stat is not None:
        total = series.get(total_stat, {})
        # CloudWatch has no sample of a minute without errors, which counts as zero.
        values = {at: values.get(at, 0.0) / count for at, count in total.items() if count > 0}
    if template.rate:
        values = {at: value / period_s for at, value in values.items()}
    if template.stat == "Sum":
        # A sum over a period that had not ended yet would look like a fall.
        ended = last.end - timedelta(seconds=period_s)
        values = {at: value for at, value in values.items() if at <= ended}
    return values


def _add_preferred(aws_evidence: AwsEvidence, signal_sets: Sequence[_ResourceSignals]) -> None:
    """Of one service: each signal from the kind of resource that comes first among the templates
    and has it."""
    for signal in dict.fromkeys(template.signal for template in TEMPLATES):
        having = [
            resource_signal for resource_signal in signal_sets if signal in resource_signal.signals
        ]
        if not having:
            continue
        order = [template.kind for template in TEMPLATES if template.signal == signal]
        first = min(order.index(signal_set.resource.kind) for signal_set in having)
        for signal_set in having:
            if order.index(signal_set.resource.kind) == first:
                aws_evidence.add("metrics", signal_set.signals[signal])
    aws_evidence.items += [signal.item for signal in signal_sets]


def period_for(start: datetime) -> int:
    """The finest period in seconds in which samples so old are still kept."""
    age = datetime.now(UTC) - start
    for retention, period in PERIODS:
        if age < retention:
            return period
    return PERIODS[-1][1]


def _aligned(span: Window, period_s: int) -> Window:
    """The span from the beginning of its first period (samples carry the time at which their period
    begins)."""
    start = span.start.timestamp()
    return Window(start=datetime.fromtimestamp(start - start % period_s, UTC), end=span.end)


def _with_period(query: Mapping[str, Any], period_s: int) -> dict[str, Any]:
    stat = query.get("MetricStat")
    if isinstance(stat, Mapping):
        return {**query, "MetricStat": {**stat, "Period": period_s}}
    return {**query, "Period": period_s}


def _text(resource: Resource, stats: Mapping[Stat, _MetricStat], period_s: int) -> str:
    first = next(iter(stats.values()))
    named = " ".join(f"{name}={value}" for name, value in first.dimensions.items())
    text = ", ".join(f"{stat.metric} {stat.stat}" for stat in stats.values())
    return f"GetMetricData {resource.place} {first.namespace} {named}: {text} every {period_s} s"
