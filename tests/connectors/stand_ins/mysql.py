"""MySQL has no stand-in: tests/connectors/test_mysql.py asks a real MariaDB."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer

SPEAKS_HTTP = False


def settings(url: str) -> dict[str, Any]:
    """A server at a port where nobody listens."""
    own = {"host": "127.0.0.1", "port": 1, "username": "faultline", "tls": "off"}
    return {"mysql": own}


def serve(server: LocalServer) -> None:
    """Nothing is asked over HTTP."""
