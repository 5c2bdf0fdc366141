"""Jaeger: requests of checkout, which calls cart; from ONSET on cart fails slowly. Its own API, or
v3 alone."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.requests_with_traces import CALLS, Call, between, jaeger, otlp

READING_POSTS: frozenset[str] = frozenset()
VICTORIATRACES = "/select/jaeger"


def settings(url: str) -> dict[str, Any]:
    """With a token."""
    return {"jaeger": {"url": url, "token": "t"}}


def serve(server: LocalServer) -> None:
    """Its own API."""
    server.on("/api/services", Reply({"data": ["cart", "checkout"], "total": 2, "errors": None}))
    server.on("/api/traces", _traces)
    edges = [{"parent": "checkout", "child": "cart", "callCount": 812}]
    server.on("/api/dependencies", Reply({"data": edges, "total": 1, "errors": None}))
    for call in CALLS[-3:]:
        server.on(f"/api/traces/{call.trace_id}", Reply({"data": [jaeger(call)]}))


def serve_victoriatraces(server: LocalServer) -> None:
    """VictoriaTraces, below its path."""
    names = {"data": ["cart", "checkout"], "errors": None, "limit": 0, "offset": 0, "total": 2}
    server.on(f"{VICTORIATRACES}/api/services", Reply(names))
    server.on(f"{VICTORIATRACES}/api/traces", _traces)
    none = {"data": [], "errors": None, "limit": 0, "offset": 0, "total": 0}
    server.on(f"{VICTORIATRACES}/api/dependencies", Reply(none))


def serve_v3(server: LocalServer, *, wrapped: bool) -> None:
    """The v3 API alone; released servers wrap spans in `result`, the specification does not."""
    server.on("/api/v3/services", Reply({"services": ["cart", "checkout"]}))
    edges = [{"parent": "checkout", "child": "cart", "callCount": "812"}]
    server.on("/api/v3/dependencies", Reply({"dependencies": edges}))

    def traces(asked: Asked) -> Reply:
        start, end = (_moment(asked.query[f"query.startTime{name}"][0]) for name in ("Min", "Max"))
        found = _chosen(
            between(start, end),
            asked.query["query.serviceName"][0],
            _least(asked, "query.durationMin"),
        )
        spans = [
            one for call in found[: int(asked.query["query.searchDepth"][0])] for one in otlp(call)
        ]
        if not spans:
            return Reply({"error": {"httpCode": 404, "message": "No traces found"}}, status=404)
        return Reply({"result": {"resourceSpans": spans}} if wrapped else {"resourceSpans": spans})

    server.on("/api/v3/traces", traces)


def found(asked: Asked) -> list[Call]:
    """The requests that are asked for, however many."""
    start, end = (int(asked.query[name][0]) / 1e6 for name in ("start", "end"))
    chosen = _chosen(between(start, end), asked.query["service"][0], _least(asked, "minDuration"))
    failed = json.loads(asked.query.get("tags", ["{}"])[0]).get("error") == "true"
    return [call for call in chosen if call.bad or not failed]


def _traces(asked: Asked) -> Reply:
    calls = found(asked)[: int(asked.query["limit"][0])]
    return Reply({"data": [jaeger(call) for call in calls], "errors": None})


def _chosen(calls: list[Call], service: str, least_ns: float) -> list[Call]:
    return [
        call
        for call in reversed(calls)
        if any(s[0] == service and s[5] >= least_ns for s in call.spans)
    ]


def _least(asked: Asked, name: str) -> float:
    """A bound as Go writes durations."""
    text = asked.query.get(name, ["0s"])[0]
    number, unit = re.fullmatch(r"([0-9.]+)(us|s)", text).groups()  # type: ignore[union-attr]
    return float(number) * (1e3 if unit == "us" else 1e9)


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
