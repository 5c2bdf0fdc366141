"""Rows of the case's tables from what Splunk's searches answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from faultline.connectors.shared.rows.collection_builder import attributes, time_of, trace_of
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
from faultline.connectors.shared.vendor_text import short

MESSAGES = ("message", "msg", "body", "log", "_raw")
"""Fields that hold the text of a line; `_raw` is the line as it came."""

Record = Mapping[str, Any]


def line_page(records: Sequence[Record], service: str, level_fields: Sequence[str]) -> LinePage:
    """Rows of the table `logs`."""
    rows: list[Row] = []
    for record in records:
        at, text = time_of(record.get("_time")), _first(record, MESSAGES)
        if at is None or not text:
            continue
        level = short(_first(record, level_fields).lower(), 20) or None
        trace = hex_id(trace_of(record)[:64], TRACE_ID_BYTES) or None
        messages = {*MESSAGES, *level_fields}
        values_by_name = {}
        for name, value in record.items():
            # Splunk's own fields begin with an underscore, and fields of several values are lists.
            if not name.startswith("_") and name not in messages and isinstance(value, str):
                values_by_name[name] = value
        rows.append((at, service, text[:LONGEST_LINE], level, trace, attributes(values_by_name)))
    return LinePage(rows, len(records) - len(rows))


def count_rows(records: Iterable[Record], service: str, grid: CountGrid) -> tuple[list[Row], bool]:
    """Lines per minute in each step, and whether any line has a level. Without levels nothing is
    said of errors, without lines nothing at all."""
    counted: dict[str, list[tuple[int, float]]] = {LINES: [], ERROR_LINES: []}
    has_level = False
    for record in records:
        at, count = time_of(record.get("_time")), _count(record.get("count"))
        if at is None or count is None:
            continue
        level = _first(record, ("faultline_level",))
        has_level |= bool(level)
        step = (at // 1_000_000_000 - grid.start_s) // grid.step_s
        counted[ERROR_LINES if level in FAILING else LINES].append((step, count))
    rows: list[Row] = []
    for signal, steps in counted.items():
        # Where levels are known, a level without lines is a real 0.
        if steps or (has_level and any(counted.values())):
            rows += grid.rows(signal, service, steps)
    return rows, has_level


def _first(record: Record, names: Iterable[str]) -> str:
    for name in names:
        value = record.get(name)
        if isinstance(value, list):
            value = value[0] if value else None
        if isinstance(value, str) and value:
            return value
    return ""


def _count(value: Any) -> float | None:
    text = str(value)
    return float(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
