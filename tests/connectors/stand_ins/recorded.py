"""The recorded case speaks to nobody."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer


def settings(_: str) -> dict[str, Any]:
    """The case's folder is given by the test."""
    return {}


def serve(_: LocalServer) -> None:
    """Nothing is asked."""
