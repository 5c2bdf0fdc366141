"""Alertmanager: checkout's alert fires, one of cart is silenced, one inhibited."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset()
SILENCE = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1ff"


def settings(url: str) -> dict[str, Any]:
    """Its API beside the webhook's token."""
    return {"alertmanager": {"url": url, "token": "t"}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on("/api/v2/alerts", Reply(alerts()))
    server.on("/api/v2/silences", Reply([silence()]))
    server.on("/api/v2/status", Reply(status()))


def alerts() -> list[dict[str, Any]]:
    """As GET /api/v2/alerts gives them."""
    return [
        alert("CheckoutErrors", "checkout", ONSET + timedelta(minutes=2)),
        alert("CartSlow", "cart", ONSET - timedelta(hours=1), silenced=[SILENCE]),
        alert("CartErrors", "cart", ONSET + timedelta(minutes=3), inhibited=["c0ffee"]),
    ]


def alert(
    name: str,
    service: str,
    since: datetime,
    silenced: list[str] | None = None,
    inhibited: list[str] | None = None,
) -> dict[str, Any]:
    """One alert."""
    state = {
        "state": "suppressed" if silenced or inhibited else "active",
        "silencedBy": silenced or [],
        "inhibitedBy": inhibited or [],
        "mutedBy": [],
    }
    return {
        "labels": {"alertname": name, "service": service, "severity": "page"},
        "annotations": {"summary": f"{service} is not well"},
        "startsAt": iso(since),
        "updatedAt": iso(ALERT_AT),
        "endsAt": iso(ALERT_AT + timedelta(minutes=4)),
        "generatorURL": "http://prometheus:9090/graph?g0.expr=up",
        "fingerprint": f"{crc32(name.encode()):016x}",
        "receivers": [{"name": "faultline"}],
        "status": state,
    }


def silence() -> dict[str, Any]:
    """As GET /api/v2/silences gives it."""
    matchers = [{"name": "service", "value": "cart", "isRegex": False, "isEqual": True}]
    matchers.append(
        {"name": "alertname", "value": "CartSlow|CartCold", "isRegex": True, "isEqual": True}
    )
    return {
        "id": SILENCE,
        "matchers": matchers,
        "startsAt": iso(ALERT_AT - timedelta(hours=2)),
        "endsAt": iso(ALERT_AT + timedelta(hours=2)),
        "updatedAt": iso(ALERT_AT - timedelta(hours=2)),
        "createdBy": "dana",
        "comment": "cart is being moved",
        "annotations": {},
        "status": {"state": "active"},
    }


def status() -> dict[str, Any]:
    """As GET /api/v2/status gives it."""
    names = ("version", "revision", "branch", "buildUser", "buildDate", "goVersion")
    return {
        "cluster": {"status": "disabled", "peers": []},
        "config": {"original": "route: {receiver: faultline}"},
        "uptime": iso(ALERT_AT - timedelta(days=3)),
        "versionInfo": dict.fromkeys(names, "x") | {"version": "0.28.1"},
    }


def iso(at: datetime) -> str:
    """A time as Go writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
