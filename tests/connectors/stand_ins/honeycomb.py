"""Honeycomb: checkout fails from ONSET on, two minutes after a marker of its deploy. A query is
done when it is asked for the second time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

QUERIES = "/1/queries/checkout"
RESULTS = "/1/query_results/checkout"
RESULT = f"{RESULTS}/sGUnkBHgRFN"
EVERYWHERE, OWN = "/1/markers/__all__", "/1/markers/checkout"
READING_POSTS = frozenset({QUERIES, RESULTS})
DEPLOYED = ONSET - timedelta(minutes=2)
KEY = "hcaik-5f2c19d7e0b3"


def settings(url: str) -> dict[str, Any]:
    """A key of one environment."""
    return {"honeycomb": {"api_key": KEY, "api_url": url}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    access = {"events": False, "markers": False, "queries": True, "columns": False}
    auth = {
        "id": "hcaik",
        "type": "configuration",
        "api_key_access": access,
        "team": {"name": "Shop", "slug": "shop"},
        "environment": {"name": "prod", "slug": "prod"},
    }
    server.on("/1/auth", Reply(auth))
    names = [("Checkout", "checkout")]
    server.on("/1/datasets", Reply([{"name": name, "slug": slug} for name, slug in names]))
    server.on(OWN, Reply([marker()]))
    server.on(EVERYWHERE, Reply([]))
    asked_for: list[dict[str, Any]] = []

    def create(asked: Asked) -> Reply:
        asked_for.append(json.loads(asked.body))
        return Reply({"id": "mabAMpSPDjH", **asked_for[-1]})

    server.on(QUERIES, create)
    server.on(RESULTS, Reply({"id": "sGUnkBHgRFN", "complete": False}, status=201))
    answers = iter([Reply({"id": "sGUnkBHgRFN", "complete": False})])
    server.on(RESULT, lambda asked: next(answers, None) or Reply(result(asked_for[-1])))


def marker() -> dict[str, Any]:
    """A deploy."""
    return {
        "id": "ab12cd",
        "start_time": round(DEPLOYED.timestamp()),
        "message": "deploy v42",
        "type": "deploy",
        "url": "https://ci.example.com/42",
    }


def result(query: dict[str, Any]) -> dict[str, Any]:
    """The answer to a query once it is complete."""
    series, totals = [], []
    for at_s in range(query["start_time"], query["end_time"], query["granularity"]):
        at = datetime.fromtimestamp(at_s, UTC)
        late = at >= ONSET
        time = at.strftime("%Y-%m-%dT%H:%M:%SZ")
        took = {
            "P50(duration_ms)": 30.0,
            "P99(duration_ms)": 2090.0 if late else 90.0 + at.minute % 5,
        }
        totals.append({"time": time, "data": {"COUNT": 1200, **took}})
        series.append({"time": time, "data": {"COUNT": 720 if late else 1200, "error": False}})
        if late:
            series.append({"time": time, "data": {"COUNT": 480, "error": True}})
    data = {"series": series, "results": [], "total_by_aggregate_series": totals}
    links = {"query_url": "https://ui.honeycomb.io/shop/environments/prod/result/HprJhV1fYy"}
    return {"id": "sGUnkBHgRFN", "complete": True, "data": data, "links": links}
