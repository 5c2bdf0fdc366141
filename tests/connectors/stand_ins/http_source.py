"""An in-house API of feature rollouts: one for checkout just before ONSET."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import LocalServer, Reply

PATH = "/api/rollouts"
AT = ONSET - timedelta(minutes=3)


def settings(url: str) -> dict[str, Any]:
    """Its rollouts as changes."""
    own = {
        "url": url,
        "token": "rollouts-7f31",
        "token_header": "X-Api-Key",
        "path": PATH,
        "params": {"service": "{service}", "from": "{start_ms}", "to": "{end}"},
        "table": "changes",
        "items": "data.rollouts",
        "columns": {
            "time": "at",
            "kind": "'flag'",
            "id": "id",
            "title": "join(' ', ['switch', name, to_string(share), '%'])",
            "author": "by.name",
            "link": "url",
        },
        "link": "https://rollouts.example.com/{service}?at={start_s}",
    }
    return {"http_source": own}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(PATH, Reply({"data": {"rollouts": [rollout()]}}))


def rollout(**more: Any) -> dict[str, Any]:
    """One entry."""
    url = "https://rollouts.example.com/r/8"
    own = {"id": 8, "name": "new-cart", "share": 50, "by": {"name": "dana"}, "url": url}
    return {"at": AT.timestamp() * 1000, **own, **more}
