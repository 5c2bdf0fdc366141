"""A coding agent over MCP: the official client starts `faultline mcp`, which asks a real
Prometheus."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

from faultline.analysis.case.folder import read_case, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.bot.settings import Settings
from faultline.bot.settings.processes import StoreSettings
from faultline.bot.store.databases import open_store
from tests.connectors.conftest import (
    ALERT_AT,
    RunningPrometheus,
    open_metrics,
    prometheus,
    running_prometheus,
)
from tests.databases import make_tables
from tests.scenarios.small_case import ALERT, write_small_case
from tests.scenarios.test_ask import environment

__all__ = ["prometheus"]

PROGRAM = ("-m", "faultline.bot.cli.main", "mcp", "--no-kubernetes")
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

            async def heard(progress: float, total: float | None, message: str | None) -> None:
                lines.append(message or "")

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


def test_an_incident_that_goes_on_is_told_so(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    (tmp_path / "prometheus").mkdir()
    (tmp_path / "home").mkdir()

    async def story(url: str) -> None:
        async with agent(tmp_path / "home", "--prometheus", url) as client:
            asked = {"question": "checkout is slow", "since": "10m", "wait_s": 60}
            begun = (await client.call_tool("investigate", asked)).structured_content
            told = await called(client, "verify", investigation=begun["investigation"])
            headline = told["sentences"][0]
            assert (headline["then"], headline["now"]) == ("confirmed", "still"), told
            levels = [one["now_says"] for one in told["findings"]]
            assert any("in the last 5 minutes" in one for one in levels), levels

    with running_prometheus(tmp_path / "prometheus", open_metrics(now)) as server:
        asyncio.run(story(server.url))


def test_without_a_source_the_server_says_what_to_give(tmp_path: Path) -> None:
    async def story() -> None:
        # The handshake of earlier versions of the protocol, as most clients still make it.
        async with agent(tmp_path, mode="legacy") as client:
            refused = await client.call_tool("investigate", QUESTION)
            assert refused.is_error
            assert "--prometheus http: //localhost:9090" in str(refused.content)
            assert (await called(client, "recent"))["investigations"] == []
            traces = Path(__file__).parents[2] / "demo/cases/slow-rank/traces"
            told = await called(client, "trace_doctor", path=str(traces))
            assert told["diagnoses"][0]["severity"] in ("critical", "warning")

    asyncio.run(story())


def test_earlier_investigations_of_a_bot_are_read_and_stay_as_they_are(tmp_path: Path) -> None:
    state = tmp_path / "state"
    make_tables(state)
    settings = Settings(store=StoreSettings(directory=state))
    store = open_store(settings, migrated=True)
    taken = store.accept(ALERT).investigation_id
    assert taken is not None
    folder = write_small_case(state / "cases" / taken)
    write_json(folder / "findings.json", diagnose(read_case(folder)))
    store.start(taken)
    store.finish(taken, "done", verdict="cause_found", confidence=0.9, headline="it was a deploy")
    store.engine.dispose()
    (tmp_path / "faultline.toml").write_text('[store]\ndirectory = "state"\n')
    before = sorted(path.name for path in folder.iterdir())

    async def story() -> None:
        async with agent(tmp_path) as client:
            [one] = (await called(client, "recent"))["investigations"]
            assert (one["investigation"], one["headline"]) == (taken, "it was a deploy")
            answer = await called(client, "answer", investigation=taken)
            assert answer["causes"][0]["subject"] == "checkout"
            assert "<data>" in await text_of(
                client, "series", investigation=taken, service="checkout"
            )

    asyncio.run(story())
    assert sorted(path.name for path in folder.iterdir()) == before


def test_it_ends_with_its_client_and_with_a_signal(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    for by_signal in (False, True):
        process = subprocess.Popen(
            [sys.executable, *PROGRAM, "--prometheus", prometheus.url],
            cwd=tmp_path,
            env={**environment(tmp_path), "TMPDIR": str(scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        hello = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        }
        process.stdin.write(b"this is no message\n" + json.dumps(hello).encode() + b"\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != 1:
            """Its word on what is no message."""
        assert list(scratch.glob("faultline-mcp-*"))
        if by_signal:
            process.send_signal(signal.SIGTERM)
        else:
            process.stdin.close()
        assert process.wait(30) == 0
        rest, problems = process.stdout.read(), process.stderr.read().decode()
        assert rest == b"", "nobody else writes to standard output"
        assert "Traceback" not in problems, problems
        assert not list(scratch.glob("faultline-*")), "nothing is left behind"
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()


def test_a_person_who_starts_it_learns_what_it_is_for(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *PROGRAM],
        cwd=tmp_path,
        env=environment(tmp_path),
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    try:
        assert process.stderr is not None
        assert b"claude mcp add faultline" in process.stderr.readline()
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


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
    asked = 'sum(rate(http_requests_total{service="checkout"}[5m]))'
    times = {"start": "2026-03-02T11:30:00Z", "end": "2026-03-02T12:00:00Z"}
    queried = await text_of(
        client, "query", investigation=one, connector="prometheus", query=asked, **times
    )
    found = re.search(r"\[(L\d+)\]", queried)
    assert found is not None, queried
    own = await called(client, "evidence", investigation=one, finding=found[1])
    assert own["queries"][0]["query"] == asked
    assert own["values"]["points"]
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
