"""Metrics: the alerting monitor's own expression, and the golden signals of the services from their
trace metrics.

Trace metrics (docs.datadoghq.com, "Trace metrics"): `trace.<operation>.hits` and `.errors` are
counts, the distribution `trace.<operation>` is in seconds; which operations a service has is told
by the metrics that carry its tag.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import msgspec

from analysis.errors import ConnectorError
from analysis.vocabulary import AddedQuery, Window
from connectors.base import Item, Missing
from connectors.datadog.calls import ACTIVE_METRICS, QUERY, TIMESERIES
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry, DatadogPart
from connectors.datadog.monitor_queries import MetricMonitor, SearchMonitor, read_monitor
from connectors.datadog.values import attributes, metric_tag, nanoseconds, tags, text

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
_HITS = re.compile(r"trace\.([A-Za-z][\w.-]{0,180})\.hits")
_SERVED = re.compile(
    r"(?:\.request|\.server(?:\.request)?|_request|\.handler?|\.process|\.consume|\.invoke|\.job)$"
)
"""Operations by which a service is entered, by the tracers' naming."""

RESOURCES: tuple[tuple[str, str, str, str, float], ...] = (
    ("cpu_cores", "cores", "container.cpu.usage", "sum", 1e-9),
    ("cpu_cores", "cores", "kubernetes.cpu.usage.total", "sum", 1e-9),
    ("memory_bytes", "bytes", "container.memory.usage", "sum", 1.0),
    ("memory_bytes", "bytes", "kubernetes.memory.usage", "sum", 1.0),
    ("restarts", "1", "container.restarts", "sum", 1.0),
    ("restarts", "1", "kubernetes.containers.restarts", "sum", 1.0),
)
"""Signal, unit, metric, how series are joined, and the factor to the unit (CPU comes in nanocores:
integrations-core, kubelet/metadata.csv). The first metric of a signal that the service has is
asked."""


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
        return DatadogEvidence(
            missing=[Missing("metrics", query.query, f"{query.by}: is not a query of metrics")]
        )
    return await monitored(inquiry, MetricMonitor(measures.expression, query.signal), by=query.by)


async def monitored(
    inquiry: DatadogInquiry, monitor: MetricMonitor, *, by: str | None = None
) -> DatadogEvidence:
    """The monitor's own expression over all windows; `by` says who wants it, where that is not the
    monitor."""
    found, rows, count = DatadogEvidence(), [], 0
    for span in inquiry.spans_of_time:
        given = {
            "_from": _seconds(span.start),
            "to": _seconds(span.end),
            "query": monitor.expression,
        }
        answer = await inquiry.ask(QUERY, PointsAnswer, **given)
        if answer.status != "ok" or answer.error:
            problem = f"the query was not answered: {text(answer.error) or answer.status}"
            raise ConnectorError("datadog", QUERY.said, problem)
        count = max(count, len(answer.series))
        for series in answer.series[:MOST_SERIES]:
            rows += _monitored_rows(inquiry, monitor.signal, series)
    window, said = inquiry.whole, monitor.expression
    if not rows:
        whose = f"the query of {by}" if by else "the monitor's query"
        return DatadogEvidence(
            missing=[Missing("metrics", said, f"no series in these windows for {whose}")]
        )
    cut = f"{count - MOST_SERIES} of {count} series left out" if count > MOST_SERIES else None
    number, details = found.add("metrics", rows), {"asked_by": by} if by else {}
    link = inquiry.links.metrics(said, window)
    found.items.append(Item("metrics", said, window, link, rows=number, cut=cut, details=details))
    return found


def _monitored_rows(
    inquiry: DatadogInquiry, signal: str, series: _PointSeries
) -> list[tuple[Any, ...]]:
    labels = tags(series.tag_set or series.scope)
    service = inquiry.names.ours(labels.pop("service", None)) or next(iter(inquiry.services), None)
    first = next(iter(series.unit or []), None)
    unit = (
        text(first.get("short_name") or first.get("name")) or None
        if isinstance(first, dict)
        else None
    )
    said = attributes(labels)
    return [
        (ns, service, signal, value, unit, said)
        for t, value in series.pointlist
        if (ns := nanoseconds(t))
    ]


async def searched(inquiry: DatadogInquiry, monitor: SearchMonitor) -> DatadogEvidence:
    """What a log or span monitor counts, over all windows."""
    query: dict[str, Any] = {
        "data_source": monitor.source,
        "name": "q0",
        "compute": {
            "aggregation": monitor.aggregation,
            **({"metric": monitor.measure} if monitor.measure else {}),
        },
        "search": {"query": monitor.search},
        "group_by": [{"facet": facet, "limit": MOST_VALUES} for facet in monitor.by],
        **({"indexes": list(monitor.indexes)} if monitor.indexes else {}),
    }
    asked = DatadogQuestion(monitor.signal, None, "q0", {}, next(iter(inquiry.services), None))
    rows: list[tuple[Any, ...]] = []
    for span in inquiry.spans_of_time:
        answer = await inquiry.ask(
            TIMESERIES, DatadogLinesAnswer, body=_body(span, [query], ["q0"], MOST_POINTS)
        )
        rows += _lines(inquiry, answer, [asked])
    said = (
        f'{monitor.source}("{monitor.search}") {monitor.aggregation} '
        f"by {', '.join(monitor.by) or 'nothing'}"
    )
    if not rows:
        return DatadogEvidence(
            missing=[
                Missing(
                    "metrics", said, "nothing was counted in these windows for the monitor's search"
                )
            ]
        )
    found = DatadogEvidence()
    page = inquiry.links.logs if monitor.source == "logs" else inquiry.links.spans
    link = page(monitor.search, inquiry.whole)
    found.items.append(Item("metrics", said, inquiry.whole, link, rows=found.add("metrics", rows)))
    return found


async def golden(inquiry: DatadogInquiry, service: str, *, split: bool) -> DatadogEvidence:
    """Rate, errors, latency and resources of one service; where `split`, errors and latency also by
    tags."""
    tag = metric_tag("service", inquiry.names.of(service))
    start = _seconds(inquiry.whole.start)
    active = (
        await inquiry.ask(ACTIVE_METRICS, DatadogNamesAnswer, _from=start, tag_filter=tag)
    ).metrics
    scope = ",".join(filter(None, (tag, metric_tag("env", inquiry.env) if inquiry.env else "")))
    operations = _operations(active)
    asked = [
        (f"signals of {one}", _signals(service, one, scope, set(active))) for one in operations
    ]
    asked += [
        (f"{one} by tags", _split_signals(service, one, scope)) for one in operations[:1] if split
    ]
    asked += [("resources", some)] if (some := _resources(service, set(active), scope)) else []
    found = await inquiry.gathered(
        DatadogPart("metrics", f"{what}{{{scope}}}", partial(timeseries, inquiry, series))
        for what, series in asked
    )
    if not operations:
        found.missing.append(Missing("metrics", f"trace.*{{{scope}}}", _NOT_TRACED))
    return found


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
    base, labels = f"trace.{operation}", {"operation": operation}
    hits, errors = f"sum:{base}.hits{{{scope}}}", f"sum:{base}.errors{{{scope}}}"
    ratio = {"e": f"{errors}.as_count()", "h": f"{hits}.as_count()"}
    given: dict[str, Any] = {"service": service, "labels": labels}
    quiet, summed = (
        f"{base}.errors" not in active,
        base not in active and f"{base}.duration" in active,
    )
    mean = {"d": f"sum:{base}.duration{{{scope}}}.as_count()", "h": ratio["h"]}
    asked = [
        DatadogQuestion("request_rate", "1/s", "h", {"h": f"{hits}.as_rate()"}, **given),
        DatadogQuestion(
            "error_ratio", "ratio", "default_zero(e) / h", ratio, optional=quiet, **given
        ),
        DatadogQuestion(
            "latency_p50",
            "ms",
            "p",
            {"p": f"p50:{base}{{{scope}}}"},
            scale=1000,
            optional=summed,
            **given,
        ),
        DatadogQuestion(
            "latency_p99",
            "ms",
            "p",
            {"p": f"p99:{base}{{{scope}}}"},
            scale=1000,
            optional=summed,
            **given,
        ),
    ]
    return (
        [*asked, DatadogQuestion("latency_mean", "ms", "d / h", mean, scale=1000, **given)]
        if summed
        else asked
    )


def _split_signals(service: str, operation: str, scope: str) -> list[DatadogQuestion]:
    base, labels = f"trace.{operation}", {"operation": operation}
    given: dict[str, Any] = {"service": service, "labels": labels, "optional": True}
    asked = []
    for tag in SPLITS:
        by = f"{{{scope}}} by {{{tag}}}"
        ratio = {"e": f"sum:{base}.errors{by}.as_count()", "h": f"sum:{base}.hits{by}.as_count()"}
        top = f"{MOST_VALUES}, 'mean', 'desc'"
        asked.append(
            DatadogQuestion(
                "error_ratio", "ratio", f"top(default_zero(e) / h, {top})", ratio, **given
            )
        )
        slow = {"p": f"p99:{base}{by}"}
        asked.append(
            DatadogQuestion("latency_p99", "ms", f"top(p, {top})", slow, scale=1000, **given)
        )
    return asked


def _resources(service: str, active: set[str], scope: str) -> list[DatadogQuestion]:
    asked: dict[str, DatadogQuestion] = {}
    for signal, unit, metric, how, scale in RESOURCES:
        if metric in active:
            query = {"m": f"{how}:{metric}{{{scope}}}"}
            asked.setdefault(
                signal, DatadogQuestion(signal, unit, "m", query, service=service, scale=scale)
            )
    return list(asked.values())


async def timeseries(
    inquiry: DatadogInquiry,
    asked: Sequence[DatadogQuestion],
    windows: Sequence[Window] = (),
    points: int = MOST_POINTS,
) -> DatadogEvidence:
    """All series of one request over all windows. Where Datadog finds one wrong, they are asked one
    by one."""
    windows = windows or inquiry.spans_of_time
    try:
        return await _together(inquiry, asked, windows, points)
    except ConnectorError as error:
        if error.status not in (400, 422):
            raise
        if len(asked) == 1:
            return DatadogEvidence(missing=[Missing("metrics", asked[0].query, str(error))])
    return DatadogEvidence.of([await timeseries(inquiry, [one], windows, points) for one in asked])


async def _together(
    inquiry: DatadogInquiry,
    asked: Sequence[DatadogQuestion],
    windows: Sequence[Window],
    points: int,
) -> DatadogEvidence:
    queries, formulas = _named(asked)
    rows: list[list[tuple[Any, ...]]] = [[] for _ in asked]
    for span in windows:
        answer = await inquiry.ask(
            TIMESERIES, DatadogLinesAnswer, body=_body(span, queries, formulas, points)
        )
        for number, one in enumerate(asked):
            rows[number] += _lines(inquiry, answer, asked, only=one)
    found, window = DatadogEvidence(), inquiry.whole
    for one, some in zip(asked, rows, strict=True):
        link = inquiry.links.metrics(one.query, window)
        if some:
            found.items.append(
                Item("metrics", one.query, window, link, rows=found.add("metrics", some))
            )
        elif not one.optional:
            found.missing.append(Missing("metrics", one.query, "no series in these windows"))
    return found


def _named(asked: Sequence[DatadogQuestion]) -> tuple[list[dict[str, Any]], list[str]]:
    """The queries under names of their own, and the formulas that use these."""
    queries, formulas = [], []
    for number, one in enumerate(asked):
        new = {name: f"{name}{number}" for name in one.queries}
        queries += [
            {"data_source": "metrics", "name": new[name], "query": text}
            for name, text in one.queries.items()
        ]
        formula = one.formula
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
    asked: Sequence[DatadogQuestion],
    only: DatadogQuestion | None = None,
) -> list[tuple[Any, ...]]:
    """Rows of the answer's series; those of one formula where `only` is given."""
    if answer.errors:
        raise ConnectorError(
            "datadog", TIMESERIES.said, f"the query was not answered: {text(answer.errors)}"
        )
    lines, rows = answer.data.attributes, []
    times = [nanoseconds(t) for t in lines.times]
    kept = 0
    for series, values in zip(lines.series, lines.values, strict=False):
        one = asked[series.query_index] if 0 <= series.query_index < len(asked) else None
        if one is None or (only is not None and one is not only) or kept >= one.most:
            continue
        kept += 1
        group = tags(series.group_tags or [])
        service = one.service or inquiry.names.ours(group.get("service"))
        labels = attributes(
            {**(one.labels or {}), **{k: v for k, v in group.items() if k != "service"}}
        )
        for at, value in zip(times, values, strict=False):
            if at is not None and value is not None and math.isfinite(value):
                rows.append((at, service, one.signal, value * one.scale, one.unit, labels))
    return rows


def _seconds(at: datetime) -> int:
    return math.floor(at.timestamp())
