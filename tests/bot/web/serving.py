"""The pages over real HTTP: uvicorn in a thread on an ephemeral loopback port."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

from analysis.vocabulary import Alert
from bot.settings import Settings
from bot.store.connect import connect
from bot.store.models import Base
from bot.store.store import Store
from bot.web.pages import page_routes


@dataclass(frozen=True)
class Site:
    """A running site, its store and where its case folders lie."""

    url: str
    store: Store
    cases: Path

    def investigate(self, alert: Alert) -> str:
        """An accepted investigation's id."""
        accepted = self.store.accept(alert)
        assert accepted.investigation_id is not None
        return accepted.investigation_id


@contextmanager
def serving(directory: Path, settings: Settings | None = None) -> Iterator[Site]:
    """Serve the pages of an empty store below `directory`."""
    engine = connect(f"sqlite:///{directory / 'store.db'}")
    Base.metadata.create_all(engine)
    store, cases = Store(engine), directory / "cases"
    cases.mkdir()

    async def case_path(investigation_id: str) -> Path | None:
        folder = cases / investigation_id
        return folder if folder.is_dir() else None

    app = Starlette(routes=page_routes(settings or Settings(), store, case_path))
    server = uvicorn.Server(
        uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=2)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield Site(f"http://127.0.0.1:{port}", store, cases)
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        engine.dispose()
