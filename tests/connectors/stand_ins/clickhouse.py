"""ClickHouse has no stand-in: tests/connectors/test_clickhouse.py asks its own engine."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer

HAS_ANSWERS = False


def settings(url: str) -> dict[str, Any]:
    """A user with a password."""
    return {"clickhouse": {"url": url, "username": "faultline", "token": "secret"}}


def serve(server: LocalServer) -> None:
    """Nothing is asked of it."""
