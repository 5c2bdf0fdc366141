"""Splunk Observability Cloud: checkout fails from ONSET on, two minutes after the event of its
deployment, and a detector noticed. The shapes are those of the API reference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.connectors.vendors.splunk_observability import rows as tables
from faultline.connectors.vendors.splunk_observability.connector import (
    ALERTS,
    EVENTS,
    POINTS,
    SERIES,
)
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
TOKEN = "kT3vO1fXq8ZrW0aLsJ5b9g"
DEPLOYED = ONSET - timedelta(minutes=2)
METRICS = (tables.REQUESTS, tables.P50, tables.P99)


def settings(url: str) -> dict[str, Any]:
    """One organization."""
    return {"splunk_observability": {"url": url, "token": TOKEN}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(SERIES, series)
    server.on(POINTS, points)
    server.on(ALERTS, Reply([alert()]))
    server.on(EVENTS, events)


def ms(at: datetime) -> int:
    """ms since 1970."""
    return round(at.timestamp() * 1000)


def known() -> list[dict[str, Any]]:
    """Each metric of requests that succeed, and of those that fail."""
    found = []
    for metric in METRICS:
        for error in ("false", "true"):
            dimensions = {"sf_service": "checkout", "sf_environment": "prod", "sf_error": error}
            kind = "COUNTER" if metric == tables.REQUESTS else "GAUGE"
            found.append(
                {
                    "id": f"{metric}/{error}",
                    "metric": metric,
                    "type": kind,
                    "dimensions": dimensions,
                    "customProperties": {},
                    "tags": [],
                }
            )
    return found


def series(asked: Asked) -> Reply:
    """Those that the query names."""
    query = asked.query["query"][0]
    found = known() if '"checkout"' in query or query == f"sf_metric:{tables.REQUESTS}" else []
    return Reply({"count": len(found), "isPartialCount": False, "results": found})


def points(asked: Asked) -> Reply:
    """Slots of the window."""
    assert asked.query["resolution"] == ["60000"]
    assert asked.query["endMs"] == asked.query["endMS"]
    start, end = (int(asked.query[name][0]) // 60_000 for name in ("startMs", "endMs"))
    data = {}
    for one in known():
        values = [
            [minute * 60_000, value_of(one["metric"], one["dimensions"]["sf_error"], minute)]
            for minute in range(start, end)
        ]
        data[one["id"]] = [point for point in values if point[1] is not None]
    return Reply({"data": data, "errors": []})


def value_of(metric: str, error: str, minute: int) -> float | None:
    """A metric in a minute; where nothing failed, there is no value."""
    late = datetime.fromtimestamp(minute * 60, UTC) >= ONSET
    if error == "true" and not late:
        return None
    if metric == tables.REQUESTS:
        return {"true": 480.0, "false": 720.0 if late else 1200.0}[error]
    if metric == tables.P50:
        # Failed requests wait until they give up.
        return 2_000e6 if error == "true" else 30e6
    return 2_090e6 if late else 90e6 + minute % 5 * 1e6


def alert() -> dict[str, Any]:
    """One that is active."""
    event = {
        "anomalyState": "ANOMALOUS",
        "detectLabel": "error rate is high",
        "detectorId": "FzAbCdEAAAA",
        "detectorName": "checkout errors",
        "id": "FzAbCdFAAAA",
        "incidentId": "FzAbCdGAAAA",
        "inputs": [{"dimensions": {"sf_service": "checkout"}, "fragment": "A", "value": 0.4}],
        "severity": "Critical",
        "timestamp": ms(ONSET + timedelta(minutes=2)),
    }
    return {
        "active": True,
        "anomalyState": "ANOMALOUS",
        "detectLabel": "error rate is high",
        "detectorId": "FzAbCdEAAAA",
        "duration": None,
        "events": [event],
        "incidentId": "FzAbCdGAAAA",
        "linkedTeams": None,
        "severity": "Critical",
    }


def events(asked: Asked) -> Reply:
    """The deployment, and something that is no change."""
    assert asked.query["query"] == ["sf_eventCategory:USER_DEFINED"]
    deployed = {
        "id": "GaBcDeFAAAA",
        "metadata": {"sf_service": "checkout"},
        "properties": {"description": "Deploy checkout", "version": "v42"},
        "sf_eventCategory": "USER_DEFINED",
        "sf_eventCreatedOnMs": ms(DEPLOYED),
        "sf_eventType": "deployment.started",
        "timestamp": ms(DEPLOYED),
        "tsId": "XzZYApXCDCD",
    }
    return Reply([deployed, deployed | {"id": "GaBcDeGAAAA", "sf_eventType": "standup"}])
