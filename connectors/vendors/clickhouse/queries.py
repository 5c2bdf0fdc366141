"""The SQL that is sent. All of it only reads, and values stand in it as literals."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.kinds.place_names import PLACE_LABELS
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import nanoseconds
from faultline.connectors.shared.rows.log_windows import BAD_WORDS, FAILING, LONGEST_LINE, CountGrid
from faultline.connectors.vendors.clickhouse.layouts import (
    Layout,
    Part,
    SourceTable,
    in_list,
    literal,
)

MOST_TRACES, MOST_SPANS = 30, 2000
MOST_POINTS = 50_000
"""Rows of one answer of metrics: 60 metrics of five services for two and a half hours."""
NAMESPACES = ("k8s.namespace.name", "service.namespace")
"""Resource attributes of OpenTelemetry's semantic conventions. The first that is there tells."""


@dataclass(frozen=True)
class Bounds:
    """Where rows may come from: environment, cluster and region by kind, and the alert's namespace
    for the services that have rows there, by their names."""

    place: Mapping[str, str]
    namespace: str = ""
    within: Sequence[str] = ()


def columns(names: Iterable[str], database: str | None) -> str:
    """Which of the tables there are, with their columns; only those that the user may read."""
    where = in_list("table", names)
    if database is not None:
        where += f" AND database = {literal(database)}"
    return f"SELECT database, table, name, type FROM system.columns WHERE {where} LIMIT 5000"


def during(layout: Layout, start_ns: int, end_ns: int) -> str:
    """The condition of a window."""
    return layout.between.format(
        start=start_ns,
        end=end_ns,
        start_s=start_ns // 1_000_000_000,
        # Round up, so that the last second is inside.
        end_s=-(-end_ns // 1_000_000_000),
    )


def of_window(layout: Layout, window: Window) -> str:
    """The same, of a whole window."""
    return during(layout, nanoseconds(window.start), nanoseconds(window.end))


def at_place(table: SourceTable, column: str, service: str, bounds: Bounds) -> str:
    """The condition that a row names no other environment, cluster, region or namespace; empty
    without any. `service` is the SQL for the service."""
    conditions = ""
    for kind, value in bounds.place.items():
        names = [name for name in PLACE_LABELS[kind] if "." in name]
        conditions += f" AND {_first_of(table, column, names, value)} = {literal(value)}"
    if bounds.within:
        # A row without a namespace may come from this one.
        there = _first_of(table, column, NAMESPACES, bounds.namespace)
        is_there = f"{there} = {literal(bounds.namespace)}"
        conditions += f" AND ({is_there} OR NOT {in_list(service, bounds.within)})"
    return conditions


def _first_of(table: SourceTable, column: str, names: Sequence[str], default: str) -> str:
    """SQL for the first of these attributes that a row has."""
    every = list(names)
    if table.types.get(column) == "String":
        # SigNoz writes the labels of series with dots or with underscores.
        every += [name.replace(".", "_") for name in names]
    text = ", ".join(f"nullIf({table.attribute(column, name)}, '')" for name in every)
    return f"coalesce({text}, {literal(default)})"


def rows_of(table: SourceTable, layout: Layout, names: Sequence[str], bounds: Bounds) -> str:
    """The condition of a service, in a place where the alert names one."""
    in_place = at_place(table, layout.resource, layout.service, bounds)
    return in_list(layout.service, names) + in_place


def services_within(
    part: Part, table: SourceTable, names: Sequence[str], bounds: Bounds, window: Window
) -> str:
    """The services that have rows in the namespace."""
    start, end = nanoseconds(window.start), nanoseconds(window.end)
    layout = table.layout(part)
    if layout is not None:
        service, column, during_window = layout.service, layout.resource, of_window(layout, window)
    elif part == "series":
        service, column = _series_service(table), "labels"
        during_window = _of_series(start // 1_000_000, end // 1_000_000)
    else:
        service, column, during_window = "ServiceName", "ResourceAttributes", _of_points(start, end)
    there = _first_of(table, column, NAMESPACES, "")
    return (
        f"SELECT DISTINCT toString({service}) FROM {table.sql} WHERE {during_window} "
        f"AND {in_list(service, names)}{at_place(table, column, service, bounds)} "
        f"AND {there} = {literal(bounds.namespace)} LIMIT 1000"
    )


def failing(layout: Layout) -> str:
    """Which lines are errors: by their level, without one by what they say."""
    levels = in_list(layout.level, sorted(FAILING))
    return f"({levels} OR ({layout.level} = '' AND {saying(layout, BAD_WORDS)}))"


def saying(layout: Layout, words: Sequence[str]) -> str:
    """Which lines say one of the words, in any case."""
    listed = ", ".join(literal(word.lower()) for word in words)
    return f"multiSearchAny(lower({layout.body}), [{listed}])"


def lines(table: SourceTable, layout: Layout, where: str, window: Window, limit: int) -> str:
    """The first lines of a window."""
    selected = (
        f"toString({layout.time})",
        f"substringUTF8({layout.body}, 1, {LONGEST_LINE})",
        layout.level,
        f"toString({layout.trace})",
        layout.resource,
        *layout.columns,
    )
    return (
        f"SELECT {', '.join(selected)} FROM {table.sql} WHERE {of_window(layout, window)} "
        f"AND {where} ORDER BY {layout.order} LIMIT {limit}"
    )


def _step(layout: Layout, grid: CountGrid) -> str:
    """The number of a row's step."""
    start_ns, step_ns = grid.start_s * 1_000_000_000, grid.step_s * 1_000_000_000
    return f"toFloat64(intDiv(toInt64({layout.time}) - {start_ns}, {step_ns}))"


def _of_grid(layout: Layout, grid: CountGrid) -> str:
    end_s = grid.start_s + grid.steps * grid.step_s
    return during(layout, grid.start_s * 1_000_000_000, end_s * 1_000_000_000)


def line_counts(table: SourceTable, layout: Layout, where: str, grid: CountGrid) -> str:
    """Lines by step and level."""
    return (
        f"SELECT {_step(layout, grid)} AS step, {layout.level} AS level, toFloat64(count()) "
        f"FROM {table.sql} WHERE {_of_grid(layout, grid)} AND {where} "
        "GROUP BY step, level ORDER BY step LIMIT 20000"
    )


def golden(table: SourceTable, layout: Layout, where: str, grid: CountGrid) -> str:
    """Requests by service and step, how many failed, and how long they took in ms."""
    took = f"quantiles(0.5, 0.99)({layout.duration_ms})"
    return (
        f"SELECT toString({layout.service}) AS service, {_step(layout, grid)} AS step, "
        f"toFloat64(count()), toFloat64(countIf({layout.failed})), {took} "
        f"FROM {table.sql} WHERE {_of_grid(layout, grid)} AND {layout.is_server} AND {where} "
        "GROUP BY service, step ORDER BY service, step LIMIT 20000"
    )


def trace_ids(table: SourceTable, layout: Layout, where: str, window: Window) -> str:
    """Traces that a service is part of, as a hash of their ids draws them."""
    return (
        f"SELECT toString({layout.trace}) AS trace FROM {table.sql} "
        f"WHERE {of_window(layout, window)} AND {where} "
        f"GROUP BY trace ORDER BY cityHash64(trace) LIMIT {MOST_TRACES}"
    )


def spans(table: SourceTable, layout: Layout, ids: Sequence[str], window: Window) -> str:
    """All spans of these traces."""
    selected = (
        f"toString({layout.time})",
        f"toString({layout.trace})",
        f"toString({layout.service})",
        f"{layout.duration_ms}",
        f"toUInt8({layout.failed})",
        layout.resource,
        *layout.columns,
    )
    return (
        f"SELECT {', '.join(selected)} FROM {table.sql} WHERE {of_window(layout, window)} "
        f"AND {in_list(layout.trace, ids)} ORDER BY {layout.order} LIMIT {MOST_SPANS}"
    )


def _of_points(start_ns: int, end_ns: int) -> str:
    return (
        f"TimeUnix >= fromUnixTimestamp64Nano({start_ns}) AND "
        f"TimeUnix < fromUnixTimestamp64Nano({end_ns})"
    )


def _of_series(start_ms: int, end_ms: int) -> str:
    # Series are listed once an hour, so begin at the full hour.
    return f"unix_milli >= {start_ms - start_ms % 3_600_000} AND unix_milli < {end_ms}"


def _series_service(series: SourceTable) -> str:
    named = [series.attribute("labels", name) for name in ("service.name", "service_name")]
    return f"coalesce(nullIf({named[0]}, ''), {named[1]})"


def otel_points(table: SourceTable, names: Sequence[str], bounds: Bounds, window: Window) -> str:
    """Points of a table of gauges or of sums."""
    kind = "'gauge'"
    if "IsMonotonic" in table.types:
        # 1 is delta, 2 is cumulative: opentelemetry/proto/metrics/v1.
        changes = "if(AggregationTemporality = 1, 'delta', 'cumulative')"
        kind = f"if(IsMonotonic, {changes}, 'gauge')"
    start, end = nanoseconds(window.start), nanoseconds(window.end)
    return (
        "SELECT toString(ServiceName) AS service, toString(MetricName) AS metric, "
        "toString(MetricUnit) AS unit, cityHash64(toJSONString(ResourceAttributes), "
        f"toJSONString(Attributes)) AS series, {kind} AS kind, "
        f"toUnixTimestamp(TimeUnix) AS at_s, Value AS value FROM {table.sql} WHERE "
        f"{_of_points(start, end)} AND {in_list('ServiceName', names)}"
        f"{at_place(table, 'ResourceAttributes', 'ServiceName', bounds)}"
    )


def signoz_points(
    samples: SourceTable,
    series: SourceTable,
    names: Sequence[str],
    bounds: Bounds,
    window: Window,
) -> str:
    """Points of SigNoz's samples, whose series are in a table with a row an hour."""
    start, end = nanoseconds(window.start) // 1_000_000, nanoseconds(window.end) // 1_000_000
    service = _series_service(series)
    kind = "multiIf(not is_monotonic, 'gauge', temporality = 'Delta', 'delta', 'cumulative')"
    described = (
        f"SELECT fingerprint, any({service}) AS service, any(unit) AS units, any({kind}) AS kind "
        f"FROM {series.sql} WHERE type IN ('Gauge', 'Sum') AND {_of_series(start, end)} AND "
        f"{in_list(service, names)}{at_place(series, 'labels', service, bounds)} "
        "GROUP BY fingerprint"
    )
    return (
        "SELECT d.service AS service, toString(s.metric_name) AS metric, "
        "toString(d.units) AS unit, s.fingerprint AS series, d.kind AS kind, "
        "intDiv(s.unix_milli, 1000) AS at_s, s.value AS value "
        f"FROM {samples.sql} AS s INNER JOIN ({described}) AS d "
        f"ON s.fingerprint = d.fingerprint WHERE s.unix_milli >= {start} AND s.unix_milli < {end}"
    )


def metrics(points: str, grid: CountGrid) -> str:
    """Points as series by service and metric: the mean of gauges, the growth of counters per
    second."""
    step = f"toFloat64(intDiv(toInt64(at_s) - {grid.start_s}, {grid.step_s}))"
    window = "OVER (PARTITION BY service, metric, series ORDER BY step)"
    per_series = (
        f"SELECT service, metric, unit, series, kind, {step} AS step, avg(value) AS mean, "
        f"sum(value) AS total, max(value) AS top FROM ({points}) "
        "GROUP BY service, metric, unit, series, kind, step"
    )
    grown = (
        f"SELECT *, top - lagInFrame(top) {window} AS more, row_number() {window} AS nth "
        f"FROM ({per_series})"
    )
    # A counter that is smaller than before was set back to 0.
    rise = f"sumIf(if(more < 0, top, more), nth > 1) / {grid.step_s}"
    value = (
        f"multiIf(kind = 'gauge', avg(mean), kind = 'delta', sum(total) / {grid.step_s}, {rise})"
    )
    return (
        f"SELECT service, metric, unit, kind, step, {value} FROM ({grown}) "
        "GROUP BY service, metric, unit, kind, step "
        "HAVING kind != 'cumulative' OR countIf(nth > 1) > 0 "
        f"ORDER BY service, metric, step LIMIT {MOST_POINTS}"
    )


def link(base: str, text: str) -> str:
    """The query in the server's own page: programs/server/play.html reads it from the fragment."""
    return f"{base}/play#{base64.b64encode(text.encode()).decode()}"


def rows_in(table: SourceTable) -> str:
    """Whether a table can be read."""
    return f"SELECT 1 FROM {table.sql} LIMIT 1"
