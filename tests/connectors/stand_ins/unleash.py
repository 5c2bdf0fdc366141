"""Unleash: a flag of checkout is enabled in production three minutes before the onset, and one
strategy is rolled out to more users before."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

EVENTS = "/api/admin/search/events"
FLIPPED = ONSET - timedelta(minutes=3)


def settings(url: str) -> dict[str, Any]:
    """One server."""
    return {"unleash": {"url": url, "token": "user:0a1b2c3d"}}


def event(number: int, at: datetime, kind: str, **more: Any) -> dict[str, Any]:
    """An event as the specification has it."""
    made = {
        "id": number,
        "type": kind,
        "createdBy": "dana@example.com",
        "createdByUserId": 7,
        "createdAt": f"{at:%Y-%m-%dT%H:%M:%S.%f}"[:-3] + "Z",
        "data": None,
        "preData": None,
        "tags": [],
        "featureName": "checkout.newPayment",
        "project": "shop",
        "environment": "production",
        "label": "Flag changed",
        "summary": "**dana@example.com** changed *checkout.newPayment*",
    }
    return made | more


def strategy(rollout: str, emails: list[str]) -> dict[str, Any]:
    """A gradual rollout with a constraint."""
    constraint = {"contextName": "email", "operator": "IN", "values": emails}
    return {
        "id": "s-1",
        "name": "flexibleRollout",
        "parameters": {"rollout": rollout, "stickiness": "default"},
        "constraints": [constraint],
    }


EVENTS_OF_SHOP = [
    event(44, FLIPPED, "feature-environment-enabled"),
    event(
        43,
        FLIPPED - timedelta(minutes=9),
        "feature-environment-enabled",
        environment="development",
    ),
    event(
        42,
        FLIPPED - timedelta(hours=1),
        "feature-strategy-update",
        createdBy="Lee",
        featureName="search-ranking",
        preData=strategy("10", ["a@example.com"]),
        data=strategy("100", ["a@example.com", "b@example.com"]),
    ),
    event(3, FLIPPED - timedelta(days=9), "feature-archived", environment=None),
]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(EVENTS, answer)


def answer(asked: Asked) -> Reply:
    """The events of whole days, two a page, the newest first."""
    start, end = (asked.query[name][0].removeprefix("IS:") for name in ("from", "to"))
    wanted = asked.query["type"][0].removeprefix("IS_ANY_OF:").split(",")
    found = []
    for one in EVENTS_OF_SHOP:
        if one["type"] in wanted and start <= one["createdAt"][:10] <= end:
            found.append(one)
    offset = int(asked.query.get("offset", ["0"])[0])
    return Reply({"events": found[offset : offset + 2], "total": len(found)})
