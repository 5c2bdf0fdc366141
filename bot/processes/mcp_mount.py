"""`/mcp` on the server: loaded with its first request, because it needs the analysis, and a process
that only takes alerts is smaller by half."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from faultline.bot.intake.accepting import Accept
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store

if TYPE_CHECKING:
    from faultline.bot.mcp.over_http import McpOverHttp

PATHS = {
    # GET is answered too, with 405: the protocol's clients try it.
    "/mcp": ["GET", "POST"],
    "/.well-known/oauth-protected-resource": ["GET"],
    "/.well-known/oauth-protected-resource/mcp": ["GET"],
}
CasePath = Callable[[str], Awaitable[Path | None]]


class LazyMcp:
    """The MCP server as an application. `close` ends it."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        case_path: CasePath,
        accept: Accept,
        *,
        asks_sources: bool,
    ) -> None:
        """Without `asks_sources`, as in a process without the vendors' keys, answers cannot be
        verified."""
        self._settings = settings
        self._store = store
        self._case_path = case_path
        self._accept = accept
        self._asks_sources = asks_sources
        self._loading = asyncio.Lock()
        self._stopping = asyncio.Event()
        self._router: Router | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def routes(self) -> list[Route]:
        """Where it is mounted."""
        return [Route(path, self, methods=methods) for path, methods in PATHS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the first one waits for the imports."""
        async with self._loading:
            if self._router is None:
                scratch = Path(tempfile.mkdtemp(prefix="faultline-mcp-"))
                app = await in_thread(self._made, scratch)
                ready = asyncio.Event()
                self._serving = asyncio.create_task(self._serve(app, scratch, ready))
                await ready.wait()
                self._router = Router(app.routes)
        await self._router(scope, receive, send)

    async def close(self) -> None:
        """End what runs for callers."""
        self._stopping.set()
        if self._serving is not None:
            await self._serving

    async def _serve(self, app: McpOverHttp, scratch: Path, ready: asyncio.Event) -> None:
        # One task begins it and ends it: it may not be ended by another.
        try:
            async with app.running():
                ready.set()
                await self._stopping.wait()
        finally:
            await in_thread(shutil.rmtree, scratch, True)

    def _made(self, scratch: Path) -> McpOverHttp:
        from faultline.bot.intake.incident_requests import IncidentRequests
        from faultline.bot.mcp.http_callers import HttpCallers, no_page
        from faultline.bot.mcp.investigations import Investigations, Shelf
        from faultline.bot.mcp.over_http import McpOverHttp, Resource, caller_of_request
        from faultline.bot.mcp.server import McpServer
        from faultline.bot.mcp.verify_tool import Verifier
        from faultline.bot.web.access import AccessControl

        settings, store = self._settings, self._store
        login = settings.login
        issuers, scopes = ([login.issuer], login.scopes) if login.issuer else ([], ())
        resource = Resource(settings.server.public_url, issuers, scopes)
        callers = HttpCallers(settings, AccessControl(settings, store, no_page), resource)
        requests = IncidentRequests(settings, store, self._accept)
        server = McpServer(
            Investigations(settings, [Shelf(store, self._case_path)], requests),
            scratch,
            caller_of_request,
            verifier=Verifier(settings) if self._asks_sources else None,
            record=callers.record,
        )
        return McpOverHttp(server, resource, callers.caller_of, callers.refused)
