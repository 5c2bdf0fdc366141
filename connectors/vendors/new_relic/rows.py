"""Rows of the case's tables from what NRQL answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
    LONGEST_LINE,
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
from faultline.connectors.vendors.new_relic.queries import LEVELS

MS = 1_000_000
"""Times are in ms since 1970."""
_LINE_FIELDS = ("timestamp", "message", "newrelic.source", "trace.id", *LEVELS)

Record = Mapping[str, Any]


def golden_rows(records: Iterable[Record], names: ServiceNames, to_ms: float) -> list[Row]:
    """Rate, share of errors and latency; `to_ms` is how many ms a unit of the duration is."""
    rows: list[Row] = []
    for record in records:
        at = ns_of(record.get("beginTimeSeconds"), 1_000_000_000)
        service = names.ours(short(_text(record.get("facet")), 200))
        rate = _number(record.get("rate"))
        if at is None or not service or rate is None:
            continue
        rows.append((at, service, "request_rate", rate, "1/s", None))
        failed = _number(record.get("failed"))
        # Without requests there is no share of them, and percentage() counts to 100.
        if rate > 0 and failed is not None:
            rows.append((at, service, "error_ratio", failed / 100, "ratio", None))
        took = record.get("took")
        if rate == 0 or not isinstance(took, dict):
            continue
        for quantile in ("50", "99"):
            value = _number(took.get(quantile))
            if value is not None:
                rows.append((at, service, f"latency_p{quantile}", value * to_ms, "ms", None))
    return rows


def count_rows(records: Iterable[Record], service: str, grid: CountGrid) -> list[Row]:
    """Lines per minute: of other levels and of errors. None counted is 0; without any line
    nothing is said."""
    counted: dict[str, list[tuple[int, float]]] = {LINES: [], ERROR_LINES: []}
    total = 0.0
    for record in records:
        at, count = record.get("beginTimeSeconds"), _number(record.get("lines"))
        if not isinstance(at, int) or count is None:
            continue
        total += count
        is_error = _text(record.get("facet")).lower() in FAILING
        step = (at - grid.start_s) // grid.step_s
        counted[ERROR_LINES if is_error else LINES].append((step, count))
    rows: list[Row] = []
    for signal, steps in counted.items() if total else ():
        rows += grid.rows(signal, service, steps)
    return rows


def line_page(records: Sequence[Record], service: str) -> LinePage:
    """Rows of the table `logs`."""
    rows: list[Row] = []
    for record in records:
        at, message = _time(record), _text(record.get("message"))
        if at is None or not message:
            continue
        level = next((_text(record.get(name)) for name in LEVELS if record.get(name)), "").lower()
        trace = hex_id(_text(record.get("trace.id"))[:64], TRACE_ID_BYTES) or None
        values = {name: value for name, value in record.items() if name not in _LINE_FIELDS}
        shown = short(level, 20) or None
        rows.append((at, service, message[:LONGEST_LINE], shown, trace, attributes(values)))
    return LinePage(rows, len(records) - len(rows))


def span_rows(records: Iterable[Record], names: ServiceNames) -> tuple[list[SpanTableRow], int]:
    """Rows of the table `spans`, and how many were left out because they have no readable id or
    time."""
    rows: list[SpanTableRow] = []
    dropped = 0
    for record in records:
        at, took = _time(record), _duration_ms(record)
        trace_id = hex_id(_first_text(record, "trace.id", "traceId")[:64], TRACE_ID_BYTES)
        span_id = hex_id(_first_text(record, "id", "guid")[:32], SPAN_ID_BYTES)
        if at is None or took is None or not trace_id or not span_id:
            dropped += 1
            continue
        parent = _first_text(record, "parent.id", "parentId")[:32]
        app_name = _first_text(record, "service.name", "appName", "entity.name")
        fields: dict[str, Any] = {
            name: record.get(name) for name in (*SPAN_ATTRIBUTES, *OF_RESOURCE)
        }
        fields["span.kind"] = record.get("span.kind")
        # Agents set `error`, OpenTelemetry the status.
        failed = record.get("error") is True or _text(record.get("otel.status_code")) == "ERROR"
        row = SpanTableRow(
            trace_id=trace_id,
            span_id=span_id,
            parent_id=hex_id(parent, SPAN_ID_BYTES) or None,
            service=names.ours(short(app_name, 200)) or "unknown",
            operation=short(_text(record.get("name")), 200) or "unknown",
            start=at,
            duration_us=took * 1000,
            status="error" if failed or record.get("error.class") else "ok",
            attributes=attributes(fields),
        )
        rows.append(row)
    return rows, dropped


def change_rows(records: Iterable[Record], names: ServiceNames, link: str) -> list[Row]:
    """Rows of the table `changes`."""
    rows: list[Row] = []
    for record in records:
        at = _time(record)
        if at is None:
            continue
        version, commit = _text(record.get("version")), _text(record.get("commit"))
        category = _text(record.get("category")).lower()
        kind = {"feature flag": "flag", "operational": "config"}.get(category, "deploy")
        service = names.ours(short(_text(record.get("entity.name")), 200)) or None
        text = _first_text(record, "shortDescription", "description")
        title = " ".join(filter(None, ("Deployed" if kind == "deploy" else category, version)))
        title += f" ({commit[:12]})" if commit else ""
        title += f": {text}" if text else ""
        identity = _first_text(record, "deploymentId", "changeTrackingId") or commit
        rows.append(
            (
                at,
                service,
                kind,
                # Markers without an id must not pass for the same change.
                short(identity, 100) or f"{service}@{at}",
                short(title, 300),
                short(_text(record.get("user")), 120) or None,
                link,
                None,
                None,
            )
        )
    return rows


def _time(record: Record) -> int | None:
    at = ns_of(record.get("timestamp"), MS)
    return at if at is not None and at >= EARLIEST_NS else None


def _duration_ms(record: Record) -> float | None:
    """Of New Relic's agents in s, of OpenTelemetry in ms."""
    number = _number(record.get("duration.ms"))
    if number is not None:
        return number
    seconds = _number(record.get("duration"))
    return None if seconds is None else seconds * 1000


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    # float() refuses an integer beyond its range.
    number = float(value) if abs(value) < 1e300 else math.inf
    return number if math.isfinite(number) and number >= 0 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _first_text(record: Record, *names: str) -> str:
    """The text under the first of these names that has a value."""
    for name in names:
        if record.get(name):
            return _text(record[name])
    return ""
