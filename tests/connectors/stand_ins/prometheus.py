"""Prometheus: names, labels and no samples."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer, Reply


def settings(url: str) -> dict[str, Any]:
    """With a query of the operator's own."""
    return {"prometheus": {"url": url, "token": "t", "queries": {"mine": 'up{service=~"{service}"}'}}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    names = ["http_requests_total", "ALERTS", "up"]
    server.on("/api/v1/label/__name__/values", Reply({"status": "success", "data": names}))
    server.on("/api/v1/labels", Reply({"status": "success", "data": ["service", "code"]}))
    server.on("/api/v1/query_range", Reply({"status": "success", "data": {"resultType": "matrix", "result": []}}))
    server.on("/api/v1/query", Reply({"status": "success", "data": {}}))
