"""MongoDB has none: tests/connectors/test_mongodb.py has a server that speaks its protocol."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer

HAS_ANSWERS = False


def settings(url: str) -> dict[str, Any]:
    """A server at a port where nobody listens."""
    return {"mongodb": {"host": "127.0.0.1", "port": 1, "tls": "off"}}


def serve(server: LocalServer) -> None:
    """Nothing is asked over HTTP."""
