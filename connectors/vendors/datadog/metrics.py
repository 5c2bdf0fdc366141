"""Metrics: the alerting monitor's own expression, and the golden signals of the services from their
trace metrics.

Trace metrics (docs.datadoghq.com, "Trace metrics"): `trace.<operation>.hits` and `.errors` are
counts, the distribution `trace.<operation>` is in seconds. The metrics that carry a service's tag
say which operations it has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from statistics import fmean
from typing import Any

import msgspec

from faultline.analysis.alert_signal.conditions import AlertCondition
from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import AddedQuery, Window
from faultline.connectors.shared.contract.base import Collected, Item, Missing
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    Point,
    evaluated,
)
from faultline.connectors.vendors.datadog.calls import ACTIVE_METRICS, QUERY, TIMESERIES
from faultline.connectors.vendors.datadog.inquiry import (
    DatadogEvidence,
    DatadogInquiry,
    DatadogPart,
)
from faultline.connectors.vendors.datadog.monitor_queries import (
    MetricMonitor,
    SearchMonitor,
    read_monitor,
)
from faultline.connectors.vendors.datadog.values import (
    attributes,
    metric_tag,
    nanoseconds,
    tags,
    text,
)

MOST_POINTS = 400
"""Points of one series over one span of time."""
LEAST_INTERVAL_S = 20.0
"""The agent flushes every 10 s; with two of its points none is empty by chance."""
MOST_SERIES = 60
"""Series kept of one answer."""
MOST_OPERATIONS = 2
"""Operations of a service: what it serves, and the next one."""
MOST_VALUES = 10
"""Values of a tag that a signal is split by."""
SPLITS = ("version", "kube_cluster_name", "availability-zone", "host")
"""Tags that tell where or since which release something goes wrong."""
MOST_SPLIT_SERVICES = 2
_OVER = re.compile(r"\s*(?P<how>avg|sum|min|max)\(last_(?P<count>\d{1,3})(?P<unit>[mhd])\):")
_SECONDS = {"m": 60, "h": 3600, "d": 86_400}
_AGGREGATES: Mapping[str, Callable[[Sequence[float]], float]] = {
    "avg": fmean,
    "sum": sum,
    "min": min,
    "max": max,
}
"""How a monitor joins the points of its window (docs.datadoghq.com, "Metric monitors")."""
_HITS = re.compile(r"trace\.([A-Za-z][\w.-]{0,180})\.hits")
_SERVED = re.compile(
    r"(?:\.request|\.server(?:\.request)?|_request|\.handler?|\.process|\.consume|\.invoke|\.job)$"
)
"""Operations by which a service is entered, by the tracers' naming."""

RESOURCES: tuple[tuple[str, str, str, str, float], ...] = (
    ("cpu_cores", "cores", "container.cpu.usage", "sum", 1e-9),
    ("cpu_cores", "cores", "kubernetes.cpu.usage.total", "sum", 1e-9),
    ("memory_bytes", "bytes", "container.memory.usage", "max", 1.0),
    ("memory_bytes", "bytes", "kubernetes.memory.usage", "max", 1.0),
    ("restarts", "1", "container.restarts", "sum", 1.0),
    ("restarts", "1", "kubernetes.containers.restarts", "sum", 1.0),
)
"""Signal, unit, metric, how series are joined, and the factor to the unit (CPU comes in nanocores:
integrations-core, kubelet/metadata.csv). The first metric of a signal that the service has is
asked. Memory is that of the largest container: in a rollout old and new pods run side by side, and
their sum would look like a leak."""


@dataclass(frozen=True)
class DatadogQuestion:
    """One series of a timeseries request: a formula over named queries.

    A query's name is one letter. `service` names the rows where no tag does; an `optional` one is
    not missed.
    """

    signal: str
    unit: str | None
    formula: str
    queries: Mapping[str, str]
    service: str | None = None
    scale: float = 1.0
    labels: Mapping[str, str] | None = None
    optional: bool = False
    most: int = MOST_SERIES

    @property
    def query(self) -> str:
        """The formula with its queries in their places."""
        return re.sub(r"\b[a-z]\b", lambda name: self.queries.get(name[0], name[0]), self.formula)


class _DatadogSeries(msgspec.Struct):
    group_tags: list[str] | None = None
    query_index: int = 0


class _Lines(msgspec.Struct):
    series: list[_DatadogSeries] = []
    times: list[float] = []
    values: list[list[float | None]] = []


class _LinesData(msgspec.Struct):
    attributes: _Lines


class DatadogLinesAnswer(msgspec.Struct):
    """The answer of the timeseries API."""

    data: _LinesData
    errors: str | None = None


class _PointSeries(msgspec.Struct):
    pointlist: list[tuple[float, float | None]] = []
    tag_set: list[str] | None = None
    scope: str | None = None
    unit: list[Any] | None = None


class PointsAnswer(msgspec.Struct):
    """The answer of the v1 query API."""

    series: list[_PointSeries] = []
    status: str = "ok"
    error: str | None = None


class DatadogNamesAnswer(msgspec.Struct):
    """The metrics that were active."""

    metrics: list[str]


async def added(inquiry: DatadogInquiry, query: AddedQuery) -> DatadogEvidence:
    """What a runbook wants to be asked, over all windows."""
    measures = read_monitor(query.query, "query alert")
    if not isinstance(measures, MetricMonitor):
        return _nothing(query.query, f"{query.by}: is not a query of metrics")
    return await monitored(inquiry, MetricMonitor(measures.expression, query.signal), by=query.by)


async def monitored(
    inquiry: DatadogInquiry, monitor: MetricMonitor, *, by: str | None = None
) -> DatadogEvidence:
    """The monitor's own expression over all windows; `by` says who wants it, where that is not the
    monitor."""
    rows: list[tuple[Any, ...]] = []
    count = 0
    for span in inquiry.spans_of_time:
        params = {
            "_from": _seconds(span.start),
            "to": _seconds(span.end),
            "query": monitor.expression,
        }
        answer = await inquiry.ask(QUERY, PointsAnswer, **params)
        if answer.status != "ok" or answer.error:
            problem = f"the query was not answered: {text(answer.error) or answer.status}"
            raise ConnectorError("datadog", QUERY.text, problem)
        # Each window has an answer; the longest one says how many series were cut.
        count = max(count, len(answer.series))
        for series in answer.series[:MOST_SERIES]:
            rows += _monitored_rows(inquiry, monitor.signal, series)
    if not rows:
        whose = f"the query of {by}" if by else "the monitor's query"
        return _nothing(monitor.expression, f"no series in these windows for {whose}")
    evidence = DatadogEvidence()
    window = inquiry.whole
    item = Item(
        "metrics",
        monitor.expression,
        window,
        inquiry.links.metrics(monitor.expression, window),
        rows=evidence.add("metrics", rows),
        cut=f"{count - MOST_SERIES} of {count} series left out" if count > MOST_SERIES else None,
        details={"asked_by": by} if by else {},
    )
    evidence.items.append(item.holding(rows))
    return evidence


async def monitor_evaluation(
    inquiry: DatadogInquiry, query: AlertQuery, monitor: MetricMonitor, condition: AlertCondition
) -> Collected:
    """When the monitor's expression was beyond its threshold. Raises FaultlineError."""

    async def ask(text_: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        params = {"_from": _seconds(at.window.start), "to": _seconds(at.window.end), "query": text_}
        answer = await inquiry.ask(QUERY, PointsAnswer, **params)
        if answer.status != "ok" or answer.error:
            problem = f"the query was not answered: {text(answer.error) or answer.status}"
            raise ConnectorError("datadog", QUERY.text, problem)
        every = []
        for series in answer.series[:MOST_SERIES]:
            points = []
            for moment, value in series.pointlist:
                ns = nanoseconds(moment)
                if ns and value is not None:
                    points.append((ns, value))
            labels = tags(series.tag_set or series.scope)
            every.append(EvaluatedSeries(labels, rolled(points, query.text)))
        return every

    link = inquiry.links.metrics(monitor.expression, inquiry.request.scope.incident)
    return await evaluated(query, inquiry.request.scope, ask, link=link, condition=condition)


def rolled(points: Sequence[Point], query: str) -> list[Point]:
    """The points as the monitor compares them: `sum(last_5m)` of a point is that of the five
    minutes up to it."""
    match = _OVER.match(query)
    if match is None:
        return list(points)
    span_ns = int(match["count"]) * _SECONDS[match["unit"]] * 1_000_000_000
    aggregate = _AGGREGATES[match["how"]]
    rolled_points: list[Point] = []
    first = 0
    for place, (at, _) in enumerate(points):
        while points[first][0] <= at - span_ns:
            first += 1
        rolled_points.append((at, aggregate([value for _, value in points[first : place + 1]])))
    return rolled_points


def _nothing(query: str, reason: str) -> DatadogEvidence:
    return DatadogEvidence(missing=[Missing("metrics", query, reason)])


def _monitored_rows(
    inquiry: DatadogInquiry, signal: str, series: _PointSeries
) -> list[tuple[Any, ...]]:
    labels = tags(series.tag_set or series.scope)
    service = inquiry.names.ours(labels.pop("service", None)) or _first_service(inquiry)
    # The unit of a series; the second of the two that Datadog gives is the one it is divided by.
    unit: str | None
    first = series.unit[0] if series.unit else None
    if not isinstance(first, dict):
        unit = None
    else:
        unit = text(first.get("short_name") or first.get("name")) or None
    label_text = attributes(labels)
    rows: list[tuple[Any, ...]] = []
    for at, value in series.pointlist:
        ns = nanoseconds(at)
        if ns:
            rows.append((ns, service, signal, value, unit, label_text))
    return rows


def _first_service(inquiry: DatadogInquiry) -> str | None:
    return inquiry.services[0] if inquiry.services else None


async def searched(inquiry: DatadogInquiry, monitor: SearchMonitor) -> DatadogEvidence:
    """What a log or span monitor counts, over all windows."""
    compute = {"aggregation": monitor.aggregation}
    if monitor.measure:
        compute["metric"] = monitor.measure
    query: dict[str, Any] = {
        "data_source": monitor.source,
        "name": "q0",
        "compute": compute,
        "search": {"query": monitor.search},
        "group_by": [{"facet": facet, "limit": MOST_VALUES} for facet in monitor.by],
    }
    if monitor.indexes:
        query["indexes"] = list(monitor.indexes)
    question = DatadogQuestion(monitor.signal, None, "q0", {}, _first_service(inquiry))
    rows: list[tuple[Any, ...]] = []
    for span in inquiry.spans_of_time:
        rows += await computed(inquiry, question, [query], span, MOST_POINTS)
    phrase = (
        f'{monitor.source}("{monitor.search}") {monitor.aggregation} '
        f"by {', '.join(monitor.by) or 'nothing'}"
    )
    if not rows:
        return _nothing(phrase, "nothing was counted in these windows for the monitor's search")
    evidence = DatadogEvidence()
    page = inquiry.links.logs if monitor.source == "logs" else inquiry.links.spans
    link = page(monitor.search, inquiry.whole)
    count = evidence.add("metrics", rows)
    item = Item("metrics", phrase, inquiry.whole, link, rows=count)
    evidence.items.append(item.holding(rows))
    return evidence


async def computed(
    inquiry: DatadogInquiry,
    question: DatadogQuestion,
    queries: Sequence[Mapping[str, Any]],
    window: Window,
    points: int,
) -> list[tuple[Any, ...]]:
    """Rows of one formula over named queries in one window. Raises ConnectorError."""
    body = _body(window, queries, [question.formula], points)
    answer = await inquiry.ask(TIMESERIES, DatadogLinesAnswer, body=body)
    return _lines(inquiry, answer, [question])


async def golden(inquiry: DatadogInquiry, service: str, *, split: bool) -> DatadogEvidence:
    """Rate, errors, latency and resources of one service; where `split`, errors and latency also by
    tags."""
    tag = metric_tag("service", inquiry.names.of(service))
    scope = f"{tag},{metric_tag('env', inquiry.env)}" if inquiry.env else tag
    start = _seconds(inquiry.whole.start)
    answer = await inquiry.ask(ACTIVE_METRICS, DatadogNamesAnswer, _from=start, tag_filter=tag)
    active = set(answer.metrics)
    operations = _operations(active)
    signals = {}
    for operation in operations:
        signals[f"signals of {operation}"] = _signals(service, operation, scope, active)
    if split and operations:
        signals[f"{operations[0]} by tags"] = _split_signals(service, operations[0], scope)
    resources = _resources(service, active, scope)
    if resources:
        signals["resources"] = resources
    evidence = await inquiry.gathered(
        DatadogPart("metrics", f"{what}{{{scope}}}", partial(timeseries, inquiry, questions))
        for what, questions in signals.items()
    )
    if not operations:
        evidence.missing.append(Missing("metrics", f"trace.*{{{scope}}}", _NOT_TRACED))
    return evidence


_NOT_TRACED = (
    "no trace metric carries this service's tag: it is not traced, "
    "or services.<name>.datadog_service is wrong"
)


def _operations(active: Iterable[str]) -> list[str]:
    """The operations of a service, those first by which it is entered."""
    names = {m[1] for name in active if (m := _HITS.fullmatch(name))}
    return sorted(names, key=lambda name: (_SERVED.search(name) is None, name))[:MOST_OPERATIONS]


def _signals(service: str, operation: str, scope: str, active: set[str]) -> list[DatadogQuestion]:
    """Of a service that never failed there is no metric of errors; of older agents no distribution,
    but a sum."""
    base = f"trace.{operation}"
    hits, errors = f"sum:{base}.hits{{{scope}}}", f"sum:{base}.errors{{{scope}}}"
    common_fields: dict[str, Any] = {"service": service, "labels": {"operation": operation}}
    never_failed = f"{base}.errors" not in active
    has_sum_only = base not in active and f"{base}.duration" in active
    rate = {"h": f"{hits}.as_rate()"}
    ratio = {"e": f"{errors}.as_count()", "h": f"{hits}.as_count()"}
    questions = [
        DatadogQuestion("request_rate", "1/s", "h", rate, **common_fields),
        DatadogQuestion(
            "error_ratio",
            "ratio",
            "default_zero(e) / h",
            ratio,
            optional=never_failed,
            **common_fields,
        ),
    ]
    # The distribution is in seconds, as is the sum.
    common_fields["scale"] = 1000
    for quantile in ("p50", "p99"):
        queries = {"p": f"{quantile}:{base}{{{scope}}}"}
        questions.append(
            DatadogQuestion(
                f"latency_{quantile}", "ms", "p", queries, optional=has_sum_only, **common_fields
            )
        )
    # Without a distribution, the sum by the number of requests gives a mean at least.
    if has_sum_only:
        mean = {"d": f"sum:{base}.duration{{{scope}}}.as_count()", "h": ratio["h"]}
        questions.append(DatadogQuestion("latency_mean", "ms", "d / h", mean, **common_fields))
    return questions


def _split_signals(service: str, operation: str, scope: str) -> list[DatadogQuestion]:
    base, labels = f"trace.{operation}", {"operation": operation}
    common_fields: dict[str, Any] = {"service": service, "labels": labels, "optional": True}
    questions = []
    for tag in SPLITS:
        by = f"{{{scope}}} by {{{tag}}}"
        ratio = {"e": f"sum:{base}.errors{by}.as_count()", "h": f"sum:{base}.hits{by}.as_count()"}
        # Let Datadog choose the worst values, so that the answer stays small.
        top = f"{MOST_VALUES}, 'mean', 'desc'"
        questions.append(
            DatadogQuestion(
                "error_ratio", "ratio", f"top(default_zero(e) / h, {top})", ratio, **common_fields
            )
        )
        slow = {"p": f"p99:{base}{by}"}
        questions.append(
            DatadogQuestion(
                "latency_p99", "ms", f"top(p, {top})", slow, scale=1000, **common_fields
            )
        )
    return questions


def _resources(service: str, active: set[str], scope: str) -> list[DatadogQuestion]:
    questions: dict[str, DatadogQuestion] = {}
    for signal, unit, metric, how, scale in RESOURCES:
        if metric in active and signal not in questions:
            query = {"m": f"{how}:{metric}{{{scope}}}"}
            questions[signal] = DatadogQuestion(
                signal, unit, "m", query, service=service, scale=scale
            )
    return list(questions.values())


async def timeseries(
    inquiry: DatadogInquiry,
    questions: Sequence[DatadogQuestion],
    windows: Sequence[Window] = (),
    points: int = MOST_POINTS,
) -> DatadogEvidence:
    """All series of one request over all windows. Where Datadog finds one wrong, they are asked one
    by one."""
    windows = windows or inquiry.spans_of_time
    try:
        return await _together(inquiry, questions, windows, points)
    except ConnectorError as error:
        # Only these say that a query is wrong; other failures meet every query alike.
        if error.status not in (400, 422):
            raise
        if len(questions) == 1:
            return _nothing(questions[0].query, str(error))
    return DatadogEvidence.of(
        [await timeseries(inquiry, [question], windows, points) for question in questions]
    )


async def _together(
    inquiry: DatadogInquiry,
    questions: Sequence[DatadogQuestion],
    windows: Sequence[Window],
    points: int,
) -> DatadogEvidence:
    queries, formulas = _named(questions)
    rows: list[list[tuple[Any, ...]]] = [[] for _ in questions]
    for span in windows:
        body = _body(span, queries, formulas, points)
        answer = await inquiry.ask(TIMESERIES, DatadogLinesAnswer, body=body)
        for number, question in enumerate(questions):
            rows[number] += _lines(inquiry, answer, questions, only=question)
    evidence = DatadogEvidence()
    window = inquiry.whole
    for question, some in zip(questions, rows, strict=True):
        if some:
            link = inquiry.links.metrics(question.query, window)
            count = evidence.add("metrics", some)
            item = Item("metrics", question.query, window, link, rows=count)
            evidence.items.append(item.holding(some))
        elif not question.optional:
            evidence.missing.append(
                Missing("metrics", question.query, "no series in these windows")
            )
    return evidence


def _named(questions: Sequence[DatadogQuestion]) -> tuple[list[dict[str, Any]], list[str]]:
    """The queries under their own names, and the formulas that use these."""
    queries, formulas = [], []
    for number, question in enumerate(questions):
        new = {name: f"{name}{number}" for name in question.queries}
        for name, query in question.queries.items():
            queries.append({"data_source": "metrics", "name": new[name], "query": query})
        formula = question.formula
        # A query's name is one letter, so a formula's other words are left as they are.
        for name in sorted(set(re.findall(r"\b[a-z]\b", formula)) & set(new)):
            formula = re.sub(rf"\b{name}\b", new[name], formula)
        formulas.append(formula)
    return queries, formulas


def _body(
    span: Window, queries: Sequence[Mapping[str, Any]], formulas: Sequence[str], points: int
) -> dict[str, Any]:
    """The request; its times are in ms."""
    interval = max(LEAST_INTERVAL_S, math.ceil(span.seconds / points))
    return {
        "data": {
            "type": "timeseries_request",
            "attributes": {
                "_from": _seconds(span.start) * 1000,
                "to": _seconds(span.end) * 1000,
                "interval": round(interval * 1000),
                "queries": list(queries),
                "formulas": [{"formula": formula} for formula in formulas],
            },
        }
    }


def _lines(
    inquiry: DatadogInquiry,
    answer: DatadogLinesAnswer,
    questions: Sequence[DatadogQuestion],
    only: DatadogQuestion | None = None,
) -> list[tuple[Any, ...]]:
    """Rows of the answer's series; those of one formula where `only` is given."""
    if answer.errors:
        problem = f"the query was not answered: {text(answer.errors)}"
        raise ConnectorError("datadog", TIMESERIES.text, problem)
    lines = answer.data.attributes
    times = [nanoseconds(at) for at in lines.times]
    rows: list[tuple[Any, ...]] = []
    count = 0
    for series, values in zip(lines.series, lines.values, strict=False):
        # The index is the formula's place in the request.
        if not 0 <= series.query_index < len(questions):
            continue
        question = questions[series.query_index]
        if (only is not None and question is not only) or count >= question.most:
            continue
        count += 1
        rows += _series_rows(inquiry, question, series, zip(times, values, strict=False))
    return rows


def _series_rows(
    inquiry: DatadogInquiry,
    question: DatadogQuestion,
    series: _DatadogSeries,
    points: Iterable[tuple[int | None, float | None]],
) -> list[tuple[Any, ...]]:
    group = tags(series.group_tags or [])
    of_service = inquiry.names.ours(group.pop("service", None))
    service = question.service or of_service
    labels = attributes({**(question.labels or {}), **group})
    rows: list[tuple[Any, ...]] = []
    for at, value in points:
        if at is not None and value is not None and math.isfinite(value):
            rows.append(
                (at, service, question.signal, value * question.scale, question.unit, labels)
            )
    return rows


def _seconds(at: datetime) -> int:
    return math.floor(at.timestamp())
