"""Segment documents of X-Ray as spans (X-Ray developer guide, "Segment documents"). All text in
them is hostile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from faultline.connectors.vendors.aws.calls import objects
from faultline.connectors.vendors.aws.evidence import seconds, words

MOST_SPANS = 2_000
"""Of one trace."""
MOST_EXCEPTIONS = 3
Row = tuple[Any, ...]


def spans_of(trace: Mapping[str, Any], our_name: Callable[[str], str]) -> list[Row]:
    """The spans of one trace, parents before children; what is still in progress has no end yet and
    is left out."""
    trace_id = words(trace.get("Id"), 64)
    rows: list[Row] = []
    waiting: list[tuple[Mapping[str, Any], str | None, str | None]] = []
    for segment in objects(trace.get("Segments")):
        document = _document(segment.get("Document"))
        if document is not None:
            waiting.append((document, words(document.get("parent_id"), 32) or None, None))
    while waiting and len(rows) < MOST_SPANS:
        part, parent, service = waiting.pop()
        name = words(part.get("name"), 200)
        service_name = service or our_name(name)
        row = _row(trace_id, part, parent, service_name, is_segment=service is None)
        if row is not None:
            rows.append(row)
        span_id = words(part.get("id"), 32) or parent
        # `pop` takes the last, so reversed children come out in their order.
        waiting += [
            (child, span_id, service_name) for child in reversed(objects(part.get("subsegments")))
        ]
    return rows


def _row(
    trace_id: str, part: Mapping[str, Any], parent: str | None, service: str, *, is_segment: bool
) -> Row | None:
    began, ended = seconds(part.get("start_time")), seconds(part.get("end_time"))
    span_id = words(part.get("id"), 32)
    if began is None or ended is None or ended < began:
        return None
    if not span_id or not trace_id:
        return None
    duration_us = round((ended - began).total_seconds() * 1e6)
    operation = _operation(part, is_segment=is_segment)
    return (
        trace_id,
        span_id,
        parent,
        service,
        operation,
        began,
        float(duration_us),
        _status(part),
        _attributes(part),
    )


def _operation(part: Mapping[str, Any], *, is_segment: bool) -> str:
    name = words(part.get("name"), 200)
    aws = part.get("aws")
    if isinstance(aws, Mapping) and aws.get("operation"):
        return f"{name} {words(aws.get('operation'), 80)}"
    request = _part(part, "http", "request")
    path = _path(request.get("url"))
    if not path:
        return name
    method = words(request.get("method"), 10)
    # A segment is a request that the service serves, a part of it one that it sends.
    operation = f"{method} {path}" if is_segment else f"{name} {method}"
    return operation.strip()


def _path(url: Any) -> str:
    try:
        # Without the query, which would make an operation of each request.
        return urlsplit(words(url, 500)).path
    except ValueError:
        return ""


def _status(part: Mapping[str, Any]) -> str | None:
    """`error` for a fault of the server or a refusal for lack of capacity; else the HTTP status
    where there is one."""
    if part.get("fault") is True or part.get("throttle") is True:
        return "error"
    status = _part(part, "http", "response").get("status")
    return str(status) if isinstance(status, int) and not isinstance(status, bool) else None


def _attributes(part: Mapping[str, Any]) -> str | None:
    remaining_words: dict[str, str] = {}
    status = _part(part, "http", "response").get("status")
    if status:
        remaining_words["http.status_code"] = words(status, 10)
    exceptions = objects(_part(part, "cause").get("exceptions"))
    for number, exception in enumerate(exceptions[:MOST_EXCEPTIONS]):
        text = f"{exception.get('type') or ''}: {exception.get('message') or ''}"
        remaining_words[f"exception.{number}"] = words(text, 300)
    return (
        msgspec.json.encode(remaining_words, order="sorted").decode() if remaining_words else None
    )


def _part(value: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    node: Any = value
    for key in path:
        node = node.get(key) if isinstance(node, Mapping) else None
    return node if isinstance(node, Mapping) else {}


def _document(text: Any) -> Mapping[str, Any] | None:
    try:
        document = msgspec.json.decode(text if isinstance(text, str) else "")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None
    return document if isinstance(document, dict) else None
