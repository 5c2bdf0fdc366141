"""The pages over real HTTP: one uvicorn in a thread on an ephemeral loopback port, a fresh site for
each test."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from faultline.analysis.vocabulary import Alert
from faultline.bot.api.routes import api_routes
from faultline.bot.conversation.on_page import PageAnswers
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.alert_sources import alert_sources
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store
from faultline.bot.web.pages import page_routes
from tests.databases import store_engine

PATIENT_S = 60
"""How long a test waits for an answer: a busy machine is no failure."""


@dataclass(frozen=True)
class Site:
    """A site that is served, its store and where its case folders lie."""

    url: str
    store: Store
    cases: Path

    def investigate(self, alert: Alert) -> str:
        """An accepted investigation's id."""
        accepted = self.store.accept(alert)
        assert accepted.investigation_id is not None
        return accepted.investigation_id


def form_value(page: str) -> str:
    """What a page's forms carry to show that they are ours."""
    found = re.search(r'name="csrf" value="(\w+)"', page)
    assert found is not None, page
    return found[1]


def form_of(client: httpx.Client, path: str) -> dict[str, str]:
    """The fields that every form of a page carries."""
    return {"csrf": form_value(client.get(path).text)}


def sign_in(client: httpx.Client, token: str, target: str = "/") -> httpx.Response:
    """Sign in with the access token, as a person does."""
    given = {**form_of(client, "/login"), "token": token}
    return client.post("/login", params={"next": target}, data=given)


class Server:
    """A running server that serves one application after the other."""

    def __init__(self) -> None:
        self.app: ASGIApp = Starlette()
        config = uvicorn.Config(
            self,
            host="127.0.0.1",
            port=0,
            lifespan="off",
            log_level="warning",
            timeout_graceful_shutdown=2,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def stop(self) -> None:
        """Stop serving."""
        self._server.should_exit = True
        self._thread.join(timeout=10)


# To find them, the metadata of every installed package is read.
known_sources = cache(alert_sources)


@contextmanager
def serving(server: Server, directory: Path, settings: Settings | None = None) -> Iterator[Site]:
    """Serve the pages of the store below `directory`; where there is none, of an empty one."""
    engine = store_engine(f"sqlite:///{directory / 'store.db'}")
    store, cases = Store(engine), directory / "cases"
    cases.mkdir(exist_ok=True)

    async def case_path(investigation_id: str) -> Path | None:
        folder = cases / investigation_id
        return folder if folder.is_dir() else None

    known = settings or Settings()
    answer = PageAnswers(known)
    accept = store_accept(store)
    routes = page_routes(
        known,
        store,
        case_path,
        sources=known_sources(),
        answer=answer,
        accept=accept,
        doors=[partial(api_routes, accept=accept)],
    )
    server.app = Starlette(routes=routes)
    try:
        yield Site(server.url, store, cases)
    finally:
        engine.dispose()
