"""Loki: checkout logs an order a second as ever, and from ONSET on errors of a separate kind."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
FIRST = ALERT_AT - timedelta(hours=3)
TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736"
FAILURE = "could not reserve stock: connection refused by cart:8080"

Line = tuple[datetime, str, str]


def settings(url: str) -> dict[str, Any]:
    """With a tenant and links to Grafana."""
    return {"loki": {"url": url, "token": "t", "tenant": "acme"}}


def lines() -> list[Line]:
    """Time, level and text: six a minute, and six errors a minute from ONSET on."""
    made: list[Line] = []
    for n in range(round((ALERT_AT - FIRST) / timedelta(seconds=10))):
        at = FIRST + n * timedelta(seconds=10)
        made.append((at, "info", f"order {10_000 + n} placed in {20 + n % 9} ms"))
        if at >= ONSET:
            made.append((at + timedelta(seconds=3), "error", f"{FAILURE} (order {10_000 + n})"))
    return made


LINES = lines()


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(
        "/loki/api/v1/labels",
        Reply({"status": "success", "data": ["namespace", "pod", "service_name"]}),
    )
    names = ["cart", "checkout"]
    server.on("/loki/api/v1/label/service_name/values", Reply({"status": "success", "data": names}))
    server.on("/loki/api/v1/status/buildinfo", Reply({"version": "3.5.1", "revision": "abc"}))
    server.on("/loki/api/v1/query_range", answer)


def answer(asked: Asked) -> Reply:
    """Lines, or counts of them."""
    query = asked.query["query"][0]
    found = LINES if '="checkout"' in query else []
    if "count_over_time" in query:
        return _counts(asked, found)
    start, end = (int(asked.query[name][0]) / 1e9 for name in ("start", "end"))
    bad = "detected_level=~" in query or "|~" in query
    inside = [
        one for one in found if start <= one[0].timestamp() < end and (not bad or one[1] == "error")
    ]
    return Reply(_streams(inside[: int(asked.query["limit"][0])]))


def _streams(found: list[Line]) -> dict[str, Any]:
    values = [
        [
            str(round(at.timestamp()) * 1_000_000_000),
            text,
            {"structuredMetadata": {"detected_level": level, "trace_id": TRACE_ID}},
        ]
        for at, level, text in found
    ]
    labels = {"service_name": "checkout", "namespace": "shop", "pod": "checkout-7d9f"}
    result = [{"stream": labels, "values": values}] if values else []
    data = {
        "resultType": "streams",
        "result": result,
        "encodingFlags": ["categorize-labels"],
        "stats": {},
    }
    return {"status": "success", "data": data}


def _counts(asked: Asked, found: list[Line]) -> Reply:
    """The count at a moment is of the step that ends there, that moment included."""
    start, end = (int(asked.query[name][0]) for name in ("start", "end"))
    step = int(re.fullmatch(r"(\d+)s", asked.query["step"][0])[1])  # type: ignore[index]
    result = []
    for level in ("info", "error"):
        times = [at.timestamp() for at, own, _ in found if own == level]
        points = []
        for moment in range(start, end + 1, step):
            count = sum(moment - step < t <= moment for t in times)
            points += [[moment, str(count)]] if count else []
        if points:
            result.append({"metric": {"detected_level": level}, "values": points})
    return Reply(
        {"status": "success", "data": {"resultType": "matrix", "result": result, "stats": {}}}
    )
