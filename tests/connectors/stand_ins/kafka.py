"""Kafka has none: tests/connectors/test_kafka.py has brokers that speak its protocol."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer

HAS_ANSWERS = False


def settings(url: str) -> dict[str, Any]:
    """A broker at a port where nobody listens."""
    return {"kafka": {"brokers": "127.0.0.1:1", "tls": "off"}}


def serve(server: LocalServer) -> None:
    """Nothing is asked over HTTP."""
