"""PagerDuty: one incident of the checkout service."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer
from tests.connectors.pagerduty_server import serve_incident


def settings(url: str) -> dict[str, Any]:
    """With a service that the catalogue knows by its id."""
    return {
        "pagerduty": {"api_token": "t", "api_url": url},
        "services": {"cart": {"pagerduty_service": "PCART01"}},
    }


def serve(server: LocalServer) -> None:
    """The incident and everything around it."""
    serve_incident(server)
