"""The protocol's own inspector, a program of Node, speaks to `faultline mcp`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.connectors.conftest import ALERT_AT, RunningPrometheus, prometheus
from tests.debian_tools import TOOLS
from tests.scenarios.test_ask import environment

__all__ = ["prometheus"]

INSPECTOR = TOOLS / "inspector/node_modules/.bin/mcp-inspector"
SERVER = (sys.executable, "-m", "faultline.bot.cli.main", "mcp", "--no-kubernetes")


@pytest.fixture(scope="module")
def mcp_inspector() -> Path:
    """The program; `./run test` installs it."""
    if not INSPECTOR.exists():
        pytest.skip("the MCP inspector could not be installed from npm")
    return INSPECTOR


class Inspector:
    """The inspector's command line, with a server in a folder."""

    def __init__(self, program: Path, folder: Path, *options: str) -> None:
        # A machine that runs other tests beside may take longer than its 15 s to start a server.
        patient = ("--connect-timeout", "60000")
        self._command = [str(program), "--cli", *patient, *SERVER, *options]
        self._folder = folder

    def __call__(self, method: str, *more: str) -> Any:
        told = environment(self._folder)
        told["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{told['PATH']}"
        done = subprocess.run(
            [*self._command, "--method", method, *more],
            cwd=self._folder,
            env=told,
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)


def test_the_inspector_reads_what_the_server_offers(mcp_inspector: Path, tmp_path: Path) -> None:
    inspect = Inspector(mcp_inspector, tmp_path)
    tools = inspect("tools/list")["tools"]
    assert {"investigate", "answer", "verify", "trace_doctor"} <= {one["name"] for one in tools}
    assert all(one["inputSchema"]["type"] == "object" for one in tools)
    [template] = inspect("resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "faultline://cases/{investigation}/{file}"
    names = [one["name"] for one in inspect("prompts/list")["prompts"]]
    assert names == ["investigate", "postmortem", "is_it_over"]
    prompt = inspect(
        "prompts/get", "--prompt-name", "postmortem", "--prompt-args", "investigation=i"
    )
    assert '"i"' in prompt["messages"][0]["content"]["text"]


def test_the_inspector_gets_a_cause(
    mcp_inspector: Path, prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    inspect = Inspector(mcp_inspector, tmp_path, "--prometheus", prometheus.url)
    given = ("question=checkout is slow", f"since={ALERT_AT.isoformat()}")
    told = inspect("tools/call", "--tool-name", "investigate", "--tool-arg", *given)
    assert told["structuredContent"]["verdict"] == "cause_found"
    assert "checkout" in told["structuredContent"]["headline"]
