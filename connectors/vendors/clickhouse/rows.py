"""Rows of the case's tables from what ClickHouse answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import (
    EARLIEST_NS,
    SpanTableRow,
    attributes,
    ns_of,
)
from faultline.connectors.shared.rows.log_windows import (
    ERROR_LINES,
    FAILING,
    LINES,
    CountGrid,
    LinePage,
    Row,
)
from faultline.connectors.shared.rows.otlp_spans import (
    OF_RESOURCE,
    SPAN_ATTRIBUTES,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    hex_id,
)
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

MOST_FIELDS, DEEPEST = 1000, 12
Attributes = dict[str, Any] | None
REQUESTS, ERRORS = "request_rate", "error_ratio"


class LineCount(msgspec.Struct, array_like=True):
    """Lines of one level in a step."""

    step: float
    level: str
    count: float


class Golden(msgspec.Struct, array_like=True):
    """Requests of one service in a step."""

    service: str
    step: float
    count: float
    failed: float
    took_ms: list[float | None]


class Point(msgspec.Struct, array_like=True):
    """A metric of one service in a step."""

    service: str
    metric: str
    unit: str
    kind: str
    step: float
    value: float | None


Selected = list[Any]
"""A row whose attributes depend on the table."""
LINE_FIELDS, SPAN_FIELDS = 5, 11
"""How many columns come before the attributes of the line or the span itself."""


def line_page(records: Sequence[Selected], service: str) -> LinePage:
    """Rows of the table `logs`."""
    rows: list[Row] = []
    for record in records:
        at, body, level, trace, resource = (*record[:LINE_FIELDS], *[None] * LINE_FIELDS)[
            :LINE_FIELDS
        ]
        time = ns_of(at)
        if time is None or time < EARLIEST_NS or not isinstance(body, str) or not body:
            continue
        flat = _flat((resource, *record[LINE_FIELDS:]))
        # The row already has its service.
        flat.pop("service.name", None)
        shown = short(_text(level), 20) or None
        trace_id = hex_id(_text(trace)[:64], TRACE_ID_BYTES) or None
        rows.append((time, service, body, shown, trace_id, attributes(flat)))
    return LinePage(rows, len(records) - len(rows))


def count_rows(records: Sequence[LineCount], service: str, grid: CountGrid) -> list[Row]:
    """Lines per minute: of other levels and of errors. None counted is 0. Without levels
    there are no rows of errors, without lines there are no rows at all."""
    other_levels: list[tuple[int, float]] = []
    errors: list[tuple[int, float]] = []
    for record in records:
        counted = errors if record.level in FAILING else other_levels
        counted.append((int(record.step), record.count))
    if not records:
        return []
    rows = grid.rows(LINES, service, other_levels)
    if any(record.level for record in records):
        rows += grid.rows(ERROR_LINES, service, errors)
    return rows


def golden_rows(records: Iterable[Golden], names: ServiceNames, grid: CountGrid) -> list[Row]:
    """Rate, share of errors and latency. A step without requests has the rate 0 and no more."""
    counted: dict[str, list[tuple[int, float]]] = {}
    rows: list[Row] = []
    for record in records:
        service = names.ours(short(record.service, 200))
        step = int(record.step)
        if not service or not 0 <= step < grid.steps or record.count <= 0:
            continue
        # The grid's rows are per minute.
        counted.setdefault(service, []).append((step, record.count / 60))
        at = _begins(grid, step)
        rows.append((at, service, ERRORS, record.failed / record.count, "ratio", None))
        for quantile, value in zip(("50", "99"), record.took_ms, strict=False):
            if value is not None:
                rows.append((at, service, f"latency_p{quantile}", value, "ms", None))
    for service, steps in counted.items():
        for at, _, signal, rate, _, labels in grid.rows(REQUESTS, service, steps):
            rows.append((at, service, signal, rate, "1/s", labels))
    return rows


def metric_rows(records: Iterable[Point], names: ServiceNames, grid: CountGrid) -> list[Row]:
    """Metrics under their own names; of counters the growth per second."""
    rows: list[Row] = []
    for record in records:
        service, signal = names.ours(short(record.service, 200)), short(record.metric, 200)
        if not service or not signal or record.value is None or not 0 <= record.step < grid.steps:
            continue
        # Units as UCUM writes them: {request} is a note, 1 is none.
        unit = "" if record.unit.startswith("{") or record.unit == "1" else short(record.unit, 20)
        if record.kind != "gauge":
            unit = f"{unit or '1'}/s"
        at = _begins(grid, int(record.step))
        rows.append((at, service, signal, record.value, unit or None, None))
    return rows


def span_rows(records: Iterable[Selected], names: ServiceNames) -> tuple[list[SpanTableRow], int]:
    """Rows of the table `spans`, and how many were left out because they have no readable id or
    time."""
    rows: list[SpanTableRow] = []
    dropped = 0
    for record in records:
        row = _span(record, names) if len(record) > SPAN_FIELDS else None
        if row is None:
            dropped += 1
        else:
            rows.append(row)
    return rows, dropped


def _span(record: Selected, names: ServiceNames) -> SpanTableRow | None:
    at, trace, service, took, failed, resource, span, parent, name, kind, message = record[
        :SPAN_FIELDS
    ]
    start = ns_of(at)
    trace_id = hex_id(_text(trace)[:64], TRACE_ID_BYTES)
    span_id = hex_id(_text(span)[:32], SPAN_ID_BYTES)
    readable = isinstance(took, (int, float)) and took >= 0
    if start is None or start < EARLIEST_NS or not trace_id or not span_id or not readable:
        return None
    flat = _flat((resource, *record[SPAN_FIELDS:]))
    text: dict[str, Any] = {key: flat.get(key) for key in (*SPAN_ATTRIBUTES, *OF_RESOURCE)}
    text["span.kind"] = _text(kind).removeprefix("SPAN_KIND_").lower()
    text["status.message"] = _text(message)
    return SpanTableRow(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=hex_id(_text(parent)[:32], SPAN_ID_BYTES) or None,
        service=names.ours(short(_text(service), 200)) or "unknown",
        operation=short(_text(name), 200) or "unknown",
        start=start,
        duration_us=took * 1000,
        status="error" if failed else "ok",
        attributes=attributes(text),
    )


def _begins(grid: CountGrid, step: int) -> int:
    return (grid.start_s + step * grid.step_s) * 1_000_000_000


def _text(value: Any) -> str:
    # A FixedString is filled up with zeros.
    return value.rstrip("\0") if isinstance(value, str) else ""


def _flat(columns: Iterable[Any]) -> dict[str, Any]:
    """Attributes of several columns by their dotted names: of maps, or of JSON, which nests."""
    leaves: dict[str, Any] = {}
    for column in columns:
        leaves |= dict(_leaves("", column, 0))
    return leaves


def _leaves(path: str, value: Any, depth: int) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        if depth < DEEPEST:
            for name, inner in list(value.items())[:MOST_FIELDS]:
                yield from _leaves(f"{path}.{name}" if path else str(name), inner, depth + 1)
    elif path and isinstance(value, (str, int, float)):
        yield path, value
