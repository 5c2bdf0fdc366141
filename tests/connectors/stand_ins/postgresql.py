"""PostgreSQL has no stand-in: tests/connectors/test_postgresql.py asks real servers."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer

HAS_ANSWERS = False


def settings(url: str) -> dict[str, Any]:
    """A server at a port where nobody listens."""
    own = {"host": "127.0.0.1", "port": 1, "username": "faultline", "tls": "off"}
    return {"postgresql": own}


def serve(server: LocalServer) -> None:
    """Nothing is asked over HTTP."""
