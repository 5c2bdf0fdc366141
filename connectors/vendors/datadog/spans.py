"""Spans of the alert's service, and whole traces, within the few searches that Datadog allows.

Both windows are sampled by the same questions: the latest spans by which the service is entered,
and those that failed. Which traces are read whole goes by one rule in both windows too, so that a
comparison is not of slow against typical.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import SpanTableRow, readable
from faultline.connectors.shared.rows.collection_builder import nanoseconds as exact_ns
from faultline.connectors.vendors.datadog.calls import SPANS, TRACE
from faultline.connectors.vendors.datadog.inquiry import (
    DatadogEvidence,
    DatadogInquiry,
    DatadogPart,
)
from faultline.connectors.vendors.datadog.logs import ListAnswer, iso
from faultline.connectors.vendors.datadog.values import (
    any_of,
    attributes,
    inner,
    moment,
    nanoseconds,
    number,
    rows,
    table,
    tags,
    text,
)

SAMPLE = 200
"""Spans of each search; a window takes two searches, of 300 an hour for the whole organisation."""
TRACES = 3
"""Traces read whole, of each window: the slowest, and of those that failed the latest."""
MOST_SPANS_OF_A_TRACE = 2000
ENTRY = "@_top_level:1"
"""Spans by which a service is entered (docs.datadoghq.com, "Trace Explorer", span queries)."""
SPAN_FIELDS = (
    "error.type",
    "error.message",
    "http.status_code",
    "http.url",
    "peer.service",
    "out.host",
    "span.kind",
    "version",
)


class _DatadogTrace(msgspec.Struct):
    spans: list[dict[str, Any]] = []
    is_truncated: bool = False


class _TraceData(msgspec.Struct):
    attributes: _DatadogTrace


class DatadogTraceAnswer(msgspec.Struct):
    """One trace."""

    data: _TraceData


async def spans(
    inquiry: DatadogInquiry, service: str, alerting: str | None = None
) -> DatadogEvidence:
    """Spans of one service, of the baseline's latest part and of the incident; `alerting` is the
    monitor's search."""
    service_query = any_of("service", [inquiry.names.of(service)])
    if inquiry.in_env:
        service_query += f" {inquiry.in_env}"
    windows = (*inquiry.baselines[:1], inquiry.incident)
    # Ask for failed spans apart, because a sample of all may hold none.
    parts = [
        DatadogPart("spans", query, partial(_page, inquiry, query, window))
        for window in windows
        for query in (f"{service_query} {ENTRY}", f"{service_query} status:error")
    ]
    if alerting:
        parts += [
            DatadogPart("spans", alerting, partial(_page, inquiry, alerting, window))
            for window in windows
        ]
    evidence = await inquiry.gathered(parts)
    ids: list[str] = []
    for window in windows:
        ids += _worth_reading(evidence, window)
    if not ids:
        return evidence
    return DatadogEvidence.of([evidence, await traces(inquiry, ids)])


async def _page(inquiry: DatadogInquiry, query: str, window: Window) -> DatadogEvidence:
    search_filter = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    inside = {"filter": search_filter, "page": {"limit": SAMPLE}, "sort": "-timestamp"}
    body = {"data": {"type": "search_request", "attributes": inside}}
    answer = await inquiry.ask(SPANS, ListAnswer, body=body)
    evidence = DatadogEvidence()
    entries = [table(entry.get("attributes")) for entry in answer.data or []]
    span_rows = readable(_span(inquiry, entry) for entry in entries)
    count = evidence.add("spans", span_rows)
    cut = f"only the latest {SAMPLE} spans of the window" if answer.more else answer.warning
    link = inquiry.links.spans(query, window)
    item = Item("spans", query, window, link, rows=count, cut=cut)
    evidence.items.append(item.holding(span_rows))
    return evidence


def _span(inquiry: DatadogInquiry, entry: Mapping[str, Any]) -> SpanTableRow | None:
    """A span as the search gives it."""
    start = moment(entry.get("start_timestamp"))
    trace_id = text(entry.get("trace_id"), 40)
    span_id = text(entry.get("span_id"), 40)
    if start is None or not trace_id or not span_id:
        return None
    custom = {**table(entry.get("attributes")), **table(entry.get("custom"))}
    us = _duration_us(custom, start, moment(entry.get("end_timestamp")))
    if us is None or us < 0:
        return None
    operation = text(entry.get("operation_name"))
    versions: dict[str, Any] = {name: text(inner(custom, name)) for name in SPAN_FIELDS}
    versions |= {
        "operation": operation,
        "host": text(entry.get("host")),
        "env": text(entry.get("env")),
    }
    versions["version"] = versions["version"] or tags(entry.get("tags")).get("version")
    failed = text(entry.get("status")).lower() == "error" or bool(custom.get("error"))
    return SpanTableRow(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_parent(entry.get("parent_id")),
        service=_service(inquiry, entry),
        operation=text(entry.get("resource_name")) or operation or text(entry.get("type")),
        start=exact_ns(start),
        duration_us=us,
        status="error" if failed else "ok",
        attributes=attributes(versions),
    )


def _duration_us(custom: Mapping[str, Any], start: datetime, end: datetime | None) -> float | None:
    """The duration that stands in `custom` (ns), or what lies between start and end."""
    ns = number(custom.get("duration"))
    if ns is not None:
        return ns / 1000
    if end is None:
        return None
    return max(0.0, (end - start) / timedelta(microseconds=1))


def _service(inquiry: DatadogInquiry, entry: Mapping[str, Any]) -> str:
    return inquiry.names.ours(text(entry.get("service"))) or "unknown"


def _parent(value: Any) -> str | None:
    """The parent's id; a root has 0."""
    parent_id = text(value, 40)
    return parent_id if parent_id.strip("0") else None


def _worth_reading(evidence: DatadogEvidence, window: Window) -> list[str]:
    """Traces of the window: of the spans that the search gave, the slowest, and the latest that
    failed."""
    inside = _spans_in(evidence, window)
    failed = [row for row in inside if row["status"] == "error"]
    failed.sort(key=lambda row: row["start"], reverse=True)
    slow = sorted(inside, key=lambda row: -row["duration_us"])
    # One place is kept for the slowest, however many failed.
    ordered = (*failed[: TRACES - 1], *slow[:TRACES], *failed)
    chosen = dict.fromkeys(row["trace_id"] for row in ordered)
    # The id becomes a part of the path that is asked.
    return [trace_id for trace_id in chosen if trace_id.isalnum()][:TRACES]


def _spans_in(evidence: DatadogEvidence, window: Window) -> list[dict[str, Any]]:
    inside = []
    for name, part in evidence.parts:
        if name != "spans":
            continue
        columns = part.select("duration_us", "start", "status", "trace_id")
        for row in columns.iter_rows(named=True):
            if window.start <= row["start"] < window.end:
                inside.append(row)
    return inside


async def traces(inquiry: DatadogInquiry, ids: Iterable[str]) -> DatadogEvidence:
    """Whole traces; those that cannot be read are one gap."""

    async def trace_or_error(trace_id: str) -> DatadogEvidence | FaultlineError:
        try:
            return await _trace(inquiry, trace_id)
        except FaultlineError as error:
            return error

    trace_ids = list(dict.fromkeys(ids))
    read: list[DatadogEvidence] = []
    errors: list[FaultlineError] = []
    for answer in await asyncio.gather(*(trace_or_error(trace_id) for trace_id in trace_ids)):
        if isinstance(answer, FaultlineError):
            errors.append(answer)
        else:
            read.append(answer)
    evidence = DatadogEvidence.of(read)
    if errors:
        phrase = f"{len(errors)} of {len(trace_ids)} traces could not be read whole: {errors[0]}"
        evidence.missing.append(Missing("spans", f"traces {', '.join(trace_ids)}", phrase))
    return evidence


async def _trace(inquiry: DatadogInquiry, trace_id: str) -> DatadogEvidence:
    answer = (await inquiry.ask(TRACE, DatadogTraceAnswer, trace_id=trace_id)).data.attributes
    read = readable(_span_of_trace(inquiry, trace_id, entry) for entry in rows(answer.spans))
    # Sort first, so that a cut trace keeps its beginning.
    read.sort(key=lambda row: row.start)
    cut = "Datadog gave a part of this trace" if answer.is_truncated else None
    if len(read) > MOST_SPANS_OF_A_TRACE:
        cut = f"only the first {MOST_SPANS_OF_A_TRACE} of {len(read)} spans"
    evidence = DatadogEvidence()
    first_spans = read[:MOST_SPANS_OF_A_TRACE]
    count = evidence.add("spans", first_spans)
    link = inquiry.links.trace(trace_id)
    query = f"trace {trace_id}"
    item = Item("spans", query, inquiry.around, link, rows=count, cut=cut)
    evidence.items.append(item.holding(first_spans))
    return evidence


def _span_of_trace(
    inquiry: DatadogInquiry, trace_id: str, entry: Mapping[str, Any]
) -> SpanTableRow | None:
    """A span of a whole trace: times in ns, ids as numbers."""
    start = nanoseconds(entry.get("start_time"))
    ns = number(entry.get("duration"))
    span_id = text(entry.get("span_id"), 40)
    if start is None or ns is None or ns < 0 or not span_id:
        return None
    operation = text(entry.get("name"))
    meta = table(entry.get("meta"))
    operations: dict[str, Any] = {name: text(inner(meta, name)) for name in SPAN_FIELDS}
    operations["operation"] = operation
    return SpanTableRow(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=_parent(entry.get("parent_id")),
        service=_service(inquiry, entry),
        operation=text(entry.get("resource")) or operation,
        start=start,
        duration_us=ns / 1000,
        status="error" if number(entry.get("error")) == 1 else "ok",
        attributes=attributes(operations),
    )
