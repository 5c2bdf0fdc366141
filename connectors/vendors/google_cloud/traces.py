"""Spans of Cloud Trace as rows of the table `spans`.

`projects.traces.list` of the Trace API v1; filters: docs.cloud.google.com/trace/docs/trace-filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import SpanTableRow, attributes, time_of
from faultline.connectors.shared.rows.otlp_spans import (
    OF_RESOURCE,
    SPAN_ATTRIBUTES,
    TRACE_ID_BYTES,
    hex_id,
)
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import first_of, short
from faultline.connectors.vendors.google_cloud.metrics import literal, utc

MOST_TRACES = 25
"""Of each third of a window."""
NAMED_BY = (
    "service.name",
    "g.co/r/cloud_run_revision/service_name",
    "g.co/r/k8s_container/container_name",
    "g.co/gae/app/module",
)
"""Labels that Google's exporters and App Engine put on spans."""
OLD_ATTRIBUTES = ("/http/method", "/http/path", "/http/url", "/http/status_code", "/error/message")
_STATUS = ("http.response.status_code", "http.status_code", "/http/status_code")
_ERRORS = ("/error/message", "/error/name", "error.type", "exception.type")
_KINDS = {"RPC_SERVER": "server", "RPC_CLIENT": "client"}


class TraceSpan(msgspec.Struct):
    spanId: str | int = ""
    parentSpanId: str | int = ""
    kind: str = ""
    name: str = ""
    startTime: str = ""
    endTime: str = ""
    labels: dict[str, str] = {}


class CloudTrace(msgspec.Struct):
    traceId: str = ""
    spans: list[TraceSpan] = []


class TracesAnswer(msgspec.Struct):
    traces: list[CloudTrace] = []
    nextPageToken: str = ""


def trace_params(label: str, name: str, window: Window) -> list[tuple[str, str]]:
    """Whole traces in which a span bears the name."""
    return [
        ("view", "COMPLETE"),
        # `+` asks for an exact match.
        ("filter", f"+{label}:{literal(name)}"),
        ("startTime", utc(window.start)),
        ("endTime", utc(window.end)),
        ("pageSize", str(MOST_TRACES)),
    ]


def span_rows(
    traces: Iterable[CloudTrace], label: str, names: ServiceNames
) -> tuple[list[SpanTableRow], int]:
    """The spans as rows, and how many were left out because they have no readable id or time."""
    rows: list[SpanTableRow] = []
    dropped = 0
    for trace in traces:
        trace_id = hex_id(trace.traceId[:64], TRACE_ID_BYTES)
        for span in trace.spans:
            row = _row(trace_id, span, label, names) if trace_id else None
            if row is None:
                dropped += 1
            else:
                rows.append(row)
    return rows, dropped


def _row(trace_id: str, span: TraceSpan, label: str, names: ServiceNames) -> SpanTableRow | None:
    span_id = _id(span.spanId)
    start, end = time_of(span.startTime), time_of(span.endTime)
    if not span_id or start is None or end is None:
        return None
    raw_name = first_of(span.labels, (label, *NAMED_BY)) or ""
    labels: dict[str, Any] = {
        name: span.labels.get(name) for name in (*SPAN_ATTRIBUTES, *OF_RESOURCE, *OLD_ATTRIBUTES)
    }
    labels["span.kind"] = _KINDS.get(span.kind)
    return SpanTableRow(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_id(span.parentSpanId) or None,
        service=names.ours(short(raw_name, 200)) or "unknown",
        operation=short(span.name, 200) or "unknown",
        start=start,
        # Clocks that were set back while the span ran make it end before it began.
        duration_us=max(0, end - start) / 1000,
        status="error" if _failed(span.labels) else "ok",
        attributes=attributes(labels),
    )


def _id(raw_id: str | int) -> str:
    """Google's number of a span as OpenTelemetry writes it: 16 hex digits."""
    text = str(raw_id)[:20]
    number = int(text) if text.isascii() and text.isdigit() else 0
    return f"{number:016x}" if 0 < number < 2**64 else ""


def _failed(labels: Mapping[str, str]) -> bool:
    if any(labels.get(name) for name in _ERRORS) or labels.get("otel.status_code") == "ERROR":
        return True
    return (first_of(labels, _STATUS) or "").startswith("5")
