"""A report of Nsight Systems that a connector brought is an export in the case; where that fails, a
gap says why."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.traces.job.training import training_findings
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.investigation import reading_traces
from faultline.bot.investigation.collecting import assemble, collect_part
from faultline.bot.store.case_store import CaseStore
from faultline.connectors.vendors.traces.connector import TrainingTracesConnector
from tests.trace_report.nsight_tool import no_nsys, nsys_that, small_export

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALERT = Alert(source="pagerduty", title="step time up", started_at=NOW, job="llm")


def investigated(folder: Path) -> Case:
    """What the traces connector finds in folder/runs, put together as a case."""
    hours = timedelta(days=365 * 30)
    scope = Scope(incident=Window(start=NOW - hours, end=NOW + hours), baseline=(), job="llm")
    connector = TrainingTracesConnector([str(folder / "runs")])
    cases = CaseStore(folder / "cases")
    asyncio.run(collect_part(connector, ALERT, scope, cases, "I1"))
    assemble(ALERT, scope, [connector.name], cases, "I1")
    return read_case(folder / "cases" / "I1")


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs"
    path.mkdir()
    (path / "node-a.nsys-rep").write_bytes(b"\0a report")
    return path


def test_the_export_lies_in_the_case_and_is_analysed(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nsys_that(tmp_path, f'cp {small_export(tmp_path / "real.sqlite")} "$output"', monkeypatch)
    case = investigated(tmp_path)
    (item,) = case.evidence
    assert (item.file, item.details["what"]) == (
        "traces/node-a.sqlite",
        "nsight of file node-a.nsys-rep",
    )
    assert "by nsys" in item.details["exported"]
    assert [f.name for f in case.trace_files] == ["node-a.sqlite"]
    assert case.gaps == ()
    findings = training_findings(case)
    assert [list(f.details.ranks) for f in findings] == [[0]]


@pytest.mark.parametrize(
    ("script", "reason"),
    [(None, "not on PATH"), ("exit 7", "exit status 7"), ("sleep 600", "did not end within")],
)
def test_what_cannot_be_exported_is_a_gap_and_stays_in_the_case(
    script: str | None, reason: str, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading_traces, "PART_SECONDS", 1.0)
    if script is None:
        no_nsys(monkeypatch, tmp_path)
    else:
        nsys_that(tmp_path, script, monkeypatch)
    case = investigated(tmp_path)
    (gap,) = case.gaps
    assert (gap.kind, gap.query) == ("traces", f"{runs}/node-a.nsys-rep")
    assert reason in gap.reason
    assert "nsys export --type=sqlite" in gap.reason
    assert [f.name for f in case.trace_files] == ["node-a.nsys-rep"]
    (finding,) = training_findings(case)
    assert (finding.kind, finding.subject) == ("trace_unreadable", "node-a.nsys-rep")


def test_the_time_of_all_reports_together_is_bounded(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "node-b.nsys-rep").write_bytes(b"\0a report")
    monkeypatch.setattr(reading_traces, "PART_SECONDS", 1.0)
    nsys_that(tmp_path, "sleep 600", monkeypatch)
    first, second = investigated(tmp_path).gaps
    assert "did not end within" in first.reason
    assert "were used up by others" in second.reason


def test_two_nodes_exports_are_different_ranks(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (runs / "node-b.nsys-rep").write_bytes(b"\0a report")
    nsys_that(tmp_path, f'cp {small_export(tmp_path / "real.sqlite")} "$output"', monkeypatch)
    assert {tuple(f.details.ranks) for f in training_findings(investigated(tmp_path))} == {(0, 1)}
