"""Spans of Jaeger's own JSON as rows of the table `spans` (jaegertracing/jaeger,
internal/uimodel/model.go)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from connectors.collection_builder import attributes, ns_of
from connectors.otlp_spans import KEPT, OF_RESOURCE, Row, hex_id
from connectors.service_names import ServiceNames
from connectors.vendor_text import short


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


def trace_rows(traces: Iterable[JaegerTrace], names: ServiceNames) -> tuple[list[Row], int]:
    """The spans as rows, and how many were left out because they have no readable id or time."""
    rows, dropped = [], 0
    for trace in traces:
        for span in trace.spans or ():
            process = (trace.processes or {}).get(span.processID) or span.process or Process()
            row = _row(span, process, names)
            if row is None:
                dropped += 1
            else:
                rows.append(row)
    return rows, dropped


def _row(span: JaegerSpan, process: Process, names: ServiceNames) -> Row | None:
    trace_id, span_id, start = (
        hex_id(span.traceID, 16),
        hex_id(span.spanID, 8),
        ns_of(span.startTime, 1000),
    )
    if not trace_id or not span_id or start is None or span.duration is None:
        return None
    own, of_process = _texts(span.tags), _texts(process.tags)
    for log in (span.logs or ())[:50]:
        fields = _texts(log.fields)
        if fields.get("event") in ("exception", "error"):
            own = {**fields, **own}
    kept: dict[str, Any] = {name: own.get(name) for name in KEPT}
    kept |= {name: of_process.get(name) for name in OF_RESOURCE}
    kept["span.kind"] = own.get("span.kind")
    kept["exception.message"] = kept["exception.message"] or own.get("message")
    failed = (
        own.get("error", "").lower() == "true" or own.get("otel.status_code", "").upper() == "ERROR"
    )
    service = names.ours(short(process.serviceName, 200)) or "unknown"
    operation = short(span.operationName, 200) or "unknown"
    us = max(0.0, float(span.duration))
    return (
        trace_id,
        span_id,
        _parent(span),
        service,
        operation,
        start,
        us,
        _status(failed),
        attributes(kept),
    )


def _status(failed: bool) -> str:
    return "error" if failed else "ok"


def _parent(span: JaegerSpan) -> str | None:
    """The span that called this one, in the same trace."""
    own = [r for r in span.references or () if hex_id(r.traceID, 16) == hex_id(span.traceID, 16)]
    named = sorted(own, key=lambda r: r.refType != "CHILD_OF")
    return next((found for r in named if (found := hex_id(r.spanID, 8))), None)


def _texts(tags: Iterable[JaegerTag] | None) -> Mapping[str, str]:
    """Tags with simple values, as text; booleans in JSON's words."""
    found = {}
    for tag in tags or ():
        if isinstance(tag.value, bool):
            found[tag.key] = "true" if tag.value else "false"
        elif isinstance(tag.value, (str, int, float)):
            found[tag.key] = str(tag.value)
    return found
