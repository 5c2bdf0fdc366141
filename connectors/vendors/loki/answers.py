"""What Loki answers to a range query, and its lines as rows of the table `logs`.

Shapes: grafana.com/docs/loki/latest/reference/loki-http-api, as of 2026. With `categorize-labels` a
line's structured metadata is the third element of its value; without (Loki 2) it stands among the
stream's labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import (
    EARLIEST_NS,
    attributes,
    ns_of,
    trace_of,
)
from faultline.connectors.shared.rows.log_windows import FAILING, LONGEST_LINE, CountGrid
from faultline.connectors.shared.rows.otlp_spans import TRACE_ID_BYTES, hex_id
from faultline.connectors.shared.vendor_text import short

CATEGORIZED = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
"""Asks for structured metadata apart from labels (grafana/loki,
pkg/util/httpreq/encoding_flags.go)."""
LEVELS = ("detected_level", "level", "severity_text", "severity", "lvl", "log_level")
"""Labels and metadata that hold a line's level; Loki 3 fills the first itself."""
NON_ATTRIBUTES = frozenset({*LEVELS, "service_name", "__error__", "__error_details__"})

Row = tuple[Any, ...]


class LokiStream(msgspec.Struct):
    """Lines of one set of labels: time in ns as text, the line and, perhaps, what goes with it."""

    stream: dict[str, str] = {}
    values: list[list[Any]] = []


class Streams(msgspec.Struct):
    result: list[LokiStream]


class LokiLinesAnswer(msgspec.Struct):
    """The answer to a query for lines."""

    data: Streams


class Counted(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class LokiMatrix(msgspec.Struct):
    result: list[Counted]


class CountsAnswer(msgspec.Struct):
    """The answer to a query that counts."""

    data: LokiMatrix


class LokiNamesAnswer(msgspec.Struct):
    """Names of labels, or values of one; absent where there are none."""

    data: list[str] | None = None


def line_rows(streams: Iterable[LokiStream], service: str) -> tuple[list[Row], int]:
    """Lines as rows, oldest first, and how many were left out because they have no readable
    time."""
    rows, dropped = [], 0
    for stream in streams:
        for value in stream.values:
            row = _row(stream.stream, value, service)
            if row is None:
                dropped += 1
            else:
                rows.append(row)
    return sorted(rows, key=lambda row: row[0]), dropped


def _row(labels: Mapping[str, str], value: Sequence[Any], service: str) -> Row | None:
    at = ns_of(value[0]) if len(value) >= 2 else None
    if at is None or at < EARLIEST_NS or not isinstance(value[1], str):
        return None
    # A line's own metadata wins over the labels of its stream.
    fields: dict[str, Any] = {**labels, **_metadata(value[2] if len(value) > 2 else None)}
    text_by_name = {}
    for name, text in fields.items():
        if name not in NON_ATTRIBUTES and isinstance(text, str):
            text_by_name[name] = text
    line = value[1][:LONGEST_LINE]
    trace = hex_id(trace_of(fields)[:64], TRACE_ID_BYTES) or None
    return at, service, line, _level(fields), trace, attributes(text_by_name)


def _level(fields: Mapping[str, Any]) -> str | None:
    for name in LEVELS:
        text = fields.get(name)
        if isinstance(text, str) and text:
            level = text.lower()
            # Loki's own word for a line in which it found no level.
            return None if level == "unknown" else short(level, 20)
    return None


def _metadata(raw_metadata: Any) -> Mapping[str, Any]:
    if not isinstance(raw_metadata, dict):
        return {}
    values: dict[str, Any] = {}
    for part in (raw_metadata.get("parsed"), raw_metadata.get("structuredMetadata")):
        if isinstance(part, dict):
            values.update({str(name): value for name, value in part.items()})
    return values


def is_failing(metric: Mapping[str, str]) -> bool:
    """Whether counted lines are of a level that counts as an error."""
    return any(metric.get(name, "").lower() in FAILING for name in LEVELS)


def tells_level(metric: Mapping[str, str]) -> bool:
    """Whether the lines' level is known."""
    return any(metric.get(name, "").lower() not in ("", "unknown") for name in LEVELS)


def count_rows(
    counted: Iterable[Counted], service: str, grid: CountGrid, signals: tuple[str, str]
) -> list[Row]:
    """Lines per minute in each step, by the moment it begins: of other levels and of errors. None
    counted is 0."""
    ordinary: list[tuple[int, float]] = []
    errors: list[tuple[int, float]] = []
    for line_series in counted:
        points = errors if is_failing(line_series.metric) else ordinary
        for at, text in line_series.values:
            # Loki writes numbers as text; float() would also take `nan` and `inf`.
            if text.isascii() and text.replace(".", "", 1).isdigit():
                # The step whose count stands at this moment; -1 is none.
                step = round((at - grid.start_s) / grid.step_s) - 1 if math.isfinite(at) else -1
                points.append((step, float(text[:20])))
    return [*grid.rows(signals[0], service, ordinary), *grid.rows(signals[1], service, errors)]


def range_of(grid: CountGrid) -> list[tuple[str, str]]:
    """For a range query: the count at a moment is of the step that ends there. Loki aligns queries
    to multiples of the step (align_queries_with_step)."""
    first, last = grid.start_s + grid.step_s, grid.start_s + grid.steps * grid.step_s
    return [("start", str(first)), ("end", str(max(first, last))), ("step", f"{grid.step_s}s")]
