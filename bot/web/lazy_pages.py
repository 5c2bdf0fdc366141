"""The pages, loaded when somebody opens the first one: they need the analysis, and a process that
only takes alerts is smaller by half."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from starlette.routing import BaseRoute, Router
from starlette.types import Receive, Scope, Send

from faultline.bot.runtime.threads import in_thread


class LazyPages:
    """An application of routes that `load` gives."""

    def __init__(self, load: Callable[[], Sequence[BaseRoute]]) -> None:
        self._load = load
        self._loading = asyncio.Lock()
        self._router: Router | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request; the first one waits for the imports, and no alert waits with it."""
        # Requests that arrive together load the pages once.
        async with self._loading:
            if self._router is None:
                self._router = Router(await in_thread(self._load))
        await self._router(scope, receive, send)

    @property
    def routes(self) -> Sequence[BaseRoute]:
        """All its routes; loads them."""
        return self._load()
