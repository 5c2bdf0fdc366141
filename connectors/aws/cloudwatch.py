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

from analysis.errors import ConnectorError, FaultlineError
from analysis.vocabulary import Scope, Window
from connectors.aws.alarm_metrics import AlarmMetric
from connectors.aws.calls import AwsCalls, entries, objects
from connectors.aws.console import metrics_link
from connectors.aws.evidence import AwsEvidence, merged, moment, words
from connectors.aws.metric_templates import (
    NAMESPACES,
    TEMPLATES,
    AwsMetricTemplate,
    dimensions,
    metric_name,
)
from connectors.aws.resource import Resource
from connectors.aws.session import AwsPlace
from connectors.base import Item

MOST_QUERIES = 500
MOST_POINTS = 100_800
"""Of one GetMetricData call (CloudWatch quotas); points in an answer beyond come page by page."""
PERIODS = ((timedelta(days=15), 60), (timedelta(days=63), 300), (timedelta(days=455), 3600))
"""For so long a resolution in seconds is kept (CloudWatch user guide, "Metrics retention")."""
MOST_PAGES = 20
Series = Mapping[datetime, float]
Stat = tuple[str, str, str]
"""Namespace, metric, statistic."""


@dataclass(frozen=True)
class _Wanted:
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


async def metrics_of(calls: AwsCalls, resources: Sequence[Resource], scope: Scope) -> AwsEvidence:
    """The templates' signals of the resources, place by place."""
    places = list(dict.fromkeys(one.place for one in resources))
    found = AwsEvidence()
    parts = await asyncio.gather(
        *(_of_place(calls, p, [r for r in resources if r.place == p], scope) for p in places)
    )
    brought: dict[str, list[tuple[Resource, dict[str, list[tuple[Any, ...]]], Item]]] = {}
    for part, brought_here in parts:
        found.missing += part.missing
        for resource, signals, item in brought_here:
            brought.setdefault(resource.service, []).append((resource, signals, item))
    for one_service in brought.values():
        _add_preferred(found, one_service)
    return found


async def alarm_metric(calls: AwsCalls, metric: AlarmMetric, scope: Scope) -> AwsEvidence:
    """What the alarm itself looks at, over all windows, in its own period."""
    found = AwsEvidence()
    spans = merged((*scope.baseline, scope.incident))
    period = max(period_for(spans[0].start), 60 * math.ceil(metric.period_s / 60))
    queries = [_with_period(query, period) for query in metric.queries]
    try:
        series, notes = await _ask(calls, metric.place, queries, spans, period)
    except FaultlineError as error:
        found.lacks("metrics", metric.text, error)
        return found
    rows = [
        (at, metric.service, shown.signal, value * shown.scale, shown.unit, shown.labels)
        for shown in metric.shown
        for at, value in sorted(series.get(shown.id, {}).items())
    ]
    if not found.add("metrics", rows):
        found.lacks("metrics", metric.text, "no samples in these windows")
        return found
    window = Window(start=spans[0].start, end=spans[-1].end)
    link = metrics_link(metric.place.region, metric.graph, window, period)
    query = f"GetMetricData {metric.place} {metric.text} every {period} s"
    found.items.append(Item("metrics", query, window, link, rows=len(rows), cut=notes.get("")))
    return found


async def _of_place(
    calls: AwsCalls, place: AwsPlace, resources: Sequence[Resource], scope: Scope
) -> tuple[AwsEvidence, list[tuple[Resource, dict[str, list[tuple[Any, ...]]], Item]]]:
    found = AwsEvidence()
    balancers = await asyncio.gather(*(_load_balancer(calls, one, found) for one in resources))
    spans = merged((*scope.baseline, scope.incident))
    period = period_for(spans[0].start)
    wanted = {
        resource: _wanted(resource, order, balancer)
        for order, (resource, balancer) in enumerate(zip(resources, balancers, strict=True))
        if resource.kind != "target_group" or balancer
    }
    queries = [one.query(period) for of_resource in wanted.values() for one in of_resource.values()]
    if not queries:
        return found, []
    try:
        series, notes = await _ask(calls, place, queries, spans, period)
    except FaultlineError as error:
        found.lacks("metrics", f"GetMetricData {place} {', '.join(r.name for r in wanted)}", error)
        return found, []
    window = Window(start=spans[0].start, end=spans[-1].end)
    brought = []
    for resource, stats in wanted.items():
        signals = _signals(
            resource,
            {stat: series.get(one.id, {}) for stat, one in stats.items()},
            period,
            spans[-1],
        )
        text = _text(resource, stats, period)
        rows = sum(map(len, signals.values()))
        if not rows:
            found.lacks(
                "metrics", text, "no samples in these windows; is the name right, and the region?"
            )
            continue
        graph = [
            [w.namespace, w.metric, *_flat(w.dimensions), {"stat": w.stat}] for w in stats.values()
        ]
        cut = next((notes[w.id] for w in stats.values() if w.id in notes), notes.get(""))
        link = metrics_link(place.region, graph, window, period)
        brought.append((resource, signals, Item("metrics", text, window, link, rows=rows, cut=cut)))
    return found, brought


async def _load_balancer(calls: AwsCalls, resource: Resource, found: AwsEvidence) -> str | None:
    """The load balancer that a target group's metrics name beside it."""
    if resource.kind != "target_group":
        return None
    query = f"ListMetrics {resource.place} {NAMESPACES['target_group']} TargetGroup={resource.name}"
    try:
        answer = await calls.call(
            resource.place,
            "cloudwatch",
            "ListMetrics",
            Namespace=NAMESPACES["target_group"],
            MetricName="RequestCount",
            Dimensions=[{"Name": "TargetGroup", "Value": resource.name}],
        )
    except FaultlineError as error:
        found.lacks("metrics", query, error)
        return None
    for metric in objects(answer.get("Metrics")):
        named = {
            words(d.get("Name")): words(d.get("Value")) for d in objects(metric.get("Dimensions"))
        }
        if named.get("LoadBalancer") and set(named) == {"LoadBalancer", "TargetGroup"}:
            return named["LoadBalancer"]
    found.lacks("metrics", query, "no load balancer has metrics of this target group")
    return None


def _wanted(resource: Resource, order: int, balancer: str | None) -> dict[Stat, _Wanted]:
    """Each metric and statistic that the resource's templates need, once."""
    named = dimensions(resource, balancer)
    stats: dict[Stat, _Wanted] = {}
    for template in _templates(resource):
        for metric in filter(None, (template.metric, template.over)):
            key = _stat(template, metric)
            name = metric_name(resource, metric)
            stats.setdefault(
                key, _Wanted(f"r{order}m{len(stats)}", key[0], name, template.stat, named)
            )
    return stats


def _templates(resource: Resource) -> list[AwsMetricTemplate]:
    return [template for template in TEMPLATES if template.kind == resource.kind]


def _stat(template: AwsMetricTemplate, metric: str) -> Stat:
    return template.namespace or NAMESPACES[template.kind], metric, template.stat


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
        together = max(1, min(MOST_QUERIES, MOST_POINTS // points))
        for first in range(0, len(queries), together):
            asked = queries[first : first + together]
            await _ask_once(calls, place, asked, _aligned(span, period_s), series, notes)
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
        for one in objects(answer.get("MetricDataResults")):
            held = series.setdefault(words(one.get("Id")), {})
            held.update(_samples(one))
            if one.get("StatusCode") not in ("Complete", "PartialData", None):
                notes[words(one.get("Id"))] = f"CloudWatch says {words(one.get('StatusCode'), 40)}"
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
    """Rows by signal. A sum over a period that had not ended yet is left out: it would look like a
    fall."""
    labels = msgspec.json.encode({"resource": f"{resource.kind} {resource.name}"}).decode()
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for template in _templates(resource):
        values = series.get(_stat(template, template.metric), {})
        if template.over:
            total = series.get(_stat(template, template.over), {})
            values = {at: values.get(at, 0.0) / count for at, count in total.items() if count > 0}
        if template.rate:
            values = {at: value / period_s for at, value in values.items()}
        if template.stat == "Sum":
            values = {
                at: v for at, v in values.items() if at + timedelta(seconds=period_s) <= last.end
            }
        if values:
            rows[template.signal] = [
                (
                    at,
                    resource.service,
                    template.signal,
                    value * template.scale,
                    template.unit,
                    labels,
                )
                for at, value in sorted(values.items())
            ]
    return rows


def _add_preferred(
    found: AwsEvidence, brought: Sequence[tuple[Resource, dict[str, list[tuple[Any, ...]]], Item]]
) -> None:
    """Of one service: each signal from the kind of resource that comes first among the templates
    and has it."""
    for signal in dict.fromkeys(template.signal for template in TEMPLATES):
        having = [
            (resource, signals[signal]) for resource, signals, _ in brought if signal in signals
        ]
        order = [template.kind for template in TEMPLATES if template.signal == signal]
        first = min((order.index(resource.kind) for resource, _ in having), default=0)
        for resource, rows in having:
            if order.index(resource.kind) == first:
                found.add("metrics", rows)
    found.items += [item for _, _, item in brought]


def period_for(start: datetime) -> int:
    """The finest period in seconds in which samples so old are still kept."""
    age = datetime.now(UTC) - start
    return next((period for kept, period in PERIODS if age < kept), PERIODS[-1][1])


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


def _flat(dimensions: Mapping[str, str]) -> list[str]:
    return [text for pair in dimensions.items() for text in pair]


def _text(resource: Resource, stats: Mapping[Stat, _Wanted], period_s: int) -> str:
    first = next(iter(stats.values()))
    named = " ".join(f"{name}={value}" for name, value in first.dimensions.items())
    asked = ", ".join(f"{one.metric} {one.stat}" for one in stats.values())
    return f"GetMetricData {resource.place} {first.namespace} {named}: {asked} every {period_s} s"
