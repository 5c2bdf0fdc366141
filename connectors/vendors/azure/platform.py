"""Platform metrics of Azure Monitor: what Azure measures of a resource by itself, such as the CPU
of a plan or the connections of a database, for the resources that an alert names.

GET alone, of two calls of Microsoft.Insights (learn.microsoft.com, "Metric Definitions - List" and
"Metrics - List", api-version 2018-01-01).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from faultline.analysis.alert_signal.conditions import AlertCondition
from faultline.analysis.kinds.signals import AlertQuery, SignalClass, classify
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Item
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
)
from faultline.connectors.shared.rows.collection_builder import nanoseconds
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.azure.rows import time_of
from faultline.connectors.vendors.azure.session import QuerySession

VERSION = "2018-01-01"
MOST_RESOURCES = 5
MOST_METRICS = 20
"""Metrics that one call answers (the same page, `metricnames`)."""
MOST_SERIES = 50
GRAINS = ("PT1M", "PT5M", "PT15M", "PT1H")
"""Finest first; coarser ones show nothing within an incident."""
SECONDS = {"PT1M": 60.0, "PT5M": 300.0, "PT15M": 900.0, "PT1H": 3600.0}
AGGREGATIONS = ("Average", "Total", "Maximum", "Minimum", "Count")
UNITS = {
    "Percent": "percent",
    "Seconds": "s",
    "MilliSeconds": "ms",
    "Bytes": "bytes",
    "Count": "count",
    "CountPerSecond": "1/s",
    "BytesPerSecond": "bytes/s",
}
RESOURCE_ID = re.compile(
    r"/subscriptions/[A-Za-z0-9-]{1,64}/resource-?groups/[\w.()-]{1,90}"
    r"/providers/[A-Za-z0-9.]{1,100}(?:/[A-Za-z0-9]{1,100}/[\w.()-]{1,260}){1,4}",
    re.IGNORECASE,
)
"""learn.microsoft.com, "Naming rules and restrictions for Azure resources"."""
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+")


class _AzureName(msgspec.Struct):
    value: str = ""


class _Availability(msgspec.Struct, rename="camel"):
    time_grain: str | None = None


class MetricDefinition(msgspec.Struct, rename="camel"):
    """One metric that a resource has."""

    name: _AzureName = msgspec.field(default_factory=_AzureName)
    unit: str | None = None
    primary_aggregation_type: str | None = None
    is_dimension_required: bool | None = None
    metric_availabilities: list[_Availability] | None = None

    @property
    def grain(self) -> str | None:
        """The finest one that is of use."""
        time_grains = {
            metric_availability.time_grain
            for metric_availability in self.metric_availabilities or ()
        }
        return next((grain for grain in GRAINS if grain in time_grains), None)


class _Definitions(msgspec.Struct):
    value: list[MetricDefinition]


class _MetricSeries(msgspec.Struct):
    data: list[dict[str, Any]] | None = None


class _PlatformMetric(msgspec.Struct):
    name: _AzureName
    unit: str | None = None
    timeseries: list[_MetricSeries] | None = None


class _PlatformMetrics(msgspec.Struct):
    value: list[_PlatformMetric]


@dataclass(frozen=True)
class PlatformQuestion:
    """One call: metrics of a resource that have the same grain."""

    resource: str
    grain: str
    metrics: Sequence[MetricDefinition]

    @property
    def path(self) -> str:
        """Where it is asked."""
        return f"{self.resource}/providers/microsoft.insights/metrics"

    def params(self, window: Window) -> list[tuple[str, str]]:
        """As the call takes them."""
        aggregations = dict.fromkeys(aggregation_of(metric) for metric in self.metrics)
        return [
            ("api-version", VERSION),
            ("timespan", f"{_utc(window.start)}/{_utc(window.end)}"),
            ("interval", self.grain),
            ("metricnames", ",".join(metric.name.value for metric in self.metrics)),
            ("aggregation", ",".join(aggregations)),
        ]


def named_resources(alert: Alert) -> list[str]:
    """The resources that the alert's labels name by their ids, each once."""
    resource_ids: dict[str, str] = {}
    for value in alert.labels.values():
        # Foreign text that becomes a path: take whole ids, and none that leads elsewhere.
        if RESOURCE_ID.fullmatch(value) and ".." not in value:
            # Ids in Azure ignore case.
            resource_ids.setdefault(value.casefold(), value)
    return list(resource_ids.values())[:MOST_RESOURCES]


async def evaluated_rule(
    session: QuerySession, resource: str, query: AlertQuery, scope: Scope, portal: str
) -> Collected:
    """When a resource's metric was beyond the threshold of a metric alert, for each value of the
    dimensions that the alert names. Raises ConnectorError, BudgetExceeded."""
    aggregation = query.statistic if query.statistic in AGGREGATIONS else AGGREGATIONS[0]
    window_s = query.window_s or 0.0
    # One sample is what the rule adds up: its own window, or the nearest that Azure has below it.
    grain = max(
        [GRAINS[0], *(grain for grain in GRAINS if SECONDS[grain] <= window_s)],
        key=SECONDS.__getitem__,
    )
    fixed = [("api-version", VERSION), ("interval", grain), ("aggregation", aggregation or "")]
    fixed.append(("metricnames", query.text))
    if query.namespace:
        fixed.append(("metricnamespace", query.namespace))
    if query.dimensions:
        filters = []
        for name, value in sorted(query.dimensions.items()):
            # A quote in a value is doubled, as OData has it.
            filters.append(f"{name} eq '{value.replace(chr(39), 2 * chr(39))}'")
        fixed.append(("$filter", " and ".join(filters)))

    async def ask(_: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        span = f"{_utc(at.window.start)}/{_utc(at.window.end)}"
        path = f"{resource}/providers/microsoft.insights/metrics"
        answer = await session.get(path, [*fixed, ("timespan", span)], type=_PlatformMetrics)
        every = []
        for metric in answer.value:
            for series in (metric.timeseries or ())[:MOST_SERIES]:
                points = []
                for point in series.data or ():
                    moment = time_of(point.get("timeStamp"))
                    value = _number(point, (aggregation or "").lower())
                    if moment is not None and value is not None:
                        points.append((nanoseconds(moment), value))
                every.append(EvaluatedSeries(query.dimensions, points))
        return every

    condition = AlertCondition(
        query.text, query.text, query.comparison, query.threshold, decides=True
    )
    link = f"{portal}/#resource{resource}/metrics"
    return await evaluated(query, scope, ask, link=link, condition=condition)


async def platform_rows(
    session: QuerySession, resource: str, service: str, alert: Alert, window: Window, portal: str
) -> tuple[list[tuple[Any, ...]], list[Item]]:
    """Rows of the metrics table of one resource, and their items. Raises ConnectorError,
    BudgetExceeded."""
    path = f"{resource}/providers/microsoft.insights/metricDefinitions"
    response = await session.get(path, [("api-version", VERSION)], type=_Definitions)
    watched = alert.query.text if alert.query else ""
    rows: list[tuple[Any, ...]] = []
    items = []
    for question in _questions(resource, response.value, watched):
        params = question.params(window)
        answer = await session.get(question.path, params, type=_PlatformMetrics)
        question_rows = list(_rows(answer, question, service))
        rows += question_rows
        text = " ".join(f"{name}={value}" for name, value in params)
        link = f"{portal}/#resource{resource}/metrics"
        item = Item("metrics", f"GET {question.path} {text}", window, link, rows=len(question_rows))
        items.append(item.holding(question_rows))
    return rows, items


def _questions(
    resource: str, definitions: Iterable[MetricDefinition], watched: str
) -> Iterator[PlatformQuestion]:
    """The alert's own metric, then those whose meaning is known, as many as one call takes."""
    usable = [definition for definition in definitions if _is_usable(definition)]
    # False sorts first: the alert's own metric must come before the cap.
    usable.sort(key=lambda definition: definition.name.value != watched)
    chosen = []
    for definition in usable:
        if (
            definition.name.value == watched
            or classify(signal_of(definition)) is not SignalClass.OTHER
        ):
            chosen.append(definition)
    # One call has one interval for all its metrics.
    by_grain: dict[str, list[MetricDefinition]] = {}
    for definition in chosen[:MOST_METRICS]:
        by_grain.setdefault(definition.grain or GRAINS[0], []).append(definition)
    for grain, metrics in by_grain.items():
        yield PlatformQuestion(resource, grain, metrics)


def _is_usable(definition: MetricDefinition) -> bool:
    # A comma would make two names of one.
    has_name = (
        bool(definition.name.value)
        and "," not in definition.name.value
        and len(definition.name.value) <= 200
    )
    return has_name and definition.grain is not None and not definition.is_dimension_required


def aggregation_of(definition: MetricDefinition) -> str:
    """How Azure itself adds the metric up."""
    primary_aggregation_type = definition.primary_aggregation_type or ""
    return primary_aggregation_type if primary_aggregation_type in AGGREGATIONS else AGGREGATIONS[0]


def signal_of(definition: MetricDefinition) -> str:
    """The metric's name in small letters: `HttpResponseTime` is `http_response_time`."""
    return short(
        "_".join(part for part in _WORD_ENDS.split(definition.name.value) if part).lower(), 100
    )


def _rows(
    answer: _PlatformMetrics, question: PlatformQuestion, service: str
) -> Iterator[tuple[Any, ...]]:
    by_name = {metric.name.value.casefold(): metric for metric in question.metrics}
    for metric in answer.value:
        definition = by_name.get(metric.name.value.casefold())
        if definition is None:
            continue
        signal, key = signal_of(definition), aggregation_of(definition).lower()
        unit = UNITS.get(metric.unit or "")
        for series in (metric.timeseries or ())[:MOST_SERIES]:
            for point in series.data or ():
                at, value = time_of(point.get("timeStamp")), _number(point, key)
                if at is not None and value is not None:
                    yield at, service, signal, value, unit, None


def _number(point: Mapping[str, Any], key: str) -> float | None:
    value = point.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value)


def _utc(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")
