"""Spans of OTLP's JSON as rows of the table `spans`, as Tempo and Jaeger's v3 API answer them.

The format is opentelemetry.io/docs/specs/otlp (proto3 JSON, ids in hex); Tempo writes ids in
base64, enumerations by name and, in its v1 API, `batches` for `resourceSpans` (grafana/tempo,
pkg/tempopb).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import SpanTableRow, attributes, ns_of
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.vendor_text import short

SPAN_ATTRIBUTES = (
    "http.request.method", "http.method", "http.route", "http.target", "url.path", "url.full",
    "http.url",
    "http.response.status_code", "http.status_code", "rpc.service", "rpc.method",
    "rpc.grpc.status_code",
    "db.system", "db.system.name", "db.namespace", "db.operation.name", "db.query.text",
    "db.statement",
    "messaging.system", "messaging.destination.name", "server.address", "net.peer.name",
    "peer.service",
    "error.type", "exception.type", "exception.message", "otel.status_description",
)  # fmt: skip
"""Attributes of spans worth keeping (opentelemetry.io/docs/specs/semconv, current and former
names)."""
OF_RESOURCE = (
    "service.version", "deployment.environment.name", "deployment.environment", "host.name",
    "k8s.pod.name",
    "k8s.namespace.name", "k8s.node.name", "cloud.availability_zone", "cloud.region",
    "k8s.cluster.name", "environment", "env", "cluster", "region",
)  # fmt: skip
"""Attributes of the process that sent the span."""
TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8
MOST_EVENTS = 50
"""Events of one span that are looked through for exceptions."""
LONGEST_BASE64 = 64
_HEX = re.compile(r"[0-9a-f]{1,32}")
# JSON senders write the enumeration as a number, as its digits or by name.
_FAILED = (2, "2", "STATUS_CODE_ERROR")
_KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
UNREADABLE = "without a readable id or time left out"


class KeyValue(msgspec.Struct):
    key: str = ""
    value: dict[str, Any] | None = None


class Status(msgspec.Struct):
    code: int | str | None = None
    message: str | None = None


class OtlpEvent(msgspec.Struct):
    name: str | None = None
    attributes: list[KeyValue] | None = None


class Span(msgspec.Struct):
    """One span."""

    traceId: str = ""
    spanId: str = ""
    parentSpanId: str | None = None
    name: str | None = None
    kind: int | str | None = None
    startTimeUnixNano: str | int | None = None
    endTimeUnixNano: str | int | None = None
    attributes: list[KeyValue] | None = None
    events: list[OtlpEvent] | None = None
    status: Status | None = None


class ScopeSpans(msgspec.Struct):
    spans: list[Span] | None = None


class OtlpResource(msgspec.Struct):
    attributes: list[KeyValue] | None = None


class ResourceSpans(msgspec.Struct):
    """Spans of one process; `instrumentationLibrarySpans` is what older senders call
    `scopeSpans`."""

    resource: OtlpResource | None = None
    scopeSpans: list[ScopeSpans] | None = None
    instrumentationLibrarySpans: list[ScopeSpans] | None = None


class TracesData(msgspec.Struct):
    """Spans of one trace or of several."""

    resourceSpans: list[ResourceSpans] | None = None
    batches: list[ResourceSpans] | None = None


def span_rows(data: TracesData, names: ServiceNames) -> tuple[list[SpanTableRow], int]:
    """The spans as rows, and how many were left out because they have no readable id or time."""
    rows: list[SpanTableRow] = []
    dropped = 0
    for group in (*(data.resourceSpans or ()), *(data.batches or ())):
        process = texts(group.resource.attributes if group.resource else None)
        service = names.ours(short(process.get("service.name", ""), 200)) or "unknown"
        for span in _spans(group):
            row = _row(span, service, process)
            if row is None:
                dropped += 1
            else:
                rows.append(row)
    return rows, dropped


def _spans(group: ResourceSpans) -> Iterator[Span]:
    for scope in (*(group.scopeSpans or ()), *(group.instrumentationLibrarySpans or ())):
        yield from scope.spans or ()


def _row(span: Span, service: str, process: Mapping[str, str]) -> SpanTableRow | None:
    trace_id = hex_id(span.traceId, TRACE_ID_BYTES)
    span_id = hex_id(span.spanId, SPAN_ID_BYTES)
    start = ns_of(span.startTimeUnixNano)
    end = ns_of(span.endTimeUnixNano)
    if not trace_id or not span_id or start is None or end is None:
        return None
    span_attributes = _with_exceptions(span)
    kinds: dict[str, Any] = {name: span_attributes.get(name) for name in SPAN_ATTRIBUTES}
    kinds |= {name: process.get(name) for name in OF_RESOURCE}
    kinds["span.kind"] = _kind(span.kind)
    kinds["status.message"] = span.status.message if span.status else None
    failed = span.status is not None and span.status.code in _FAILED
    return SpanTableRow(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=hex_id(span.parentSpanId or "", SPAN_ID_BYTES) or None,
        service=service,
        operation=short(span.name or "", 200) or "unknown",
        start=start,
        # Clocks that were set back while the span ran make it end before it began.
        duration_us=max(0, end - start) / 1000,
        status="error" if failed else "ok",
        attributes=attributes(kinds),
    )


def _with_exceptions(span: Span) -> Mapping[str, str]:
    """The span's attributes and those of its exceptions, which are their own events in OTLP.

    Of equal names the span's own counts, then the earliest event's.
    """
    exception_texts: dict[str, str] = {}
    for event in (span.events or ())[:MOST_EVENTS]:
        if event.name == "exception":
            exception_texts = {**texts(event.attributes), **exception_texts}
    return {**exception_texts, **texts(span.attributes)}


def hex_id(raw_id: str, length: int) -> str:
    """An id of that many bytes in hex, read from hex or from base64; empty where it is neither, or
    all zeros."""
    # The base64 of 8 and of 16 bytes always ends in "=".
    digits = _from_base64(raw_id, length) if raw_id.endswith("=") else _from_hex(raw_id, length)
    # OTLP calls an id of zeros invalid.
    return digits if digits.strip("0") else ""


def _from_base64(raw_id: str, length: int) -> str:
    if len(raw_id) > LONGEST_BASE64:
        return ""
    try:
        raw = base64.b64decode(raw_id, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == length else ""


def _from_hex(raw_id: str, length: int) -> str:
    text = raw_id.strip().lower()
    if len(text) > 2 * length or not _HEX.fullmatch(text):
        return ""
    # Jaeger drops leading zeros.
    return text.zfill(2 * length)


def _kind(kind: int | str | None) -> str | None:
    if isinstance(kind, str):
        return short(kind.removeprefix("SPAN_KIND_").lower(), 20)
    return _KINDS.get(kind) if kind is not None else None


def texts(values: list[KeyValue] | None) -> dict[str, str]:
    """Attributes with simple values, as text."""
    values_by_key: dict[str, str] = {}
    for attribute in values or ():
        # proto3's JSON wraps a value in its type: {"stringValue": "x"}.
        for value in (attribute.value or {}).values():
            if isinstance(value, (str, int, float, bool)):
                values_by_key[attribute.key] = str(value)
                break
    return values_by_key
