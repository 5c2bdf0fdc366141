"""Spans of the alert's service, and whole traces, within the few searches that Datadog allows.

Both windows are sampled by the same questions: the latest spans by which the service is entered,
and those that failed. Which traces are read whole goes by one rule in both windows too, so that a
comparison is not of slow against typical.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec

from analysis.errors import FaultlineError
from analysis.vocabulary import Window
from connectors.base import Item, Missing
from connectors.datadog.calls import SPANS, TRACE
from connectors.datadog.inquiry import DatadogEvidence, DatadogInquiry, DatadogPart
from connectors.datadog.logs import ListAnswer, iso
from connectors.datadog.values import (
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
KEPT = (
    "error.type",
    "error.message",
    "http.status_code",
    "http.url",
    "peer.service",
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
    own = " ".join(filter(None, (any_of("service", [inquiry.names.of(service)]), inquiry.in_env)))
    windows = (*inquiry.baselines[:1], inquiry.incident)
    asked = [f"{own} {ENTRY}", f"{own} status:error"]
    parts = [
        DatadogPart("spans", query, partial(_page, inquiry, query, window))
        for window in windows
        for query in asked
    ]
    if alerting:
        parts += [
            DatadogPart("spans", alerting, partial(_page, inquiry, alerting, window))
            for window in windows
        ]
    found = await inquiry.gathered(parts)
    ids = [one for window in windows for one in _worth_reading(found, window)]
    return DatadogEvidence.of([found, await traces(inquiry, ids)]) if ids else found


async def _page(inquiry: DatadogInquiry, query: str, window: Window) -> DatadogEvidence:
    given = {"query": query, "_from": iso(window.start), "to": iso(window.end)}
    inside = {"filter": given, "page": {"limit": SAMPLE}, "sort": "-timestamp"}
    body = {"data": {"type": "search_request", "attributes": inside}}
    answer = await inquiry.ask(SPANS, ListAnswer, body=body)
    made = [
        row
        for one in answer.data or []
        if (row := _span(inquiry, table(one.get("attributes")))) is not None
    ]
    found = DatadogEvidence()
    cut = f"only the latest {SAMPLE} spans of the window" if answer.more else answer.warning
    link = inquiry.links.spans(query, window)
    found.items.append(Item("spans", query, window, link, rows=found.add("spans", made), cut=cut))
    return found


def _span(inquiry: DatadogInquiry, one: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """A span as the search gives it: its duration stands in `custom` (ns), or is what lies between
    start and end."""
    start, end = moment(one.get("start_timestamp")), moment(one.get("end_timestamp"))
    trace_id, span_id = text(one.get("trace_id"), 40), text(one.get("span_id"), 40)
    if start is None or not trace_id or not span_id:
        return None
    custom = {**table(one.get("attributes")), **table(one.get("custom"))}
    ns = number(custom.get("duration"))
    us = (
        ns / 1000
        if ns is not None
        else max(0.0, (end - start) / timedelta(microseconds=1))
        if end
        else None
    )
    if us is None:
        return None
    failed = text(one.get("status")).lower() == "error" or bool(custom.get("error"))
    kept: dict[str, Any] = {name: text(inner(custom, name)) for name in KEPT}
    kept |= {
        "operation": text(one.get("operation_name")),
        "host": text(one.get("host")),
        "env": text(one.get("env")),
    }
    kept["version"] = kept["version"] or tags(one.get("tags")).get("version")
    name = (
        text(one.get("resource_name")) or text(one.get("operation_name")) or text(one.get("type"))
    )
    service = inquiry.names.ours(text(one.get("service"))) or "unknown"
    status = "error" if failed else "ok"
    return (
        trace_id,
        span_id,
        _parent(one.get("parent_id")),
        service,
        name,
        start,
        us,
        status,
        attributes(kept),
    )


def _parent(value: Any) -> str | None:
    """The parent's id; a root has 0."""
    found = text(value, 40)
    return found if found.strip("0") else None


def _worth_reading(found: DatadogEvidence, window: Window) -> list[str]:
    """Traces of the window: of the spans that the search gave, the slowest, and the latest that
    failed."""
    known = {"trace_id", "start", "duration_us", "status"}
    made = [p.select(sorted(known)) for name, p in found.parts if name == "spans"]
    inside = [
        row
        for p in made
        for row in p.iter_rows(named=True)
        if window.start <= row["start"] < window.end
    ]
    slow = sorted(inside, key=lambda row: -row["duration_us"])
    failed = sorted(
        (r for r in inside if r["status"] == "error"), key=lambda row: row["start"], reverse=True
    )
    chosen = dict.fromkeys(
        row["trace_id"] for row in (*failed[: TRACES - 1], *slow[:TRACES], *failed)
    )
    return [one for one in chosen if one.isalnum()][:TRACES]


async def traces(inquiry: DatadogInquiry, ids: Iterable[str]) -> DatadogEvidence:
    """Whole traces; those that cannot be read are one gap."""

    async def one(trace_id: str) -> DatadogEvidence | FaultlineError:
        try:
            return await _trace(inquiry, trace_id)
        except FaultlineError as error:
            return error

    wanted = list(dict.fromkeys(ids))
    answers = await asyncio.gather(*(one(trace_id) for trace_id in wanted))
    errors = [a for a in answers if isinstance(a, FaultlineError)]
    found = DatadogEvidence.of(a for a in answers if isinstance(a, DatadogEvidence))
    if errors:
        said = f"{len(errors)} of {len(wanted)} traces could not be read whole: {errors[0]}"
        found.missing.append(Missing("spans", f"traces {', '.join(wanted)}", said))
    return found


async def _trace(inquiry: DatadogInquiry, trace_id: str) -> DatadogEvidence:
    answer = (await inquiry.ask(TRACE, DatadogTraceAnswer, trace_id=trace_id)).data.attributes
    made = [
        row for one in rows(answer.spans) if (row := _whole(inquiry, trace_id, one)) is not None
    ]
    made.sort(key=lambda row: row[5])
    cut = "Datadog gave a part of this trace" if answer.is_truncated else None
    if len(made) > MOST_SPANS_OF_A_TRACE:
        cut = f"only the first {MOST_SPANS_OF_A_TRACE} of {len(made)} spans"
    found = DatadogEvidence()
    count, link = found.add("spans", made[:MOST_SPANS_OF_A_TRACE]), inquiry.links.trace(trace_id)
    found.items.append(
        Item("spans", f"trace {trace_id}", inquiry.around, link, rows=count, cut=cut)
    )
    return found


def _whole(
    inquiry: DatadogInquiry, trace_id: str, one: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """A span of a whole trace: times in ns, ids as numbers."""
    start, ns, span_id = (
        nanoseconds(one.get("start_time")),
        number(one.get("duration")),
        text(one.get("span_id"), 40),
    )
    if start is None or ns is None or not span_id:
        return None
    meta = table(one.get("meta"))
    kept: dict[str, Any] = {name: text(inner(meta, name)) for name in KEPT}
    kept["operation"] = text(one.get("name"))
    name = text(one.get("resource")) or text(one.get("name"))
    service = inquiry.names.ours(text(one.get("service"))) or "unknown"
    status = "error" if number(one.get("error")) == 1 else "ok"
    return (
        trace_id,
        span_id,
        _parent(one.get("parent_id")),
        service,
        name,
        start,
        ns / 1000,
        status,
        attributes(kept),
    )
