"""A small Slack on loopback: the Web API methods we call, and Socket Mode's websocket."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import WSMsgType, web


@dataclass
class Slack:
    """What was asked of it, and how it shall behave."""

    calls: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    threads: dict[str, dict[str, Any]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    slow_s: dict[str, float] = field(default_factory=dict)
    acknowledged: list[str] = field(default_factory=list)
    sockets: list[web.WebSocketResponse] = field(default_factory=list)
    stale_tickets: int = 0
    team: str = "T1"
    users: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    given: dict[str, dict[str, Any]] = field(default_factory=dict)
    port: int = 0
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)

    @property
    def api_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/api"

    async def method(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        is_json = request.content_type == "application/json"
        fields = (
            await request.json() if is_json else dict(await request.post()) or dict(request.query)
        )
        self.calls[name].append({**fields, "token": request.headers.get("authorization", "")})
        await asyncio.sleep(self.slow_s.get(name, 0))
        if name in self.broken:
            return web.json_response({"ok": False, "error": "internal_error"}, status=500)
        if name in self.errors:
            return web.json_response({"ok": False, "error": self.errors[name]})
        return web.json_response({"ok": True, **self.answer(name, fields)})

    def answer(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        if name in self.given:
            return self.given[name]
        if name == "apps.connections.open":
            ticket = len(self.calls[name])
            return {"url": f"ws://127.0.0.1:{self.port}/socket?ticket={ticket}"}
        if name == "auth.test":
            return {"user_id": "U0BOT", "bot_id": "B0US", "team_id": self.team}
        if name == "users.info":
            return {"user": {"id": fields["user"], "team_id": self.team, **self._user(fields)}}
        if name == "conversations.replies":
            return {
                "messages": [self.threads[fields["ts"]]] if fields["ts"] in self.threads else []
            }
        return {"ts": "1763690001.000100", "channel": fields.get("channel")}

    def _user(self, fields: dict[str, Any]) -> dict[str, Any]:
        return self.users.get(fields["user"], {})

    async def socket(self, request: web.Request) -> web.StreamResponse:
        if int(request.query["ticket"]) <= self.stale_tickets:
            return web.Response(status=403)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(socket)
        async for message in socket:
            if message.type == WSMsgType.TEXT:
                self.acknowledged.append(json.loads(message.data)["envelope_id"])
        return socket

    def send(
        self,
        payload: dict[str, Any],
        *,
        envelope: str = "N1",
        attempt: int = 0,
        kind: str = "events_api",
    ) -> None:
        """Send an event, or what `kind` says, down the newest socket."""
        body = {
            "type": kind,
            "envelope_id": envelope,
            "accepts_response_payload": False,
            "retry_attempt": attempt,
            "retry_reason": "timeout" if attempt else "",
            "payload": payload,
        }
        asyncio.run_coroutine_threadsafe(self.sockets[-1].send_json(body), self.loop).result(5)

    def hang_up(self) -> None:
        """Close the newest socket, as Slack does now and then."""
        asyncio.run_coroutine_threadsafe(self.sockets[-1].close(), self.loop).result(5)


@contextmanager
def slack_on_loopback() -> Iterator[Slack]:
    """Serve a Slack in a separate thread."""
    slack = Slack()
    app = web.Application()
    app.router.add_route("*", "/api/{name}", slack.method)
    app.router.add_get("/socket", slack.socket)
    runner = web.AppRunner(app, shutdown_timeout=0.2)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        slack.port = runner.addresses[0][1]

    thread = threading.Thread(target=slack.loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), slack.loop).result(5)
    yield slack
    for socket in slack.sockets:
        asyncio.run_coroutine_threadsafe(socket.close(), slack.loop).result(5)
    asyncio.run_coroutine_threadsafe(runner.cleanup(), slack.loop).result(5)
    slack.loop.call_soon_threadsafe(slack.loop.stop)
    thread.join(5)
    slack.loop.close()
