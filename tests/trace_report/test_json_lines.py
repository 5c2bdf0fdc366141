"""`--jsonl`: the rows of each rank as lines of JSON, while ranks are read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.traces.reading.kineto import read_trace
from faultline.trace_report.analysis_run import RankRequest, run_job
from faultline.trace_report.json_output import row_lines
from faultline.trace_report.registry import ANALYSES, MAX_ROWS, all_rows_of
from faultline.trace_report.sources import opened
from tests.analysis.traces.written_traces import document, event, job, write_trace
from tests.trace_report.command import trace, write_job


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_lines_hold_what_the_document_holds(tmp_path: Path) -> None:
    folder = write_job(tmp_path / "job")
    file = tmp_path / "out.jsonl"
    done = trace(folder, "--json", "--jsonl", file)
    assert done.returncode == 0, done.stderr
    told, lines = json.loads(done.stdout), lines_of(file.read_text())
    for name, rows in told["analyses"].items():
        own = [line for line in lines if (line["record"], line.get("analysis")) == ("row", name)]
        head = {"record", "analysis", "file"}
        stripped = [{key: line[key] for key in line if key not in head} for line in own]
        assert sorted(map(json.dumps, stripped)) == sorted(map(json.dumps, rows)), name
    for record, key in (("rank", "ranks"), ("diagnosis", "diagnoses")):
        assert [line for line in lines if line["record"] == record] == [
            {"record": record, **entry} for entry in told[key]
        ]
    assert lines[-1] == {"record": "summary", **told["summary"]}


def test_every_row_is_written_also_those_that_a_document_leaves_out(tmp_path: Path) -> None:
    kernels = [
        event(f"kernel_{n}", 1_000 + 10 * n, 5, cat="kernel", tid=7, stream=7)
        for n in range(MAX_ROWS + 50)
    ]
    file = write_trace(tmp_path / "rank3.json", document(kernels, rank=3))
    done = trace(file, "--jsonl", "-", "--only", "kernels")
    assert done.returncode == 0, done.stderr
    rows = [line for line in lines_of(done.stdout) if line["record"] == "row"]
    assert len({row["name"] for row in rows}) == MAX_ROWS + 50
    assert {(row["analysis"], row["file"], row["rank"]) for row in rows} == {
        ("kernels", "rank3.json", 3)
    }


def test_of_what_is_written_nothing_stays_in_memory(tmp_path: Path) -> None:
    written: list[bytes] = []
    wanted = RankRequest(
        ("operators", "serving"), as_lines=True, returned_analyses=frozenset(("serving",))
    )
    with opened([str(write_job(tmp_path / "job"))]) as sources:
        result = run_job(sources, wanted, jobs=1, say=lambda *_: None, write_lines=written.append)
    assert len(written) == len(result.ranks) == 4
    assert all(b'"analysis":"operators"' in lines for lines in written)
    assert {(tuple(rank.rows), rank.lines) for rank in result.ranks} == {(("serving",), b"")}


def test_ranks_that_only_the_order_of_files_tells_are_in_their_own_lines(tmp_path: Path) -> None:
    for name, events in zip("ab", job(ranks=2), strict=True):
        write_trace(tmp_path / f"{name}.json", document(events, None))
    lines = lines_of(trace(tmp_path, "--jsonl", "-", "--only", "operators").stdout)
    assert {line["rank"] for line in lines if line["record"] == "row"} == {None}
    ranks = {line["file"]: line["rank"] for line in lines if line["record"] == "rank"}
    assert ranks == {"a.json": 0, "b.json": 1}


def test_the_lines_of_one_analysis_are_a_table(tmp_path: Path) -> None:
    file = tmp_path / "out.jsonl"
    assert trace(write_job(tmp_path / "job"), "--jsonl", file).returncode == 0
    own = [line for line in file.read_bytes().splitlines() if b'"analysis":"operators"' in line]
    operators = pl.read_ndjson(b"\n".join(own))
    assert set(operators["rank"]) == {0, 1, 2, 3}
    assert operators["file"].null_count() == 0


@pytest.mark.parametrize("name", ANALYSES)
def test_no_row_has_a_name_that_says_what_the_line_is(name: str, tmp_path: Path) -> None:
    path = write_trace(tmp_path / "rank0.json", document(job(ranks=1)[0], 0, 1))
    rows = all_rows_of(name, read_trace(path))
    for line, row in zip(
        lines_of(row_lines({name: rows}, "rank0.json", 0).decode()), rows, strict=True
    ):
        assert line == {
            "record": "row",
            "analysis": name,
            "file": "rank0.json",
            "rank": 0,
            **row,
        }
        assert not {"record", "analysis", "file", "rank"} & set(row)


def test_a_file_that_cannot_be_written_and_two_documents_on_one_stream_are_refused(
    tmp_path: Path,
) -> None:
    folder = write_job(tmp_path / "job")
    done = trace(folder, "--jsonl", tmp_path / "no" / "such" / "folder")
    assert (done.returncode, "cannot be written" in done.stderr) == (2, True)
    done = trace(folder, "--json", "--jsonl", "-")
    assert (done.returncode, "name a file" in done.stderr) == (2, True)
