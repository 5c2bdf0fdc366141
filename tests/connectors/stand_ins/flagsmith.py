"""Flagsmith: a flag of checkout is switched on in Production three minutes before the onset, beside
what is for one user and what happened in Staging."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

AUDIT = "/api/v1/projects/12/audit/"
FLIPPED = ONSET - timedelta(minutes=3)
FLIP = 904


def settings(url: str) -> dict[str, Any]:
    """One project."""
    return {"flagsmith": {"url": url, "token": "Qf3kLw9x.0a1b2c3d", "projects": ["12"]}}


def record(number: int, at: datetime, log: str, environment: str | None) -> dict[str, Any]:
    """A record as the specification has it."""
    place = {"id": 3, "uuid": "e-3", "name": environment, "project": 12, "api_key": "key"}
    author = {
        "id": 7,
        "email": "dana@example.com",
        "first_name": "Dana",
        "last_name": "Ng",
        "last_login": None,
    }
    return {
        "id": number,
        "created_date": f"{at:%Y-%m-%dT%H:%M:%S.%f}Z",
        "log": log,
        "author": author,
        "environment": place if environment else None,
        "project": {"id": 12, "uuid": "p-12", "name": "Shop", "organisation": 1},
        "related_object_id": 55,
        "related_object_uuid": None,
        "related_object_type": "FEATURE_STATE",
        "is_system_event": False,
    }


STATE = "Flag state / Remote Config value updated for feature: "
RECORDS = [
    record(
        905,
        FLIPPED + timedelta(minutes=1),
        "Flag state / Remote config value updated for feature 'checkout_new_payment' and "
        "identity 'dana@example.com'",
        "Production",
    ),
    record(FLIP, FLIPPED, f"{STATE}checkout_new_payment", "Production"),
    record(903, FLIPPED - timedelta(minutes=4), f"{STATE}checkout_new_payment", "Staging"),
    record(902, FLIPPED - timedelta(hours=1), "Segment updated: Beta users", None),
    record(
        901,
        FLIPPED - timedelta(hours=2),
        "Flag state / Remote config value updated for feature 'search_ranking' and segment 'beta'",
        "Production",
    ),
    record(12, FLIPPED - timedelta(days=9), f"{STATE}old", "Production"),
]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(AUDIT, answer)
    for one in RECORDS:
        server.on(f"{AUDIT}{one['id']}/", Reply(details(one)))


def answer(asked: Asked) -> Reply:
    """Three records a page, the newest first."""
    page = int(asked.query["page"][0])
    shown = RECORDS[3 * (page - 1) : 3 * page]
    following = "https://api.flagsmith.com/api/v1/projects/12/audit/?page=2" if page == 1 else None
    return Reply({"count": len(RECORDS), "next": following, "previous": None, "results": shown})


def details(one: dict[str, Any]) -> dict[str, Any]:
    """A record with what it changed."""
    changed = [{"field": "enabled", "old": False, "new": True}] if one["id"] == FLIP else []
    return one | {"change_details": changed, "change_type": "UPDATE"}
