"""The example workflow of docs/ci-regression-gate.md: its own shell is run on small traces, as a
runner runs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.trace_report.command import write_job

WORKFLOW = Path(__file__).resolve().parents[2] / "docs" / "examples" / "profile-regression.yml"
SLOWER = {(rank, step): 9_000.0 for rank in range(2) for step in range(8)}


@pytest.fixture
def workflow() -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load(WORKFLOW.read_text())
    return found


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Three runs of the same job on each side."""
    for side in ("base", "new"):
        for run in (1, 2, 3):
            write_job(tmp_path / "profile" / side / f"run{run}", ranks=2)
    return tmp_path


def steps(workflow: dict[Any, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def run_step(
    workflow: dict[Any, Any], name: str, workspace: Path
) -> tuple[subprocess.CompletedProcess[str], str]:
    """Run a step's shell in the workspace; what it did, and the job's summary."""
    (step,) = (step for step in steps(workflow) if step.get("name") == name)
    summary = workspace / "summary.md"
    summary.write_text("")
    tools = Path(sys.executable).parent
    environment = {
        **os.environ,
        **{key: str(value) for key, value in workflow["env"].items()},
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_STEP_SUMMARY": str(summary),
        "GITHUB_WORKSPACE": str(workspace),
    }
    command = ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]]
    done = subprocess.run(
        command,
        cwd=workspace,
        env=environment,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    return done, summary.read_text()


def test_a_job_that_did_not_get_slower_passes(workflow: dict[Any, Any], workspace: Path) -> None:
    done, summary = run_step(workflow, "Compare", workspace)
    assert done.returncode == 0, done.stderr
    assert summary.startswith("### Nothing grew by more than 5 % and the noise\n")
    assert "Base: 3 runs, 2 ranks, 48 steps." in summary


def test_a_slower_job_fails_with_what_grew_in_the_summary(
    workflow: dict[Any, Any], workspace: Path
) -> None:
    for run in (1, 2, 3):
        write_job(workspace / "profile" / "new" / f"run{run}", SLOWER, ranks=2)
    done, summary = run_step(workflow, "Compare", workspace)
    assert done.returncode == 1
    assert summary.startswith("### Step time grew by ")
    assert "aten::mm" in summary


def test_a_missing_baseline_fails_and_says_so(workflow: dict[Any, Any], workspace: Path) -> None:
    shutil.rmtree(workspace / "profile" / "base")
    done, summary = run_step(workflow, "Compare", workspace)
    assert done.returncode == 2
    error = "No step time to compare with: faultline: profile/base: no such file"
    assert f"::error title=Not compared::{error}" in done.stdout
    assert summary.startswith("### Not compared\n")
    assert "no such file" in summary


def test_the_page_is_written_among_what_is_kept(workflow: dict[Any, Any], workspace: Path) -> None:
    done, _ = run_step(workflow, "Report page", workspace)
    assert done.returncode == 0, done.stderr
    (kept,) = (s["with"]["path"] for s in steps(workflow) if "upload-artifact" in s.get("uses", ""))
    assert (workspace / kept / "report.html").read_text().startswith("<!doctype html>")


def test_every_faultline_command_of_the_workflow_is_run_here(workflow: dict[Any, Any]) -> None:
    named = [
        step["name"]
        for step in steps(workflow)
        if re.search(r"^\s*faultline ", step.get("run", ""), re.MULTILINE)
    ]
    assert named == ["Compare", "Report page"]


def test_it_reads_only_pins_its_actions_and_gives_nothing_to_forks(
    workflow: dict[Any, Any],
) -> None:
    assert workflow["permissions"] == {"contents": "read"}
    assert list(workflow[True]) == ["pull_request", "push"]  # YAML 1.1 reads `on` as true
    assert all("permissions" not in job for job in workflow["jobs"].values())
    assert all(
        "head.repo.full_name == github.repository" in job["if"] for job in workflow["jobs"].values()
    )
    for step in steps(workflow):
        assert re.fullmatch(
            r"actions/[a-z/-]+@[0-9a-f]{40}", step.get("uses", "actions/x@" + "0" * 40)
        )
        assert "${{" not in step.get("run", ""), (
            "an expression inside of a script can be made to run as code"
        )
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
    assert "secrets" not in WORKFLOW.read_text()
