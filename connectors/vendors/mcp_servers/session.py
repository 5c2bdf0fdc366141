"""A client of the Model Context Protocol over streamable HTTP that can list tools and call those of
an allow-list, and nothing else (modelcontextprotocol.io/specification/2025-06-18, Transports,
Lifecycle, Tools).

Not the official client: it opens its own streams through another HTTP library, past the house's
limits on time, size, rate and redirects. What the server asks of a client (sampling, roots,
elicitation) is not offered, and its requests are not answered.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.transport import CALL
from faultline.connectors.shared.vendor_text import short, unexpected_response

VERSION = "2025-06-18"
MOST_PAGES = 10
MOST_TOOLS = 1_000
LISTING = frozenset({"initialize", "notifications/initialized", "tools/list"})
SESSION, PROTOCOL = "Mcp-Session-Id", "MCP-Protocol-Version"
_HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
}


class _RpcError(msgspec.Struct):
    code: int = 0
    message: str = ""


class _RpcAnswer(msgspec.Struct):
    id: int | str | None = None
    result: dict[str, Any] | None = None
    error: _RpcError | None = None
    method: str | None = None


class _Hints(msgspec.Struct):
    readOnlyHint: bool | None = None
    destructiveHint: bool | None = None


class ListedTool(msgspec.Struct):
    """What is read of a tool. Its description is not: it is written for models, by strangers."""

    name: str
    annotations: _Hints | None = None

    @property
    def says_it_reads(self) -> bool | None:
        """Whether the server calls it read-only; None where it says nothing."""
        return self.annotations.readOnlyHint if self.annotations else None


class _ToolList(msgspec.Struct):
    tools: list[ListedTool]
    nextCursor: str | None = None


class _Content(msgspec.Struct):
    type: str = ""
    text: str | None = None


class ToolResult(msgspec.Struct):
    """What a call gave."""

    content: list[_Content] = []
    structuredContent: dict[str, Any] | None = None
    isError: bool = False

    @property
    def text(self) -> str:
        """The parts that are text; pictures and links are left out."""
        return "\n".join(part.text for part in self.content if part.type == "text" and part.text)

    @property
    def json(self) -> bytes:
        """The structured part, else the text, which many servers fill with JSON."""
        if self.structuredContent is not None:
            return msgspec.json.encode(self.structuredContent)
        return self.text.encode()


class McpSession(HttpSession):
    """One collection's calls."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._next = 0
        self._session_headers: dict[str, str] = {}
        """Headers that the handshake gave."""

    async def begin(self) -> None:
        """The handshake. Raises ConnectorError, BudgetExceeded."""
        about = {"name": "faultline", "version": "1"}
        params = {"protocolVersion": VERSION, "capabilities": {}, "clientInfo": about}
        response = await self._post("initialize", params)
        result = self._result("initialize", response)
        header = response.headers.get(SESSION, "")
        if header:
            # Visible ASCII alone, as the specification says: it becomes a header.
            if len(header) > 512 or not (header.isascii() and header.isprintable()):
                raise ConnectorError(self._vendor, "initialize", "named an unusable session")
            self._session_headers[SESSION] = header
        version = result.get("protocolVersion")
        # A date such as 2025-06-18. It becomes a header, so accept nothing else.
        if not isinstance(version, str) or not version.replace("-", "").isalnum():
            raise ConnectorError(self._vendor, "initialize", "named no protocol version")
        self._session_headers[PROTOCOL] = version[:40]
        await self._post("notifications/initialized", None, notifies=True)

    async def end(self) -> None:
        """Tell the server that the session is over, where it keeps one."""
        if SESSION not in self._session_headers:
            return
        try:
            await self._client.delete(
                self._base_url, headers=self._session_headers, extensions={CALL: "end"}
            )
        except FaultlineError:
            # A courtesy: servers may refuse it (405), and sessions end by themselves.
            return

    async def listed(self) -> Mapping[str, ListedTool]:
        """The server's tools by name. Raises ConnectorError, BudgetExceeded."""
        listed_tools: dict[str, ListedTool] = {}
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            params = {"cursor": cursor} if cursor else {}
            answer = self._result("tools/list", await self._post("tools/list", params))
            page = self._as("tools/list", answer, _ToolList)
            for tool in page.tools[:MOST_TOOLS]:
                listed_tools.setdefault(tool.name, tool)
            cursor = page.nextCursor
            if not cursor or len(listed_tools) >= MOST_TOOLS:
                break
        return listed_tools

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """What the tool gives. Raises ConnectorError, also for an error of the tool's own, and
        BudgetExceeded."""
        call = f"tools/call {name}"
        response = await self._post("tools/call", {"name": name, "arguments": arguments})
        result: ToolResult = self._as(call, self._result(call, response), ToolResult)
        if result.isError:
            raise ConnectorError(self._vendor, call, f"says: {short(result.text[:2000])}")
        return result

    async def _post(
        self, method: str, params: Mapping[str, Any] | None, *, notifies: bool = False
    ) -> httpx.Response:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if not notifies:
            self._next += 1
            message["id"] = self._next
        if params is not None:
            message["params"] = params
        response = await self._client.post(
            self._base_url,
            content=msgspec.json.encode(message),
            headers=self._session_headers,
            extensions={CALL: method},
        )
        return self._accepted(method, response)

    def _result(self, call: str, response: httpx.Response) -> dict[str, Any]:
        """The answer to the request that was sent last, among what else the server sends."""
        for message in self._messages(call, response):
            # A server may send notifications and requests in between, which are not answered.
            if message.id != self._next or message.method is not None:
                continue
            if message.error is not None:
                problem = f"refused ({message.error.code}): {short(message.error.message[:2000])}"
                raise ConnectorError(self._vendor, call, problem)
            if message.result is not None:
                return message.result
        raise ConnectorError(self._vendor, call, "unexpected response: no result in it")

    def _messages(self, call: str, response: httpx.Response) -> Iterable[_RpcAnswer]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        bodies = [response.content]
        if kind == "text/event-stream":
            bodies = list(_events(response.content))
        for body in bodies:
            try:
                yield msgspec.json.decode(body, type=_RpcAnswer)
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                raise unexpected_response(self._vendor, call, error) from error

    def _as(self, call: str, value: dict[str, Any], type: type[Any]) -> Any:
        try:
            return msgspec.convert(value, type)
        except (msgspec.ValidationError, RecursionError) as error:
            raise unexpected_response(self._vendor, call, error) from error


class McpHttp(VendorHttp[McpSession]):
    """One MCP server at one address. `tools` are the names that may be called."""

    session = McpSession
    tools: frozenset[str] = frozenset()

    @asynccontextmanager
    async def open(
        self, deadline: Deadline | None = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[McpSession]:
        """An initialised session. Raises ConnectorError, BudgetExceeded."""
        async with super().open(deadline, {**_HEADERS, **(headers or {})}) as session:
            await session.begin()
            try:
                yield session
            finally:
                await session.end()

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        refused = ConnectorError(
            self.vendor, request.method, "only tools of the settings are called"
        )
        # The token goes to one address only.
        if str(request.url) != self.base_url:
            raise refused
        if request.method == "DELETE" and SESSION in request.headers:
            return
        if request.method != "POST":
            raise refused
        try:
            message = msgspec.json.decode(request.content, type=dict[str, Any])
        except (msgspec.DecodeError, httpx.RequestNotRead, RecursionError) as error:
            raise refused from error
        method, params = message.get("method"), message.get("params")
        if method in LISTING:
            return
        name = params.get("name") if isinstance(params, dict) else None
        if method != "tools/call" or name not in self.tools:
            raise refused


def _events(body: bytes) -> Iterator[bytes]:
    """The data of each event of a stream (html.spec.whatwg.org, "Server-sent events")."""
    data: list[bytes] = []
    # A stream may end without the blank line that closes its last event.
    for line in [*body.splitlines(), b""]:
        if not line:
            if data:
                yield b"\n".join(data)
            data = []
        elif line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
