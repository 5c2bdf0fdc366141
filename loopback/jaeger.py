"""Jaeger on loopback: takes spans as OTLP over HTTP (JSON), and answers searches as Jaeger does.

Jaeger's own JSON (`/api/traces`), with its tags and references: jaegertracing/jaeger,
internal/uimodel/model.go.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

MAX_TRACES = 20_000
_DURATION = re.compile(r"(\d+)(us|ms|s)")
_TO_US = {"us": 1, "ms": 1_000, "s": 1_000_000}
_KINDS = {1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}


@dataclass(frozen=True)
class StoredSpan:
    """One span; times in microseconds."""

    service: str
    span_id: str
    parent_id: str
    name: str
    start_us: int
    duration_us: int
    failed: bool
    tags: Mapping[str, str]
    process: Mapping[str, str]


@dataclass
class StoredTrace:
    """The spans of one trace that have arrived."""

    spans: list[StoredSpan] = field(default_factory=list)

    def matches(self, query: Mapping[str, str]) -> bool:
        """Whether one span of the service fits the search."""
        start, end = int(query.get("start", 0)), int(query.get("end", 2**62))
        failed = '"error"' in query.get("tags", "")
        match = _DURATION.fullmatch(query.get("minDuration", "0us"))
        least = int(match[1]) * _TO_US[match[2]] if match else 0
        for span in self.spans:
            if span.service != query.get("service") or not start <= span.start_us <= end:
                continue
            if span.duration_us >= least and (span.failed or not failed):
                return True
        return False


class LoopbackJaeger:
    """The collector and the query service in one."""

    def __init__(self) -> None:
        self._traces: OrderedDict[str, StoredTrace] = OrderedDict()
        self._lock = threading.Lock()
        self.app = Starlette(
            routes=[
                Route("/v1/traces", self._take, methods=["POST"]),
                Route("/api/services", self._services),
                Route("/api/traces", self._search),
                Route("/api/traces/{trace_id}", self._trace),
                Route("/api/dependencies", self._dependencies),
            ]
        )

    async def _take(self, request: Request) -> JSONResponse:
        body = await request.json()
        with self._lock:
            for trace_id, span in _spans(body):
                self._traces.setdefault(trace_id, StoredTrace()).spans.append(span)
            # Forget the oldest first: a long run must not fill the memory.
            while len(self._traces) > MAX_TRACES:
                self._traces.popitem(last=False)
        return JSONResponse({"partialSuccess": {}})

    async def _services(self, _: Request) -> JSONResponse:
        with self._lock:
            names = {span.service for trace in self._traces.values() for span in trace.spans}
        return JSONResponse({"data": sorted(names), "total": len(names), "errors": None})

    async def _search(self, request: Request) -> JSONResponse:
        return await run_in_threadpool(self._matching_traces, dict(request.query_params))

    def _matching_traces(self, query: Mapping[str, str]) -> JSONResponse:
        most = int(query.get("limit", "20"))
        jaegers: list[dict[str, Any]] = []
        with self._lock:
            # Jaeger gives the latest first.
            for trace_id, trace in reversed(self._traces.items()):
                if len(jaegers) >= most:
                    break
                if trace.matches(query):
                    jaegers.append(_as_jaeger(trace_id, trace))
        return JSONResponse({"data": jaegers, "errors": None})

    async def _trace(self, request: Request) -> JSONResponse:
        trace_id = request.path_params["trace_id"]
        with self._lock:
            trace = self._traces.get(trace_id)
        if trace is None:
            return JSONResponse({"data": None, "errors": [{"code": 404}]}, 404)
        return JSONResponse({"data": [_as_jaeger(trace_id, trace)], "errors": None})

    async def _dependencies(self, _: Request) -> JSONResponse:
        edges: dict[tuple[str, str], int] = {}
        with self._lock:
            for trace in self._traces.values():
                # Who called whom: a span in another service than its parent.
                owners = {span.span_id: span.service for span in trace.spans}
                calls = set()
                for span in trace.spans:
                    caller = owners.get(span.parent_id, span.service)
                    if caller != span.service:
                        calls.add((caller, span.service))
                for edge in calls:
                    edges[edge] = edges.get(edge, 0) + 1
        data = [{"parent": a, "child": b, "callCount": n} for (a, b), n in sorted(edges.items())]
        return JSONResponse({"data": data, "total": len(data), "errors": None})


def _spans(body: Mapping[str, Any]) -> Iterator[tuple[str, StoredSpan]]:
    for group in body["resourceSpans"]:
        process = _values(group["resource"]["attributes"])
        for scope in group["scopeSpans"]:
            for span in scope["spans"]:
                yield span["traceId"], _stored_span(span, process)


def _stored_span(span: Mapping[str, Any], process: Mapping[str, str]) -> StoredSpan:
    # OTLP gives nanoseconds, Jaeger microseconds.
    start = int(span["startTimeUnixNano"]) // 1000
    status = span.get("status", {})
    tags = {**_values(span["attributes"]), "span.kind": _KINDS.get(span["kind"], "internal")}
    if status.get("code") == 2:
        tags |= {"error": "true", "otel.status_code": "ERROR"}
        tags["otel.status_description"] = status.get("message", "")
    return StoredSpan(
        service=process["service.name"],
        span_id=span["spanId"],
        parent_id=span.get("parentSpanId", ""),
        name=span["name"],
        start_us=start,
        duration_us=int(span["endTimeUnixNano"]) // 1000 - start,
        failed=status.get("code") == 2,
        tags=tags,
        process={name: value for name, value in process.items() if name != "service.name"},
    )


def _values(attributes: list[dict[str, Any]]) -> dict[str, str]:
    return {
        attribute["key"]: str(attribute["value"].get("stringValue", "")) for attribute in attributes
    }


def _as_jaeger(trace_id: str, trace: StoredTrace) -> dict[str, Any]:
    processes: dict[str, dict[str, Any]] = {}
    spans = []
    for span in trace.spans:
        number = f"{span.service} {span.process.get('k8s.pod.name', '')}"
        processes[number] = {"serviceName": span.service, "tags": _tags(span.process)}
        parent = {"refType": "CHILD_OF", "traceID": trace_id, "spanID": span.parent_id}
        spans.append(
            {
                "traceID": trace_id,
                "spanID": span.span_id,
                "operationName": span.name,
                "references": [parent] if span.parent_id else [],
                "startTime": span.start_us,
                "duration": span.duration_us,
                "tags": _tags(span.tags),
                "logs": [],
                "processID": number,
            }
        )
    return {"traceID": trace_id, "spans": spans, "processes": processes}


def _tags(values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": name, "type": "string", "value": value} for name, value in values.items()]
