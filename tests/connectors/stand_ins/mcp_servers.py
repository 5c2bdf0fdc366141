"""An MCP server without sessions that answers as JSON: a tool that finds tickets."""

from __future__ import annotations

import json
from typing import Any

from tests.connectors.local_http import Asked, LocalServer, Reply

PATH = "/mcp"
READING_POSTS = frozenset({PATH})
ABOUT = {"name": "tickets", "version": "1"}
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": ABOUT,
    },
    "tools/list": {
        "tools": [
            {
                "name": "tickets",
                "description": "Open tickets",
                "inputSchema": {"type": "object"},
                "annotations": {"readOnlyHint": True},
            }
        ]
    },
    "tools/call": {"content": [{"type": "text", "text": "INC-7: cards are refused"}]},
}


def settings(url: str) -> dict[str, Any]:
    """One tool of it."""
    tools = {"tickets": {"arguments": {"query": "{service}"}}}
    return {"mcp_servers": {"url": url + PATH, "token": "mcp-token-41", "tools": tools}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(PATH, answer)


def answer(asked: Asked) -> Reply:
    """To one message."""
    message = json.loads(asked.body)
    if "id" not in message:
        return Reply(b"", status=202)
    result = RESULTS[message["method"]]
    return Reply({"jsonrpc": "2.0", "id": message["id"], "result": result})
