"""A store with answered investigations, and a server over it that the official client speaks to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from faultline.analysis.case.folder import read_case, read_diagnosis, write_json
from faultline.bot.answer.writer.built_in import word
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.incident_requests import IncidentRequests
from faultline.bot.mcp.callers import THIS_MACHINE, Caller, CallLimits
from faultline.bot.mcp.investigations import Investigations, Shelf
from faultline.bot.settings import Settings
from faultline.bot.store.store import ReplyTo, Store
from faultline.connectors.shared.contract.base import Connector
from tests.bot.investigation.model.cases import diagnosed_case
from tests.databases import store_engine
from tests.scenarios.small_case import ALERT

# The mcp package takes a second to load, so that only the tests that speak with a server load it.
if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, ReadResourceResult

    from faultline.bot.mcp.server import CallerOf, McpServer


@dataclass
class Stored:
    """A store in a folder, and what the server over it is given."""

    folder: Path
    settings: Settings = field(default_factory=Settings)
    connectors: Sequence[Connector] = ()
    caller: Caller = THIS_MACHINE
    limits: CallLimits = field(default_factory=CallLimits)
    audit: list[tuple[str, str, str | None, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engine = store_engine(f"sqlite:///{self.folder / 'store.db'}")
        self.store = Store(self.engine)
        self.cases = self.folder / "cases"
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()

    def answered(self, title: str = ALERT.title, reply_to: ReplyTo | None = None) -> str:
        """The id of an answered investigation, whose case holds logs with an address in them."""
        alert = ALERT.model_copy(update={"id": title, "title": title})
        taken = self.store.accept(alert, reply_to=reply_to or ReplyTo()).investigation_id
        assert taken is not None
        folder = diagnosed_case(self.cases / taken)
        case, diagnosis = read_case(folder), read_diagnosis(folder)
        report = word(diagnosis, case.alert, case.gaps)
        write_json(folder / "report.json", report)
        (folder / "report.md").write_text(f"# {report.headline}\n\nAsk jo.doe@example.com.\n")
        self.store.start(taken)
        self.store.add_progress(taken, "analyze", "4 findings", key="analyze")
        self.store.finish(
            taken, "done", verdict="cause_found", confidence=0.9, headline=report.headline
        )
        return taken

    def server(self, caller_of: CallerOf | None = None) -> McpServer:
        """One over the store."""
        from faultline.bot.mcp.server import McpServer

        async def case_path(given: str) -> Path | None:
            folder = self.cases / given
            return folder if folder.is_dir() else None

        async def record(_ctx: Any, caller: Caller, tool: str, about: str | None, why: str) -> None:
            self.audit.append((caller.who, tool, about, why))

        investigations = Investigations(
            self.settings,
            [Shelf(self.store, case_path)],
            IncidentRequests(self.settings, self.store, store_accept(self.store)),
        )
        return McpServer(
            investigations,
            self.scratch,
            caller_of or (lambda _: self.caller),
            self.connectors,
            record=record,
            limits=self.limits,
        )

    def call(self, tool: str, **arguments: Any) -> CallToolResult:
        """What a tool gives to one call."""
        result = self.told(lambda client: client.call_tool(tool, arguments))
        answer: CallToolResult = result
        return answer

    def told(self, story: Callable[[Client], Awaitable[Any]]) -> Any:
        """What a story with the official client gives."""

        async def whole() -> Any:
            async with self.agent() as client:
                return await story(client)

        return asyncio.run(whole())

    @asynccontextmanager
    async def agent(self) -> AsyncIterator[Client]:
        """The official client, in this process."""
        from mcp import Client

        server = self.server()
        try:
            async with Client(server.built()) as client:
                yield client
        finally:
            server.close()

    def by(self, **changed: Any) -> Stored:
        """The same for another caller."""
        self.caller = replace(self.caller, **changed)
        return self


@asynccontextmanager
async def agent_at(url: str, mode: Any = "auto", **http: Any) -> AsyncIterator[Client]:
    """The official client of a server that is reached over HTTP."""
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    async with httpx2.AsyncClient(**http) as connections:
        transport = streamable_http_client(f"{url}/mcp", http_client=connections)
        async with Client(transport, mode=mode) as client:
            yield client


def said(result: CallToolResult) -> str:
    """The text of a result."""
    [content, *_] = result.content
    assert content.type == "text"
    return content.text


def text_of(resource: ReadResourceResult) -> str:
    """The text of a file."""
    from mcp_types import TextResourceContents

    [content] = resource.contents
    assert isinstance(content, TextResourceContents)
    return content.text


def why(result: CallToolResult) -> str:
    """Why a call failed."""
    assert result.is_error, said(result)
    assert "\n" not in said(result), "one line"
    return said(result)
