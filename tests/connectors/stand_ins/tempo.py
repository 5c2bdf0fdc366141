"""Tempo: requests of checkout, which calls cart; from ONSET on cart fails slowly."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.requests_with_traces import CALLS, Call, between, otlp

READING_POSTS: frozenset[str] = frozenset()
SERVICES = ("cart", "checkout")


def settings(url: str) -> dict[str, Any]:
    """With links to Grafana."""
    return {"tempo": {"url": url, "token": "t", "tenant": "acme"}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    values = [{"type": "string", "value": name} for name in SERVICES]
    server.on(
        "/api/v2/search/tag/resource.service.name/values",
        Reply({"tagValues": values, "metrics": {}}),
    )
    server.on("/api/search", search)
    server.on("/api/status/buildinfo", Reply({"version": "2.9.0", "revision": "abc"}))
    for call in CALLS:
        server.on(f"/api/v2/traces/{call.trace_id}", _whole(call))


def _whole(call: Call) -> Callable[[Asked], Reply]:
    return lambda _: Reply(
        {"trace": {"resourceSpans": otlp(call)}, "metrics": {"inspectedBytes": "9"}}
    )


def search(asked: Asked) -> Reply:
    """Understands the queries that are asked: a service, a status, a bound of the duration."""
    query = asked.query["q"][0]
    if query == "{ true }":
        return Reply({"traces": [], "metrics": {"totalBlocks": 1}})
    service = re.findall(r'resource\.service\.name = "([^"]*)"', query)[0]
    least = next((int(ms) * 1_000_000 for ms in re.findall(r"duration > (\d+)ms", query)), 0)
    found = []
    for call in reversed(between(float(asked.query["start"][0]), float(asked.query["end"][0]))):
        spans = [s for s in call.spans if s[0] == service and s[5] > least]
        if "status = error" in query:
            spans = [s for s in spans if call.failed(s[0])]
        if "status != error" in query:
            spans = [s for s in spans if not call.failed(s[0])]
        if spans:
            found.append(_found(call, spans[0]))
    return Reply({"traces": found[: int(asked.query["limit"][0])], "metrics": {"totalBlocks": 13}})


def _found(call: Call, span: tuple[str, str, str, str, int, int]) -> dict[str, Any]:
    """As Tempo gives it: leading zeros of the trace's id are left out."""
    _, span_id, _, _, start, took = span
    matched = {
        "spanID": span_id,
        "startTimeUnixNano": str(start),
        "durationNanos": str(took),
        "attributes": [],
    }
    return {
        "traceID": call.trace_id.lstrip("0"),
        "rootServiceName": "checkout",
        "rootTraceName": "POST /checkout",
        "startTimeUnixNano": str(call.spans[0][4]),
        "durationMs": call.spans[0][5] // 1_000_000,
        "spanSets": [{"spans": [matched], "matched": 1}],
    }
