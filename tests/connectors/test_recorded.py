"""A recorded case comes back whole, with its own provenance, and without its label."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import SCHEMAS
from faultline.connectors.shared.contract.base import Request, collect_from
from faultline.connectors.vendors.recorded.connector import RecordedConnector


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A case with metrics as CSV, a trace file, one provenance entry, a gap and a label."""
    folder = tmp_path / "case"
    (folder / "traces" / "iteration_10").mkdir(parents=True)
    (folder / "alert.json").write_text(
        json.dumps({"source": "pagerduty", "title": "Slow", "started_at": "2026-03-02T12:00:00Z"})
    )
    (folder / "metrics.csv").write_text(
        "time,service,signal,value\n2026-03-02T11:59:00Z,checkout,latency_p99,900\n"
    )
    (folder / "traces" / "iteration_10" / "rank0_trace.json").write_text('{"traceEvents": []}')
    entries = [
        {
            "id": "E1",
            "kind": "metrics",
            "source": "datadog",
            "query": "p99:checkout",
            "link": "https://example.com/graph",
            "window": ["2026-03-02T11:00:00Z", "2026-03-02T12:00:00Z"],
            "file": "metrics.csv",
        },
        {"id": "E2", "kind": "traces", "source": "traces", "query": "/nfs/llm-1", "file": "traces"},
        {
            "id": "G1",
            "kind": "logs",
            "source": "datadog",
            "query": "service:checkout",
            "reason": "rate limit",
        },
    ]
    (folder / "evidence.json").write_text(json.dumps(entries))
    (folder / "label.json").write_text('{"service": "THE TRUTH"}')
    return folder


def collect(case: Path, files: Path) -> tuple[RecordedConnector, Request]:
    """The connector and the request that asks for the case as recorded."""
    connector = RecordedConnector(case)
    files.mkdir(exist_ok=True)
    return connector, Request(connector.alert(), connector.scope(), files)


def test_tables_items_gaps_and_trace_files_come_back_with_their_own_provenance(
    case: Path, tmp_path: Path
) -> None:
    connector, request = collect(case, tmp_path / "files")
    collected = asyncio.run(collect_from(connector, request))
    assert collected.tables["metrics"]["value"].to_list() == [900.0]
    metrics, trace = collected.items
    assert (metrics.source, metrics.query, metrics.link) == (
        "datadog",
        "p99:checkout",
        "https://example.com/graph",
    )
    assert metrics.window is not None
    assert metrics.rows == 1
    assert trace.file == "iteration_10/rank0_trace.json"
    assert (request.files / trace.file).read_text() == '{"traceEvents": []}'
    (gap,) = collected.missing
    assert (gap.kind, gap.source, gap.reason) == ("logs", "datadog", "rate limit")


def test_the_windows_are_the_recorded_ones(case: Path) -> None:
    scope = {"incident": ["2026-03-02T11:50:00Z", "2026-03-02T12:00:00Z"]}
    (case / "scope.json").write_text(json.dumps(scope))
    assert RecordedConnector(case).scope().incident.start.isoformat() == "2026-03-02T11:50:00+00:00"


def test_the_label_is_not_read(case: Path, tmp_path: Path) -> None:
    connector, request = collect(case, tmp_path / "files")
    opened: list[str] = []
    sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
    collected = asyncio.run(collect_from(connector, request))
    assert any(path.endswith("evidence.json") for path in opened)
    assert not any(path.endswith("label.json") for path in opened)
    assert "THE TRUTH" not in repr(collected)


def test_a_table_that_cannot_be_read_is_a_gap_and_the_rest_stands(
    case: Path, tmp_path: Path
) -> None:
    (case / "logs.jsonl").write_text("{broken")
    connector, request = collect(case, tmp_path / "files")
    collected = asyncio.run(collect_from(connector, request))
    assert any(
        m.kind == "logs" and "logs.jsonl" in m.reason and "row 1" in m.reason
        for m in collected.missing
    )
    assert collected.tables["metrics"].height == 1


def test_a_link_out_of_the_traces_folder_is_not_followed(case: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text("secret")
    (case / "traces" / "rank1_trace.json").symlink_to(secret)
    connector, request = collect(case, tmp_path / "files")
    asyncio.run(collect_from(connector, request))
    assert [p.name for p in request.files.rglob("*") if p.is_file()] == ["rank0_trace.json"]


def test_check_tells_what_is_there_or_what_is_wrong(case: Path, tmp_path: Path) -> None:
    check = asyncio.run(RecordedConnector(case).check())
    assert check.ok
    assert "1 rows of metrics" in check.line
    assert "1 trace files" in check.line
    broken = asyncio.run(RecordedConnector(tmp_path / "nowhere").check())
    assert not broken.ok
    assert "no such directory" in broken.line


def test_public_cases_come_back_row_for_row(shared: Path, tmp_path: Path) -> None:
    for name in ("online-boutique-01", "petshop-01", "rootcausebench-01"):
        case = read_case(shared / "cases" / name)
        connector, request = collect(case.path, tmp_path / name)
        collected = asyncio.run(collect_from(connector, request))
        for table in SCHEMAS:
            recorded: pl.DataFrame = getattr(case, table)
            columns = [one for one in SCHEMAS[table].columns if one in recorded.columns]
            recorded = recorded.select(columns)
            assert collected.tables.get(table, recorded.clear()).equals(recorded)
        assert len(collected.items) == len(case.evidence)
        assert request.scope == case.scope
