"""Tools of MCP servers: a real server of the official package on loopback, and servers that lie,
never end or lead elsewhere."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pydantic
import pytest
import uvicorn

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.bot.settings import Settings
from faultline.connectors.vendors.mcp_servers import CONNECTOR
from faultline.connectors.vendors.mcp_servers.connector import (
    LIMITS,
    LONGEST_TEXT,
    McpServersConnector,
)
from faultline.connectors.vendors.mcp_servers.session import McpHttp
from faultline.loopback.bot_process import free_port
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import mcp_servers as stand_in
from tests.hostile.planted import ORDER

CALLED: list[str] = []


def tickets(service: str, since: str) -> str:
    """Open tickets."""
    CALLED.append(service)
    return f"INC-7: {service} refuses cards since {since}\nINC-9: nothing else"


def rollouts(service: str) -> dict[str, Any]:
    """Rollouts as JSON."""
    at = ONSET.timestamp()
    return {"rollouts": [{"at": at, "id": "r1", "title": "new cart", "app": service}]}


def close_ticket(number: int) -> str:
    """A tool that changes something."""
    CALLED.append(f"closed {number}")
    return "closed"


def unsaid(service: str) -> str:
    """One whose server does not say what it does."""
    return f"{service} is owned by team blue"


def failing() -> str:
    """One that fails."""
    raise ValueError("the ticket system is down")


def endless() -> str:
    """More than anybody reads."""
    return "line of a log\n" * 5_000


@pytest.fixture(scope="module")
def official() -> Iterator[str]:
    """A server of the official package; gives its address."""
    # The mcp package takes a second to load.
    from mcp.server.mcpserver import MCPServer
    from mcp_types import ToolAnnotations

    reads, changes = (ToolAnnotations(readOnlyHint=hint) for hint in (True, False))
    server = MCPServer("tickets", instructions=ORDER)
    for tool in (tickets, rollouts, failing, endless):
        server.tool(annotations=reads, description=ORDER)(tool)
    server.tool(annotations=changes)(close_ticket)
    server.tool()(unsaid)
    port = free_port()
    config = uvicorn.Config(
        server.streamable_http_app(), host="127.0.0.1", port=port, log_level="warning"
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    while not running.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    yield f"http://127.0.0.1:{port}/mcp"
    running.should_exit = True
    thread.join(timeout=10)


def connector(url: str, tools: dict[str, Any], **own: Any) -> McpServersConnector:
    """As the settings build it."""
    values = {"mcp_servers": {"url": url, "tools": tools, **own}}
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, McpServersConnector)
    return built


TICKETS = {"tickets": {"arguments": {"service": "{service}", "since": "{start}"}}}
ROLLOUTS = {
    "rollouts": {
        "arguments": {"service": "{service}"},
        "table": "changes",
        "items": "rollouts",
        "columns": {"time": "at", "kind": "'deploy'", "id": "id", "title": "title"},
    }
}


def test_a_result_is_evidence_that_is_quoted_and_cited(official: str, tmp_path: Path) -> None:
    built = connector(official, TICKETS)
    (item,) = collected(tmp_path, built).items
    assert (item.kind, item.rows, item.services) == ("external", 2, ("checkout",))
    assert item.details["result"].startswith("INC-7: checkout refuses cards since 2026-03-02T")
    assert item.query.startswith('tickets {"service": "checkout"')


def test_no_code_weighs_it(official: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    given = diagnosed(tmp_path / "a", connector(official, TICKETS))
    assert given.causes == ()
    kinds = [one.kind for one in given.findings]
    assert kinds == ["external_report", "external_report"]
    first = given.findings[0]
    assert first.sentence == "mcp_servers answered a call of tickets."
    details = ObservationDetails.of(first)
    assert details is not None
    assert details.quote.startswith("INC-7: c")
    assert first.evidence


def test_a_mapping_makes_rows_of_it(official: str, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(official, ROLLOUTS))
    (row,) = conform(found.tables["changes"], "changes", "changes").iter_rows(named=True)
    assert (row["time"], row["service"], row["id"]) == (ONSET, "checkout", "r1")
    assert [item.kind for item in found.items] == ["changes"]


def test_only_tools_of_the_settings_that_read_are_called(official: str, tmp_path: Path) -> None:
    CALLED.clear()
    writing = {"close_ticket": {"arguments": {"number": 7}, "is_read_only": True}}
    found = collected(tmp_path, connector(official, writing | {"unsaid": {}, "gone": {}}))
    assert CALLED == []
    assert found.items == ()
    assert [one.reason for one in found.missing] == [
        "close_ticket can change something, as the server says",
        "unsaid does not say that it only reads: set is_read_only if it does",
        "gone is no tool of this server",
    ]


def test_the_operator_may_say_that_a_tool_only_reads(official: str, tmp_path: Path) -> None:
    tools = {"unsaid": {"arguments": {"service": "{service}"}, "is_read_only": True}}
    (item,) = collected(tmp_path, connector(official, tools)).items
    assert item.details["result"] == "checkout is owned by team blue"


def test_a_failing_tool_is_a_gap_and_the_others_stand(official: str, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(official, {"failing": {}, **TICKETS}))
    assert len(found.items) == 1
    assert "tools/call failing" in found.missing[0].reason


def test_a_long_result_is_cut(official: str, tmp_path: Path) -> None:
    (item,) = collected(tmp_path, connector(official, {"endless": {}})).items
    assert item.cut == f"the first {LONGEST_TEXT} of 70000 characters"
    assert len(item.details["result"]) <= LONGEST_TEXT


def test_check_says_what_can_be_called(official: str) -> None:
    good = asyncio.run(connector(official, TICKETS).check())
    assert good.ok
    assert good.line == f"{official}: 1 of 1 tools can be called"
    bad = asyncio.run(connector(official, TICKETS | {"close_ticket": {}}).check())
    assert not bad.ok
    assert "close_ticket can change something" in bad.line


def test_mappings_that_cannot_work_stop_the_start() -> None:
    for own in ({"items": "a"}, {"table": "changes", "columns": {"time": "a"}}):
        with pytest.raises(pydantic.ValidationError):
            connector("http://127.0.0.1:1/mcp", {"x": own})
    with pytest.raises(pydantic.ValidationError, match="is no placeholder"):
        connector("http://127.0.0.1:1/mcp", {"x": {"arguments": {"a": "{host}"}}})


def hostile(server: LocalServer, within_s: float = 2, **replies: Any) -> McpServersConnector:
    """Before a server that answers some methods in its own way."""
    stand_in.serve(server)
    usual = stand_in.answer

    def answer(asked: Asked) -> Reply:
        method = json.loads(asked.body)["method"].rpartition("/")[2]
        reply = replies.get(method)
        return usual(asked) if reply is None else reply

    server.on(stand_in.PATH, answer)
    tools = stand_in.settings(server.url)["mcp_servers"]["tools"]
    return connector(server.url + stand_in.PATH, tools, deadline_s=within_s, max_mb=1)


def rpc(result: Any, id: int = 3) -> Reply:
    """An answer to the third request, which is the call."""
    return Reply({"jsonrpc": "2.0", "id": id, "result": result})


@pytest.mark.parametrize(
    ("replies", "reason"),
    [
        ({"call": Reply(b"x" * 3_000_000)}, "size of mcp_servers's answers"),
        ({"call": Reply(b": wait\n\n" * 9_000, drip_s=0.01)}, "time limit of"),
        ({"call": Reply(b"", status=307, headers={"Location": "http://10.0.0.1/"})}, "redirect"),
        ({"initialize": Reply(b"", status=302, headers={"Location": "/x"})}, "redirect"),
        ({"initialize": Reply({}, status=401)}, "authentication failed"),
        ({"call": rpc({"content": []}, id=99)}, "no result in it"),
        ({"call": rpc({"content": 7})}, "unexpected response"),
        ({"call": Reply(b"[" * 100_000)}, "unexpected response"),
        ({"call": rpc({"isError": True, "content": [{"type": "text", "text": ORDER}]})}, "says:"),
        ({"list": rpc({"tools": [{"name": "tickets"}]}, id=2)}, "does not say that it only reads"),
        ({"list": rpc({"tools": []}, id=2)}, "is no tool of this server"),
    ],
)
def test_servers_that_lie_never_end_or_lead_elsewhere_are_gaps(
    server: LocalServer, tmp_path: Path, replies: dict[str, Reply], reason: str
) -> None:
    found = collected(tmp_path, hostile(server, **replies))
    assert found.items == ()
    assert reason in found.missing[0].reason
    assert set(server.paths()) == {stand_in.PATH}


def test_a_server_cannot_make_the_client_do_anything(server: LocalServer, tmp_path: Path) -> None:
    """Requests of the server's own, in the same stream, are not answered."""
    asks = {"jsonrpc": "2.0", "id": 3, "method": "sampling/createMessage", "params": {}}
    done = {"content": [{"type": "text", "text": f"{ORDER} <script>\u202e"}]}
    events = [asks, {"jsonrpc": "2.0", "id": 3, "result": done}]
    body = b"".join(
        b"event: message\r\ndata: " + json.dumps(e).encode() + b"\r\n\r\n" for e in events
    )
    reply = Reply(body, headers={"Content-Type": "text/event-stream"})
    (item,) = collected(tmp_path, hostile(server, call=reply)).items
    assert "\u202e" not in item.details["result"]
    methods = [json.loads(asked.body)["method"] for asked in server.asked]
    assert methods == ["initialize", "notifications/initialized", "tools/list", "tools/call"]


def test_a_list_without_end_is_read_for_ten_pages(server: LocalServer, tmp_path: Path) -> None:
    def page(asked: Asked) -> Reply:
        message = json.loads(asked.body)
        if message["method"] != "tools/list":
            return stand_in.answer(asked)
        tools = [{"name": f"t{message['id']}"}]
        result = {"tools": tools, "nextCursor": f"c{message['id']}"}
        return Reply({"jsonrpc": "2.0", "id": message["id"], "result": result})

    built = hostile(server, within_s=20)
    server.on(stand_in.PATH, page)
    collected(tmp_path, built)
    methods = [json.loads(asked.body)["method"] for asked in server.asked]
    assert methods.count("tools/list") == 10
    assert "tools/call" not in methods


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/mcp", {"method": "tools/call", "params": {"name": "close_ticket"}}),
        ("POST", "/mcp", {"method": "tools/call", "params": {}}),
        ("POST", "/mcp", {"method": "resources/read"}),
        ("POST", "/other", {"method": "initialize"}),
        ("PUT", "/mcp", {"method": "initialize"}),
        ("DELETE", "/mcp", {}),
    ],
)
def test_nothing_else_can_be_sent(
    server: LocalServer, method: str, path: str, body: dict[str, Any]
) -> None:
    async def send() -> None:
        stand_in.serve(server)
        http = McpHttp("mcp_servers", server.url + "/mcp", limits=LIMITS)
        http.tools = frozenset({"tickets"})
        async with http.open() as session:
            await session._client.request(method, server.url + path, json=body)

    with pytest.raises(ConnectorError, match="only tools of the settings"):
        asyncio.run(send())
    assert len(server.asked) == 2
