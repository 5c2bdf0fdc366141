"""What VictoriaLogs answers: its lines as rows of the table `logs`, its counts as `metrics`.

Shapes: docs.victoriametrics.com/victorialogs/querying, as of 2026. Every value of a line is text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import (
    EARLIEST_NS,
    attributes,
    time_of,
    trace_of,
)
from faultline.connectors.shared.rows.log_windows import (
    ERROR_LINES,
    FAILING,
    LINES,
    LONGEST_LINE,
    CountGrid,
    LinePage,
    Row,
)
from faultline.connectors.shared.rows.otlp_spans import TRACE_ID_BYTES, hex_id
from faultline.connectors.shared.vendor_text import first_of, short

INTERNAL = frozenset({"_time", "_msg", "_stream", "_stream_id"})


class Value(msgspec.Struct):
    """The name of a field, or a value of one."""

    value: str


class ValuesAnswer(msgspec.Struct):
    """Names of fields, or values of one."""

    values: list[Value]


class HitsSeries(msgspec.Struct):
    """Lines counted in steps, of one combination of the fields asked for."""

    timestamps: list[str]
    values: list[int]
    fields: dict[str, str] = {}


class HitsAnswer(msgspec.Struct):
    """Lines counted in steps."""

    hits: list[HitsSeries]


def line_page(answer: bytes, service_fields: Sequence[str], levels: Sequence[str]) -> LinePage:
    """JSON lines as rows, oldest first, without a service. `service_fields` are fields that name
    one, which are not kept as attributes. Raises msgspec.DecodeError, RecursionError,
    UnicodeDecodeError."""
    rows: list[Row] = []
    left_out = 0
    for line in msgspec.json.Decoder(dict[str, str]).decode_lines(answer):
        row = _row(line, service_fields, levels)
        if row is None:
            left_out += 1
        else:
            rows.append(row)
    return LinePage(sorted(rows, key=lambda row: row[0]), left_out)


def _row(
    line: Mapping[str, str], service_fields: Sequence[str], levels: Sequence[str]
) -> Row | None:
    at, text = time_of(line.get("_time")), line.get("_msg")
    if at is None or at < EARLIEST_NS or not text:
        return None
    level = first_of(line, levels)
    trace = hex_id(trace_of(line)[:64], TRACE_ID_BYTES) or None
    # These become columns of the row.
    internal = INTERNAL.union(service_fields, levels)
    values: dict[str, Any] = {name: value for name, value in line.items() if name not in internal}
    shown = short(level.lower(), 20) if level else None
    return at, "", text[:LONGEST_LINE], shown, trace, attributes(values)


def count_rows(
    hits: Iterable[HitsSeries], service: str, grid: CountGrid, levels: Sequence[str]
) -> list[Row]:
    """Lines per minute in each step, by the moment it begins: of other levels and of errors. None
    counted is 0. Where no line has a level nothing is said of errors."""
    ordinary: list[tuple[int, float]] = []
    errors: list[tuple[int, float]] = []
    tells = False
    for hit in hits:
        level = first_of(hit.fields, levels) or ""
        tells = tells or bool(level)
        points = errors if level.lower() in FAILING else ordinary
        for text, count in zip(hit.timestamps, hit.values, strict=False):
            at = time_of(text)
            if at is not None:
                # Times are in ns, the grid counts in seconds.
                points.append(((at // 1_000_000_000 - grid.start_s) // grid.step_s, float(count)))
    rows = grid.rows(LINES, service, ordinary)
    return [*rows, *grid.rows(ERROR_LINES, service, errors)] if tells else rows
