"""A coding agent over MCP: the official client starts `faultline mcp`, which asks a real
Prometheus."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from tests.connectors.conftest import ALERT_AT, RunningPrometheus, prometheus
from tests.scenarios.test_ask import environment

__all__ = ["prometheus"]

PROGRAM = ("-m", "bot.cli.main", "mcp", "--no-kubernetes")
QUESTION = {"question": "checkout is slow", "since": ALERT_AT.isoformat()}
WITHIN_S = 120.0


@asynccontextmanager
async def agent(folder: Path, *arguments: str, mode: Any = "auto") -> AsyncIterator[Client]:
    """A client of a server that runs in this folder; what it says on standard error is in
    `errors`."""
    program = StdioServerParameters(
        command=sys.executable,
        args=[*PROGRAM, *arguments],
        env=environment(folder),
        cwd=folder,
    )
    async with Client(program, mode=mode, read_timeout_seconds=WITHIN_S) as client:
        yield client


async def called(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    told = result.structured_content
    assert isinstance(told, dict)
    assert isinstance(result.content[0], TextContent)
    assert json.loads(result.content[0].text) == told, "the same for clients that read text"
    return told


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert isinstance(result.content[0], TextContent)
    return result.content[0].text


def test_an_agent_finds_the_cause_and_checks_the_proof(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    async def story() -> None:
        async with agent(tmp_path, "--prometheus", prometheus.url) as client:
            lines: list[str] = []

            async def heard(_done: float, _of: float | None, line: str | None) -> None:
                lines.append(line or "")

            begun = await client.call_tool(
                "investigate", {**QUESTION, "wait_s": 60}, progress_callback=heard
            )
            assert begun.structured_content["status"] == "done", begun.structured_content
            assert any("asking prometheus" in line for line in lines)
            one = begun.structured_content["investigation"]
            await _proved(client, one)
            await _looked_up(client, one)
            await _verified(client, one, prometheus)
            await _read(client, one)
            assert (await called(client, "recent"))["investigations"][0]["investigation"] == one

    asyncio.run(story())
    assert not list(tmp_path.iterdir()), "nothing is left behind"


async def _proved(client: Client, one: str) -> None:
    answer = await called(client, "answer", investigation=one)
    assert (answer["verdict"], answer["causes"][0]["subject"]) == ("cause_found", "checkout")
    shown = {finding["id"]: finding for finding in answer["findings"]}
    for sentence in answer["sentences"]:
        assert set(sentence["findings"]) <= set(shown), sentence
    headline = answer["sentences"][0]
    assert headline["text"] == answer["headline"]
    proof = shown[headline["findings"][0]]
    assert proof["numbers"]
    assert proof["computed"]
    query = proof["queries"][0]
    assert (query["source"], "http_request" in query["query"]) == ("prometheus", True)
    assert query["window"][1].startswith("2026-03-02T18:00")
    told = await called(client, "evidence", investigation=one, finding=proof["id"])
    assert told["recomputed"]["same"] is True
    [number] = list(told["recomputed"]["numbers"].values())[:1]
    assert number["stated"] == pytest.approx(number["now"])
    series = told["values"]["series"][0]
    assert series["medians"]["incident"] != pytest.approx(series["medians"]["baseline"], rel=0.1)
    assert len(series["incident_points"]) > 10


async def _looked_up(client: Client, one: str) -> None:
    names = {tool.name for tool in (await client.list_tools()).tools}
    wanted = {"investigate", "wait", "answer", "findings", "evidence", "verify", "series", "logs"}
    assert wanted | {"traces", "changes", "topology", "trace_doctor"} <= names
    series = await text_of(client, "series", investigation=one, service="checkout")
    assert "<data>" in series
    assert "[L1] checkout" in series
    row = await called(client, "evidence", investigation=one, finding="L1")
    assert row["subject"] == "checkout"
    wrong = await client.call_tool("series", {"investigation": one, "service": "nobody"})
    assert wrong.is_error
    assert "no service of that name is known here" in str(wrong.content)
    unknown = await client.call_tool("answer", {"investigation": "nothing"})
    assert unknown.is_error
    assert "there is no investigation 'nothing'" in str(unknown.content)
    bad = await client.call_tool("wait", {"investigation": one, "wait_s": -1, "more": 1})
    assert bad.is_error
    assert "wait_s" in str(bad.content)
    assert "more" in str(bad.content)


async def _verified(client: Client, one: str, server: RunningPrometheus) -> None:
    told = await called(client, "verify", investigation=one)
    assert told["sources_asked"] == ["prometheus"]
    headline = told["sentences"][0]
    assert (headline["then"], headline["holds"]) == ("confirmed", True), told
    # The recorded incident is long ago, and nobody writes to this server any more.
    assert headline["now"] == "unknown"
    assert told["same_time_again"]["first_cause"] == "checkout"
    first = told["findings"][0]
    assert all(n["then"] == pytest.approx(n["again"]) for n in first["numbers"].values())


async def _read(client: Client, one: str) -> None:
    listed = await client.list_resources()
    uris = [resource.uri for resource in listed.resources]
    assert f"faultline://cases/{one}/report.md" in uris
    report = await client.read_resource(f"faultline://cases/{one}/report.md")
    assert isinstance(report.contents[0], TextResourceContents)
    assert "checkout" in report.contents[0].text
    kept = await client.read_resource(f"faultline://cases/{one}/answer.json")
    assert isinstance(kept.contents[0], TextResourceContents)
    assert json.loads(kept.contents[0].text)["answer"]["verdict"] == "cause_found"
    for outside in (f"faultline://cases/{one}/../../secrets", "file:///etc/passwd"):
        with pytest.raises(MCPError, match="no resource"):
            await client.read_resource(outside)
    prompt = await client.get_prompt("is_it_over", {"investigation": one})
    assert one in str(prompt.messages[0].content)
