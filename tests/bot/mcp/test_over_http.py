"""The server over real HTTP: the official client with a token, and requests that get no answer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

from faultline.bot.mcp.callers import Caller
from faultline.bot.mcp.over_http import MAX_BODY_BYTES, McpOverHttp, Resource, caller_of_request
from faultline.bot.store.visibility import NOTHING_APART
from faultline.loopback.bot_process import free_port
from tests.bot.mcp.stored import Stored, agent_at, text_of

if TYPE_CHECKING:
    from mcp import Client

TOKENS = {
    "reads": Caller("token r", "reading", "viewer", NOTHING_APART),
    "asks": Caller("token a", "asking", "responder", NOTHING_APART),
}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
TAKES = {"accept": "application/json, text/event-stream"}


class Served:
    """A store that is served over HTTP."""

    def __init__(self, stored: Stored) -> None:
        self.stored = stored
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.tokens = dict(TOKENS)
        self.wrong = 0
        self.app = McpOverHttp(
            stored.server(caller_of_request),
            Resource(self.url, ["https://login.example.com"], ["openid", "email"]),
            self.caller_of,
            self.refused,
        )
        app = Starlette(routes=self.app.routes, lifespan=lambda _: self.app.running())
        config = uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.01)

    async def caller_of(self, token: str) -> Caller | None:
        return self.tokens.get(token)

    def refused(self, _request: Any) -> int:
        self.wrong += 1
        return 60 if self.wrong > 3 else 0

    def post(self, json: Any = PING, **headers: str) -> httpx.Response:
        given = {**TAKES, **{name.replace("_", "-"): value for name, value in headers.items()}}
        return httpx.post(f"{self.url}/mcp", json=json, headers=given, timeout=30)

    def told(self, token: str, story: Any, mode: Any = "auto") -> Any:
        async def whole() -> Any:
            headers = {"authorization": f"Bearer {token}"}
            async with agent_at(self.url, mode, headers=headers, timeout=30) as client:
                return await story(client)

        return asyncio.run(whole())

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(timeout=20)
        self.stored.engine.dispose()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    running = Served(Stored(tmp_path))
    yield running
    running.stop()


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_an_agent_with_a_token_gets_the_answer_and_progress(served: Served, mode: str) -> None:
    one = served.stored.answered()
    lines: list[str] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        lines.append(message or "")

    async def story(client: Client) -> Any:
        waited = await client.call_tool("wait", {"investigation": one}, progress_callback=heard)
        assert waited.structured_content["status"] == "done"
        answer = await client.call_tool("answer", {"investigation": one})
        report = await client.read_resource(f"faultline://cases/{one}/report.md")
        assert "checkout" in text_of(report)
        return answer.structured_content

    assert served.told("reads", story, mode)["verdict"] == "cause_found"
    assert lines == ["4 findings"]
    assert ("token r", "answer", one, "") in served.stored.audit


def test_each_token_has_its_own_role(served: Served) -> None:
    async def begun(client: Client) -> Any:
        return await client.call_tool("investigate", {"question": "slow", "wait_s": 0})

    assert served.told("reads", begun).is_error
    assert served.told("asks", begun).structured_content["status"] == "accepted"


def test_without_a_token_the_client_learns_where_to_get_one(served: Served) -> None:
    answer = served.post()
    assert answer.status_code == 401
    told = answer.headers["www-authenticate"]
    address = f"{served.url}/.well-known/oauth-protected-resource/mcp"
    assert told.startswith("Bearer ")
    assert f'resource_metadata="{address}"' in told
    assert 'scope="openid email"' in told
    metadata = httpx.get(address).json()
    assert metadata["scopes_supported"] == ["openid", "email"]
    assert metadata["resource"] == f"{served.url}/mcp"
    assert metadata["authorization_servers"] == ["https://login.example.com"]
    assert metadata["bearer_methods_supported"] == ["header"]
    in_the_address = httpx.post(f"{served.url}/mcp?access_token=asks", json=PING, headers=TAKES)
    assert in_the_address.status_code == 401


def test_a_wrong_token_is_refused_and_soon_not_looked_at(served: Served) -> None:
    statuses = [served.post(authorization="Bearer guess").status_code for _ in range(5)]
    assert statuses == [401, 401, 401, 429, 429]
    assert 'error="invalid_token"' not in served.post(authorization="Basic x").headers.get(
        "www-authenticate", ""
    )
    assert served.post(authorization="Bearer reads").status_code == 200


def test_a_revoked_token_ends_with_the_next_request(served: Served) -> None:
    assert served.post(authorization="Bearer reads").status_code == 200
    del served.tokens["reads"]
    assert served.post(authorization="Bearer reads").status_code == 401


def test_pages_of_other_sites_and_large_requests_are_refused(served: Served) -> None:
    token = "Bearer reads"
    foreign = served.post(authorization=token, origin="https://evil.example")
    assert foreign.status_code == 403
    assert served.post(authorization=token, origin="null").status_code == 403
    assert served.post(authorization=token, origin=served.url).status_code == 200
    large = {**PING, "params": {"x": "y" * MAX_BODY_BYTES}}
    assert served.post(large, authorization=token).status_code == 413
    for method in ("GET", "DELETE", "PUT"):
        answer = httpx.request(method, f"{served.url}/mcp", headers={"authorization": token})
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
