"""Which tables are there, and in which columns they hold what is asked for.

Two writers are known, by the columns of their tables and not by their names: the OpenTelemetry
collector's exporter (open-telemetry/opentelemetry-collector-contrib,
exporter/clickhouseexporter/internal/sqltemplates, with attributes in maps or in JSON) and SigNoz
(SigNoz/signoz-otel-collector, cmd/signozschemamigrator).

Names and values stand in the SQL as clickhouse.com/docs/sql-reference/syntax has them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

Part = Literal["logs", "spans", "gauge", "sum", "samples", "series"]

TABLES: Mapping[Part, tuple[str, ...]] = {
    "logs": ("otel_logs", "distributed_logs_v2"),
    "spans": ("otel_traces", "distributed_signoz_index_v3"),
    "gauge": ("otel_metrics_gauge",),
    "sum": ("otel_metrics_sum",),
    "samples": ("distributed_samples_v4",),
    "series": ("distributed_time_series_v4",),
}
"""What the writers call their tables, of which the first that is there is read."""
_LEVELS = ((21, "fatal"), (17, "error"), (13, "warn"), (9, "info"), (5, "debug"), (1, "trace"))
"""From which severity number on a level holds (opentelemetry.io, "Logs Data Model")."""
_BUCKET_S = 1800
"""SigNoz puts rows in buckets of half an hour, by which its tables are ordered."""

LONGEST = 200
"""Characters of a name or a value."""


def literal(text: str) -> str:
    """A string."""
    return f"'{_escaped(text, chr(39))}'"


def identifier(name: str) -> str:
    """The name of a database, a table or a column."""
    return f"`{_escaped(name, '`')}`"


def in_list(expression: str, values: Iterable[str]) -> str:
    """A condition: the expression is one of these strings."""
    return f"{expression} IN ({', '.join(literal(value) for value in values)})"


def _escaped(text: str, quote: str) -> str:
    printable = "".join(c if c.isprintable() else " " for c in text[:LONGEST])
    return printable.replace("\\", "\\\\").replace(quote, f"\\{quote}")


class Column(msgspec.Struct, array_like=True):
    """A row of `system.columns`."""

    database: str
    table: str
    name: str
    type: str


@dataclass(frozen=True)
class Layout:
    """The SQL for what a table holds. `time` is ns since 1970; `between` has {start} and {end} in
    ns, {start_s} and {end_s} in s; `columns` are the others that are selected, in order."""

    needs: frozenset[str]
    time: str
    order: str
    between: str
    service: str
    resource: str
    columns: tuple[str, ...] = ()
    level: str = ""
    body: str = ""
    trace: str = ""
    is_server: str = ""
    failed: str = ""
    duration_ms: str = ""


def _level(text: str, number: str) -> str:
    """A line's level in small letters: as its sender wrote it, else by its number, else empty."""
    steps = ", ".join(f"{number} >= {least}, '{name}'" for least, name in _LEVELS)
    return f"multiIf({text} != '', lower({text}), {steps}, '')"


_OTEL_BETWEEN = (
    "Timestamp >= fromUnixTimestamp64Nano({start}) AND Timestamp < fromUnixTimestamp64Nano({end})"
)
# The bucket of a row begins up to half an hour before it.
_SIGNOZ_BUCKETS = (
    f"ts_bucket_start >= {{start_s}} - {_BUCKET_S} AND ts_bucket_start <= {{end_s}} AND "
)
_SIGNOZ_ATTRIBUTES = ("attributes_string", "attributes_number", "attributes_bool")

OTEL_LOGS = Layout(
    needs=frozenset({"Timestamp", "ServiceName", "Body", "SeverityText", "LogAttributes"}),
    time="toUnixTimestamp64Nano(Timestamp)",
    order="Timestamp",
    between=_OTEL_BETWEEN,
    service="ServiceName",
    resource="ResourceAttributes",
    columns=("LogAttributes",),
    level=_level("SeverityText", "SeverityNumber"),
    body="Body",
    trace="TraceId",
)
SIGNOZ_LOGS = Layout(
    needs=frozenset({"timestamp", "ts_bucket_start", "body", "severity_text", "resources_string"}),
    time="timestamp",
    order="timestamp",
    between=_SIGNOZ_BUCKETS + "timestamp >= {start} AND timestamp < {end}",
    service="resources_string['service.name']",
    resource="resources_string",
    columns=_SIGNOZ_ATTRIBUTES,
    level=_level("severity_text", "severity_number"),
    body="body",
    trace="trace_id",
)
OTEL_SPANS = Layout(
    needs=frozenset({"Timestamp", "TraceId", "SpanId", "ServiceName", "SpanName", "Duration"}),
    time="toUnixTimestamp64Nano(Timestamp)",
    order="Timestamp",
    between=_OTEL_BETWEEN,
    service="ServiceName",
    resource="ResourceAttributes",
    columns=(
        "SpanId",
        "ParentSpanId",
        "SpanName",
        "SpanKind",
        "StatusMessage",
        "SpanAttributes",
    ),
    trace="TraceId",
    is_server="SpanKind IN ('Server', 'SPAN_KIND_SERVER')",
    failed="StatusCode IN ('Error', 'STATUS_CODE_ERROR')",
    duration_ms="Duration / 1e6",
)
SIGNOZ_SPANS = Layout(
    needs=frozenset({"timestamp", "ts_bucket_start", "trace_id", "span_id", "duration_nano"}),
    time="toUnixTimestamp64Nano(timestamp)",
    order="timestamp",
    between=_SIGNOZ_BUCKETS + "timestamp >= fromUnixTimestamp64Nano({start}) "
    "AND timestamp < fromUnixTimestamp64Nano({end})",
    # SigNoz keeps this attribute in a column, where `$$` stands for the dot.
    service="`resource_string_service$$name`",
    resource="resources_string",
    columns=(
        "span_id",
        "parent_span_id",
        "name",
        "kind_string",
        "status_message",
        *_SIGNOZ_ATTRIBUTES,
    ),
    trace="trace_id",
    is_server="kind_string = 'Server'",
    failed="has_error",
    duration_ms="duration_nano / 1e6",
)
LAYOUTS: Mapping[Part, tuple[Layout, ...]] = {
    "logs": (OTEL_LOGS, SIGNOZ_LOGS),
    "spans": (OTEL_SPANS, SIGNOZ_SPANS),
}
METRIC_COLUMNS: Mapping[Part, frozenset[str]] = {
    "sum": frozenset({"MetricName", "Value", "IsMonotonic", "AggregationTemporality"}),
    "gauge": frozenset({"MetricName", "Value", "TimeUnix"}),
    "samples": frozenset({"metric_name", "fingerprint", "unix_milli", "value"}),
    "series": frozenset({"metric_name", "fingerprint", "unix_milli", "labels", "is_monotonic"}),
}


@dataclass(frozen=True)
class SourceTable:
    """A table: its database, name, and the types of its columns."""

    database: str
    name: str
    types: Mapping[str, str]

    @property
    def sql(self) -> str:
        """As it stands in SQL."""
        return f"{identifier(self.database)}.{identifier(self.name)}"

    def attribute(self, column: str, name: str) -> str:
        """SQL for one attribute of a column that holds attributes, as text; empty without it."""
        kind = self.types.get(column, "")
        if kind.startswith("JSON"):
            return f"ifNull(toString({identifier(column)}.{identifier(name)}), '')"
        if kind == "String":
            return f"JSONExtractString({identifier(column)}, {literal(name)})"
        return f"{identifier(column)}[{literal(name)}]"

    def layout(self, part: Part) -> Layout | None:
        """Its layout as a table of log lines or spans; None as one of metrics."""
        layouts = LAYOUTS.get(part, ())
        return next((layout for layout in layouts if layout.needs <= self.types.keys()), None)


@dataclass(frozen=True)
class Tables:
    """The tables that can be read, by what they hold."""

    by_part: Mapping[Part, SourceTable]

    @property
    def logs(self) -> tuple[SourceTable, Layout] | None:
        """The table of log lines."""
        return self._with_layout("logs")

    @property
    def spans(self) -> tuple[SourceTable, Layout] | None:
        """The table of spans."""
        return self._with_layout("spans")

    def _with_layout(self, part: Part) -> tuple[SourceTable, Layout] | None:
        table = self.by_part.get(part)
        layout = table.layout(part) if table is not None else None
        return (table, layout) if table is not None and layout is not None else None


def tables_of(columns: Iterable[Column], table_names: Mapping[Part, Sequence[str]]) -> Tables:
    """The first of the wanted names that is a table with the columns of a known writer."""
    columns_by_table: dict[tuple[str, str], dict[str, str]] = {}
    for column in columns:
        columns_by_table.setdefault((column.table, column.database), {})[column.name] = column.type
    by_part: dict[Part, SourceTable] = {}
    for part, names in table_names.items():
        for name in names:
            # Sort, so that of two databases every run reads the same one.
            for table, database in sorted(columns_by_table):
                types = columns_by_table[table, database]
                if table == name and part not in by_part and _holds(part, types):
                    by_part[part] = SourceTable(database, table, types)
    return Tables(by_part)


def _holds(part: Part, types: Mapping[str, str]) -> bool:
    if part in LAYOUTS:
        return any(layout.needs <= types.keys() for layout in LAYOUTS[part])
    # A table of sums has the columns of a gauge as well.
    if part == "gauge" and "IsMonotonic" in types:
        return False
    return METRIC_COLUMNS[part] <= types.keys()
