"""Tools of an MCP server that the settings name, each called with the arguments of the settings for
the services and the window of an investigation.

Only tools that only read are called: by the server's own word, or the operator's. Its result is
evidence of kind `external`, which people and models read and no code weighs, or rows of a table
where the settings map it. Nothing else that the server says is used.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.external import RESULT
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, full_window
from faultline.connectors.shared.rows.mapped_entries import EntryMapping, read_entries
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.placeholders import filled_in, names_in, values_of
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.transport import Retries
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.mcp_servers import McpServerSettings, McpToolSettings
from faultline.connectors.vendors.mcp_servers.session import (
    ListedTool,
    McpHttp,
    McpSession,
    ToolResult,
)

LIMITS = Limits(deadline_s=20, max_bytes=2 * 1024 * 1024, requests_per_s=5, concurrency=2)
ONCE = Retries(attempts=1)
"""A tool is not called again because its answer did not come."""
MOST_SERVICES = 3
MOST_CALLS = 12
LONGEST_TEXT = 20_000
"""Characters of a result that are kept."""
LONGEST_QUERY = 500


def build(
    server_settings: McpServerSettings, settings: SharedSettings
) -> McpServersConnector | None:
    """The configured connector, or None without an address or tools."""
    if server_settings.url is None or not server_settings.tools:
        return None
    names = ServiceNames.of_catalogue(settings.services)
    access = access_of(server_settings, "mcp_servers")
    return McpServersConnector(
        server_settings.url, access, server_settings.tools, names, server_settings.limits(LIMITS)
    )


@dataclass(frozen=True)
class ToolCall:
    """One call with its arguments filled in."""

    name: str
    tool_settings: McpToolSettings
    service: str | None
    arguments: Mapping[str, Any]

    @property
    def query(self) -> str:
        """As the evidence cites it."""
        return short(f"{self.name} {json.dumps(self.arguments)}", LONGEST_QUERY)


class McpServersConnector:
    """One server and its allowed tools."""

    name = "mcp_servers"
    follows = ("service",)

    def __init__(
        self,
        url: str,
        access: ServerAccess,
        tools: Mapping[str, McpToolSettings],
        names: ServiceNames,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = McpHttp(self.name, url, access=access, limits=limits, retries=ONCE)
        self._http.tools = frozenset(tools)
        self._tools = tools
        self._names = names
        self.limits = limits
        kinds: list[EvidenceKind] = [tool.table or "external" for tool in tools.values()]
        self.kinds: tuple[EvidenceKind, ...] = tuple(dict.fromkeys(kinds))

    async def collect(self, request: Request) -> Collected:
        """The results of all tools. A call that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        window = full_window(request.scope)
        calls = list(self._calls(request, window))
        for call in calls[MOST_CALLS:]:
            reason = f"more than {MOST_CALLS} calls"
            collection.missing.append(
                Missing(call.tool_settings.table or "external", call.query, reason)
            )
        async with self._http.open() as session:
            listed = await session.listed()
            for call in calls[:MOST_CALLS]:
                await self._ask(session, collection, call, listed, window)
        return collection.collected()

    async def check(self) -> Check:
        """Does the server have the tools of the settings, and do they only read?"""
        try:
            async with self._http.open() as session:
                listed = await session.listed()
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        problems = []
        for name, tool in self._tools.items():
            problem = why_not(name, tool, listed)
            if problem:
                problems.append(f"{name} {problem}")
        usable = len(self._tools) - len(problems)
        line = f"{self._http.base_url}: {usable} of {len(self._tools)} tools can be called"
        return Check(self.name, not problems, "; ".join([line, *problems]))

    def _calls(self, request: Request, window: Window) -> list[ToolCall]:
        calls = []
        services, _ = in_scope(request, MOST_SERVICES)
        for name, tool in self._tools.items():
            by_service = "service" in names_in(tool.arguments)
            # Without `{service}` every service would get the same answer: call once.
            requested_services: list[str | None] = [*services] if by_service else [None]
            for service in requested_services:
                arguments = filled_in(tool.arguments, values_of(service, window))
                calls.append(ToolCall(name, tool, service, arguments))
        return calls

    async def _ask(
        self,
        session: McpSession,
        collection: CollectionBuilder,
        call: ToolCall,
        listed: Mapping[str, ListedTool],
        window: Window,
    ) -> None:
        kind: EvidenceKind = call.tool_settings.table or "external"
        problem = why_not(call.name, call.tool_settings, listed)
        if problem:
            collection.missing.append(Missing(kind, call.query, f"{call.name} {problem}"))
            return
        result = await collection.fetch(kind, call.query, session.call(call.name, call.arguments))
        if result is None:
            return
        if call.tool_settings.table is None:
            collection.items.append(_external(call, result, window))
            return
        how = EntryMapping(
            call.tool_settings.table,
            call.tool_settings.items,
            call.tool_settings.columns,
            self._names,
        )
        try:
            # A result may have megabytes: keep the event loop free.
            read = await asyncio.to_thread(read_entries, result.json, how, call.service, call.query)
        except ValueError as error:
            collection.missing.append(Missing(kind, call.query, short(str(error), 300)))
            return
        count = collection.add(call.tool_settings.table, read.rows)
        item = Item(kind, call.query, window, rows=count, cut=read.cut)
        collection.items.append(item.holding(read.rows))


def why_not(
    name: str, tool_settings: McpToolSettings, listed: Mapping[str, ListedTool]
) -> str | None:
    """Why a tool is not called; None where it may be."""
    # The settings may name a tool that the server has dropped.
    if name not in listed:
        return "is no tool of this server"
    says = listed[name].says_it_reads
    # The server's word wins: no setting makes a writing tool callable.
    if says is False:
        return "can change something, as the server says"
    if says is None and not tool_settings.is_read_only:
        return "does not say that it only reads: set is_read_only if it does"
    return None


def _external(call: ToolCall, result: ToolResult, window: Window) -> Item:
    """The text as it came, cut; a structured result without text as JSON."""
    whole = result.text or (result.json.decode(errors="replace") if result.json else "")
    lines = [short(line, 2000) for line in whole[:LONGEST_TEXT].splitlines()]
    text = "\n".join(line for line in lines if line)
    cut = None
    if len(whole) > LONGEST_TEXT:
        cut = f"the first {LONGEST_TEXT} of {len(whole)} characters"
    services = (call.service,) if call.service else None
    return Item(
        "external",
        call.query,
        window,
        rows=len(text.splitlines()),
        cut=cut,
        details={RESULT: text},
        services=services,
    )
