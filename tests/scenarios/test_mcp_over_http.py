"""An agent of a colleague: the official client speaks to `/mcp` of the server, and the audit has
it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn
from pydantic import SecretStr

from faultline.bot.processes.server import build_app
from faultline.bot.settings import ServerSettings, Settings
from faultline.bot.settings.processes import StoreSettings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store
from faultline.bot.store.visitors import AuditFilter, AuditLog
from faultline.connectors.vendors.prometheus import PrometheusSettings
from faultline.loopback.bot_process import free_port
from tests.bot.mcp.stored import Stored, agent_at

if TYPE_CHECKING:
    from mcp import Client


TOKEN = "a token that is long enough"


@contextmanager
def serving(stored: Stored, settings: Settings) -> Iterator[None]:
    store, cases = Store(stored.engine), CaseStore(stored.cases)
    app = build_app(settings, store, cases)
    port = int(settings.server.public_url.rpartition(":")[2])
    running = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        while not running.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        yield
    finally:
        running.should_exit = True
        thread.join(timeout=30)
        assert not thread.is_alive()


def test_a_colleague_reads_an_answer_and_is_in_the_audit(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    one = stored.answered()
    url = f"http://127.0.0.1:{free_port()}"
    settings = Settings(
        server=ServerSettings(public_url=url, access_token=SecretStr(TOKEN)),
        store=StoreSettings(directory=tmp_path / "state"),
        prometheus=PrometheusSettings(url=f"http://127.0.0.1:{free_port()}"),
    )

    async def story(client: Client) -> Any:
        answer = await client.call_tool("answer", {"investigation": one})
        begun = await client.call_tool("investigate", {"question": "cart is slow", "wait_s": 0})
        verified = await client.call_tool("verify", {"investigation": one})
        return answer, begun.structured_content, verified

    async def whole() -> Any:
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with agent_at(url, headers=headers, timeout=60) as client:
            return await story(client)

    with serving(stored, settings):
        challenge = httpx.post(f"{url}/mcp", json={})
        assert challenge.status_code == 401
        metadata = httpx.get(f"{url}/.well-known/oauth-protected-resource/mcp").json()
        assert metadata["resource"] == f"{url}/mcp"
        answer, begun, verified = asyncio.run(whole())
    assert answer.structured_content["verdict"] == "cause_found"
    assert begun["status"] == "accepted", "the worker takes it from here"
    # Nobody collected this case's rows, so nobody can collect them again.
    assert {one["then"] for one in verified.structured_content["sentences"]} == {"not_asked"}
    lines = AuditLog(stored.engine, retention=timedelta(days=1)).read(AuditFilter())
    seen = [(line.who, line.action, line.investigation_id) for line in reversed(lines)]
    assert ("access token", "mcp answer", one) in seen
    assert ("access token", "mcp verify", one) in seen
    stored.engine.dispose()
