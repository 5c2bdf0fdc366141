"""Prometheus: the error ratio of checkout rises at ONSET."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply

STEP_S = 15


def settings(url: str) -> dict[str, Any]:
    """With a query of the operator's own."""
    return {
        "prometheus": {"url": url, "token": "t", "queries": {"mine": 'up{service=~"{service}"}'}}
    }


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    names = ["http_requests_total", "ALERTS", "up"]
    server.on("/api/v1/label/__name__/values", Reply({"status": "success", "data": names}))
    server.on("/api/v1/labels", Reply({"status": "success", "data": ["service", "code"]}))
    server.on("/api/v1/query_range", _range)
    server.on("/api/v1/query", _instant)
    build = dict.fromkeys(
        ("version", "revision", "branch", "buildUser", "buildDate", "goVersion"), "x"
    )
    server.on(
        "/api/v1/status/buildinfo",
        Reply({"status": "success", "data": build | {"version": "3.1.0"}}),
    )
    server.on(
        "/api/v1/status/flags",
        Reply({"status": "success", "data": {"web.enable-admin-api": "false"}}),
    )


def _instant(asked: Asked) -> Reply:
    by_service = "by (service)" in asked.query["query"][0]
    metric = {"service": "checkout"} if by_service else {}
    one = [{"metric": metric, "value": [ALERT_AT.timestamp(), "1"]}]
    return Reply({"status": "success", "data": {"resultType": "vector", "result": one}})


def _range(asked: Asked) -> Reply:
    rows = []
    if "http_requests_total" in asked.query["query"][0]:
        at = ALERT_AT - timedelta(hours=2.5)
        while at <= ALERT_AT:
            rows.append([at.timestamp(), "0.4" if at >= ONSET else "0.01"])
            at += timedelta(seconds=STEP_S)
    series = [{"metric": {"service": "checkout"}, "values": rows}] if rows else []
    return Reply({"status": "success", "data": {"resultType": "matrix", "result": series}})
