"""NATS has no stand-in: tests/connectors/test_nats.py asks a real server."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer

HAS_ANSWERS = False


def settings(url: str) -> dict[str, Any]:
    """A server at a port where nobody listens."""
    return {"nats": {"url": "http://127.0.0.1:1"}}


def serve(server: LocalServer) -> None:
    """Nothing is asked here: it tells of now, and other tests ask of the past."""
