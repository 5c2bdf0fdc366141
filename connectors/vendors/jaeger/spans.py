"""Spans of Jaeger's own JSON as rows of the table `spans` (jaegertracing/jaeger,
internal/uimodel/model.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import SpanTableRow, attributes, ns_of
from faultline.connectors.shared.rows.otlp_spans import (
    MOST_EVENTS,
    OF_RESOURCE,
    SPAN_ATTRIBUTES,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    hex_id,
)
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

NS_PER_US = 1000


class JaegerTag(msgspec.Struct):
    key: str = ""
    value: Any = None


class JaegerReference(msgspec.Struct):
    refType: str = ""
    traceID: str = ""
    spanID: str = ""


class Process(msgspec.Struct):
    serviceName: str = ""
    tags: list[JaegerTag] | None = None


class Log(msgspec.Struct):
    fields: list[JaegerTag] | None = None


class JaegerSpan(msgspec.Struct):
    """One span; times in microseconds."""

    traceID: str = ""
    spanID: str = ""
    operationName: str = ""
    references: list[JaegerReference] | None = None
    startTime: int | None = None
    duration: int | float | None = None
    tags: list[JaegerTag] | None = None
    logs: list[Log] | None = None
    processID: str = ""
    process: Process | None = None


class JaegerTrace(msgspec.Struct):
    """One trace."""

    traceID: str = ""
    spans: list[JaegerSpan] | None = None
    processes: dict[str, Process] | None = None


def trace_rows(
    traces: Iterable[JaegerTrace], names: ServiceNames
) -> tuple[list[SpanTableRow], int]:
    """The spans as rows, and how many were left out because they have no readable id or time."""
    rows: list[SpanTableRow] = []
    dropped = 0
    for trace in traces:
        processes = trace.processes or {}
        for span in trace.spans or ():
            process = processes.get(span.processID) or span.process or Process()
            row = _row(span, process, names)
            if row is None:
                dropped += 1
            else:
                rows.append(row)
    return rows, dropped


def _row(span: JaegerSpan, process: Process, names: ServiceNames) -> SpanTableRow | None:
    trace_id = hex_id(span.traceID, TRACE_ID_BYTES)
    span_id = hex_id(span.spanID, SPAN_ID_BYTES)
    start = ns_of(span.startTime, NS_PER_US)
    if not trace_id or not span_id or start is None or span.duration is None:
        return None
    span_tags = _with_errors(span)
    of_process = _texts(process.tags)
    messages: dict[str, Any] = {name: span_tags.get(name) for name in SPAN_ATTRIBUTES}
    messages |= {name: of_process.get(name) for name in OF_RESOURCE}
    messages["span.kind"] = span_tags.get("span.kind")
    # OpenTracing's name for it, in the log of an error.
    messages["exception.message"] = messages["exception.message"] or span_tags.get("message")
    return SpanTableRow(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_parent(span),
        service=names.ours(short(process.serviceName, 200)) or "unknown",
        operation=short(span.operationName, 200) or "unknown",
        start=start,
        duration_us=max(0.0, float(span.duration)),
        status="error" if _failed(span_tags) else "ok",
        attributes=attributes(messages),
    )


def _failed(span_tags: Mapping[str, str]) -> bool:
    # The one is OpenTracing's tag, the other how OpenTelemetry's status is translated.
    return (
        span_tags.get("error", "").lower() == "true"
        or span_tags.get("otel.status_code", "").upper() == "ERROR"
    )


def _with_errors(span: JaegerSpan) -> Mapping[str, str]:
    """The span's tags, and behind them the fields of the errors in its log."""
    error_fields: dict[str, str] = {}
    for log in (span.logs or ())[:MOST_EVENTS]:
        fields = _texts(log.fields)
        if fields.get("event") in ("exception", "error"):
            error_fields = {**fields, **error_fields}
    return {**error_fields, **_texts(span.tags)}


def _parent(span: JaegerSpan) -> str | None:
    """The span that called this one, in the same trace."""
    trace_id = hex_id(span.traceID, TRACE_ID_BYTES)
    # A span may follow from others; the one that called it counts first.
    references = sorted(span.references or (), key=lambda r: r.refType != "CHILD_OF")
    for reference in references:
        if hex_id(reference.traceID, TRACE_ID_BYTES) != trace_id:
            continue
        parent = hex_id(reference.spanID, SPAN_ID_BYTES)
        if parent:
            return parent
    return None


def _texts(tags: Iterable[JaegerTag] | None) -> Mapping[str, str]:
    """Tags with simple values, as text; booleans in JSON's words."""
    values_by_key: dict[str, str] = {}
    for tag in tags or ():
        if isinstance(tag.value, bool):
            values_by_key[tag.key] = "true" if tag.value else "false"
        elif isinstance(tag.value, (str, int, float)):
            values_by_key[tag.key] = str(tag.value)
    return values_by_key
