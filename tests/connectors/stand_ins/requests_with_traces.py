"""Requests of checkout, which calls cart: from ONSET on cart fails slowly. As OTLP and as Jaeger's
JSON have them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET

FIRST = ALERT_AT - timedelta(hours=3)
EVERY = timedelta(minutes=1)


@dataclass(frozen=True)
class Call:
    """One request: checkout's span and cart's, times in ns."""

    number: int

    @property
    def at(self) -> datetime:
        return FIRST + self.number * EVERY

    @property
    def trace_id(self) -> str:
        return f"{0xABCDEF0000000000 + self.number:032x}"

    @property
    def bad(self) -> bool:
        return self.at >= ONSET

    @property
    def spans(self) -> list[tuple[str, str, str, str, int, int]]:
        """Service, span, parent, operation, start and duration."""
        start = round(self.at.timestamp()) * 1_000_000_000
        took = 900_000_000 if self.bad else 40_000_000 + self.number % 7 * 1_000_000
        own, callee = f"{0x1000 + self.number:016x}", f"{0x200000 + self.number:016x}"
        return [
            ("checkout", own, "", "POST /checkout", start, took + 20_000_000),
            ("cart", callee, own, "GET /cart", start + 5_000_000, took),
        ]

    def failed(self, service: str) -> bool:
        return self.bad and service in ("cart", "checkout")


CALLS = tuple(Call(n) for n in range(round((ALERT_AT - FIRST) / EVERY)))


def between(start: float, end: float) -> list[Call]:
    """The requests of a window, in seconds since 1970."""
    first, last = datetime.fromtimestamp(start, UTC), datetime.fromtimestamp(end, UTC)
    return [one for one in CALLS if first <= one.at < last]


def otlp(call: Call) -> list[dict[str, Any]]:
    """`resourceSpans` as the OTLP specification writes them."""
    return [
        {
            "resource": {
                "attributes": [_text("service.name", service), _text("service.version", "2.4.1")]
            },
            "scopeSpans": [{"scope": {"name": "http"}, "spans": [_span(call, one)]}],
        }
        for one in call.spans
        for service in one[:1]
    ]


def _span(call: Call, one: tuple[str, str, str, str, int, int]) -> dict[str, Any]:
    service, span, parent, operation, start, took = one
    made: dict[str, Any] = {
        "traceId": call.trace_id,
        "spanId": span,
        "name": operation,
        "kind": 2,
        "startTimeUnixNano": str(start),
        "endTimeUnixNano": str(start + took),
        "attributes": [_text("http.route", operation.split()[1])],
        "status": {"code": 2, "message": "pool timeout"} if call.failed(service) else {},
    }
    return made | ({"parentSpanId": parent} if parent else {})


def _text(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def jaeger(call: Call) -> dict[str, Any]:
    """One trace in Jaeger's own JSON."""
    spans = []
    for service, span, parent, operation, start, took in call.spans:
        tags: list[dict[str, Any]] = [{"key": "span.kind", "type": "string", "value": "server"}]
        tags += [{"key": "error", "type": "bool", "value": True}] if call.failed(service) else []
        own = {"refType": "CHILD_OF", "traceID": call.trace_id, "spanID": parent}
        spans.append(
            {
                "traceID": call.trace_id,
                "spanID": span,
                "operationName": operation,
                "references": [own] if parent else [],
                "startTime": start // 1000,
                "duration": took // 1000,
                "tags": tags,
                "logs": [],
                "processID": f"p-{service}",
                "warnings": None,
            }
        )
    processes: dict[str, Any] = {
        f"p-{service}": {"serviceName": service, "tags": []} for service in ("checkout", "cart")
    }
    return {"traceID": call.trace_id, "spans": spans, "processes": processes, "warnings": None}
