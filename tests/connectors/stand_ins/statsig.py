"""Statsig: a gate of checkout is rolled out to everybody three minutes before the onset, beside a
tag that was removed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

AUDIT_LOGS = "/console/v1/audit_logs"
FLIPPED = ONSET - timedelta(minutes=3)


def settings(url: str) -> dict[str, Any]:
    """One project."""
    return {"statsig": {"url": url, "token": "console-0a1b2c3d"}}


def entry(name: str, at: datetime, action: str, said: str, changes: Any) -> dict[str, Any]:
    """An entry as the specification's example has it."""
    return {
        "id": f"25KPZcLjTY7AS1uZ{at:%d%H%M}",
        "name": name,
        "changeLog": said,
        "actionType": action,
        "date": f"{at:%a %b %d %Y}",
        "time": f"{at:%H:%M:%S} GMT+0000 (Coordinated Universal Time)",
        "updatedBy": "Jane Doe",
        "updatedByUserID": "4eoDlYj7svJixZfDsYSn",
        "changes": changes,
        "tags": [],
        "targetAppIDs": [],
    }


def rule(percent: int, people: list[str]) -> dict[str, Any]:
    """A rule of a gate."""
    condition = {"conditionType": 1, "operator": 0, "value": people, "extraConfig": {}}
    return {
        "groupName": "everybody",
        "percentagePass": percent,
        "conditionJSON": [condition],
        "id": "BfGswoMDcsZ4y9Le1d9O",
        "environment": "production",
    }


ENTRIES = [
    entry("checkout", FLIPPED + timedelta(minutes=1), "config_remove_tag", "Removed Tag", {}),
    entry(
        "checkout_new_payment",
        FLIPPED,
        "gate_update",
        "Updated Gate Rules",
        {"rules": {"old": [rule(5, ["x@example.com"])], "new": [rule(100, ["y@example.com"])]}},
    ),
    entry("old", FLIPPED - timedelta(days=9), "gate_create", "Created Gate", {}),
]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(AUDIT_LOGS, answer)


def answer(asked: Asked) -> Reply:
    """One entry a page, the newest first."""
    page = int(asked.query["page"][0])
    shown = ENTRIES[page - 1 : page]
    here = "statsigapi.net/console/v1/audit_logs?limit=1&page="
    pagination = {
        "itemsPerPage": 1,
        "pageNumber": page,
        "totalItems": len(ENTRIES),
        "nextPage": f"{here}{page + 1}" if page < len(ENTRIES) else None,
        "previousPage": f"{here}{page - 1}" if page > 1 else None,
        "all": "statsigapi.net/console/v1/audit_logs",
    }
    body = {"message": "Audit logs listed successfully.", "data": shown, "pagination": pagination}
    return Reply(body)
