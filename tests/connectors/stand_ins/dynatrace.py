"""Dynatrace: checkout fails from ONSET on, two minutes after an event of its deployment, and Davis
opened a problem. The shapes are those of the documentation; a slot's time is its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.connectors.vendors.dynatrace import rows as tables
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
TOKEN = "dt0c01.ST2EY72KQINMH574WMNVI7YN.G3DFPBEJYMODIDAEX454M7YWBUVEFOWKPRVMWFASS64NFH52PX6B"
SERVICE = "SERVICE-1A2B3C4D5E6F7081"
DEPLOYED = ONSET - timedelta(minutes=2)
ENTITIES, METRICS, QUERY, PROBLEMS, EVENTS = (
    f"/api/v2/{part}" for part in ("entities", "metrics", "metrics/query", "problems", "events")
)


def settings(url: str) -> dict[str, Any]:
    """One environment."""
    return {"dynatrace": {"url": url, "token": TOKEN}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(ENTITIES, entities)
    server.on(METRICS, Reply({"totalCount": 0, "nextPageKey": None, "metrics": []}))
    server.on(QUERY, series)
    server.on(PROBLEMS, Reply({"totalCount": 1, "pageSize": 200, "problems": [problem()]}))
    server.on(EVENTS, events)


def ms(at: datetime) -> int:
    """ms since 1970."""
    return round(at.timestamp() * 1000)


def checkout() -> dict[str, Any]:
    """The service, as other entities name it."""
    return {"entityId": {"id": SERVICE, "type": "SERVICE"}, "name": "checkout"}


def entities(asked: Asked) -> Reply:
    """Those that the selector names."""
    selector = asked.query.get("entitySelector", [""])[0]
    own = {"entityId": SERVICE, "type": "SERVICE", "displayName": "checkout"}
    found = [own] if '"checkout"' in selector else []
    return Reply({"totalCount": len(found), "pageSize": 50, "entities": found})


def series(asked: Asked) -> Reply:
    """Minutes of the window."""
    assert asked.query["resolution"] == ["1m"]
    assert SERVICE in asked.query["entitySelector"][0]
    start, end = (int(asked.query[name][0]) // 60_000 for name in ("from", "to"))
    result = []
    for metric in asked.query["metricSelector"][0].split(",builtin"):
        name = metric if metric.startswith("builtin") else f"builtin{metric}"
        points = [(minute, value_of(name, minute)) for minute in range(start, end)]
        one = {
            "dimensions": [SERVICE],
            "dimensionMap": {"dt.entity.service": SERVICE},
            "timestamps": [(minute + 1) * 60_000 for minute, _ in points],
            "values": [value for _, value in points],
        }
        result.append({"metricId": name, "data": [one]})
    return Reply({"totalCount": 4, "nextPageKey": None, "resolution": "1m", "result": result})


def value_of(metric: str, minute: int) -> float | None:
    """A metric in a minute; none failed is no value."""
    late = datetime.fromtimestamp(minute * 60, UTC) >= ONSET
    usual = {tables.REQUESTS: 1200.0, tables.FAILED: None, tables.P50: 30_000.0}
    failing = {tables.REQUESTS: 1200.0, tables.FAILED: 480.0, tables.P50: 40_000.0}
    slowest = 2_090_000.0 if late else 90_000.0 + minute % 5 * 1000
    return (failing if late else usual).get(metric, slowest)


def problem() -> dict[str, Any]:
    """An open one."""
    return {
        "problemId": "-6004362228644432354_1772452920000V2",
        "displayId": "P-26031",
        "title": "Failure rate increase",
        "impactLevel": "SERVICES",
        "severityLevel": "ERROR",
        "status": "OPEN",
        "affectedEntities": [checkout()],
        "impactedEntities": [checkout()],
        "rootCauseEntity": checkout(),
        "startTime": ms(ONSET + timedelta(minutes=2)),
        "endTime": -1,
    }


def events(asked: Asked) -> Reply:
    """The deployment."""
    event = {
        "eventId": "-8823716483214567890_1772452560000",
        "eventType": "CUSTOM_DEPLOYMENT",
        "title": "Deploy checkout",
        "startTime": ms(DEPLOYED),
        "endTime": ms(DEPLOYED),
        "entityId": checkout(),
        "properties": [{"key": "dt.event.deployment.version", "value": "v42"}],
        "status": "CLOSED",
    }
    wanted = asked.query.get("eventSelector", [""])[0]
    found = [event] if "CUSTOM_DEPLOYMENT" in wanted else []
    return Reply({"totalCount": len(found), "pageSize": 200, "events": found, "warnings": []})
