"""A provider's page made with Statuspage: an outage from a minute before ONSET on, one that is over
and one without impact. The fields are those of the live pages (`/api/v2/incidents.json`)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply

PATH = "/api/v2/incidents.json"
BEGAN = ONSET - timedelta(minutes=1)


def settings(url: str) -> dict[str, Any]:
    """The page of a provider that checkout needs."""
    own = {"provider": "Stripe", "url": url, "called_as": ["stripe.com"], "used_by": ["checkout"]}
    return {"status_pages": own}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(PATH, Reply({"page": {"id": "1"}, "incidents": incidents()}))


def incidents() -> list[dict[str, Any]]:
    """The newest first."""
    over = ALERT_AT - timedelta(days=1)
    return [
        incident("Elevated API errors", "major", "identified", BEGAN),
        incident("Dashboard notice", "none", "investigating", BEGAN),
        incident("Slow webhooks", "minor", "resolved", over, over + timedelta(hours=1)),
    ]


def incident(name: str, impact: str, status: str, since: Any, until: Any = None) -> dict[str, Any]:
    """One incident as the page has it."""
    return {
        "id": "p31zjtct2jer",
        "name": name,
        "status": status,
        "impact": impact,
        "created_at": since.isoformat(),
        "started_at": since.isoformat(),
        "updated_at": since.isoformat(),
        "monitoring_at": None,
        "resolved_at": until.isoformat() if until else None,
        "shortlink": "https://stspg.io/p31zjtct2jer",
        "page_id": "1",
        "incident_updates": [{"id": "u1", "status": status, "body": "We are looking into it."}],
        "components": [{"id": "c1", "name": "API", "status": "partial_outage", "group": False}],
    }
