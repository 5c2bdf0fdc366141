"""One bad value costs its row and is reported; it never costs the case."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.readable_rows import LONGEST_TEXT
from faultline.analysis.case.tables import SCHEMAS, read_rows, was_checked, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Gap, Verdict
from tests.analysis.cases import at, series, spans, write_case

SLOW = [*series("api", "latency_ms", 100, 900), *series("web", "latency_ms", 50, 52)]
TABLES: dict[str, list[dict[str, Any]]] = {
    "metrics": SLOW,
    "logs": [
        {"time": at(n), "service": "api", "message": f"took {n} s", "level": "ERROR"}
        for n in range(-5, 5)
    ],
    "spans": [*spans(-20, 10, 50, 40, tag="a"), *spans(5, 10, 500, 450, tag="b")],
    "changes": [
        {"time": at(-1), "service": "api", "kind": "deploy", "id": "v2", "title": "v2", "diff": "x"}
    ]
    * 2,
    "topology": [{"caller": "web", "callee": "api"}, {"caller": "api", "callee": "db"}],
    "monitors": [
        {"monitor": "m", "service": "api", "state": "firing", "since": at(n)} for n in (1, 2)
    ],
}
NO_TIMES = ("yesterday", "", "NaN", "0001-01-01T00:00:00Z", 1_767_225_600, 9e99, True, [1], {})
NO_NUMBERS = ("x", "NaN", "inf", "1,5", True, [1], {"a": 1})
NO_TEXTS = ("\u00e9" * (LONGEST_TEXT // 2 + 1),)
IDS = {"trace_id", "span_id", "signal", "kind", "id", "caller", "callee", "monitor"}


@st.composite
def corruptions(draw: st.DrawFn) -> tuple[str, str, int, Any]:
    """Table, column, row and a value that cannot stand there."""
    table = draw(st.sampled_from(sorted(TABLES)))
    row = draw(st.integers(0, len(TABLES[table]) - 1))
    columns = SCHEMAS[table].columns
    column = draw(st.sampled_from(sorted(set(columns) & set(TABLES[table][row]))))
    if columns[column] == pl.String:
        blank = ("", " ", None) if column in IDS else ()
        return table, column, row, draw(st.sampled_from((*NO_TEXTS, *blank)))
    if columns[column] == pl.Float64:
        below = (-1.0, "-5", None) if column == "duration_us" else ()
        return table, column, row, draw(st.sampled_from((*NO_NUMBERS, *below)))
    return table, column, row, draw(st.sampled_from((*NO_TIMES, None)))


def write(folder: Path, table: str, column: str, row: int, value: Any, suffix: str) -> Case:
    shutil.rmtree(folder, ignore_errors=True)
    rows = [dict(one) for one in TABLES[table]]
    rows[row][column] = value
    write_case(folder, alert={"service": "api"}, **{**TABLES, table: rows})
    if suffix == ".csv":
        names = list(dict.fromkeys(name for one in rows for name in one))
        (folder / f"{table}.jsonl").unlink()
        with (folder / f"{table}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, names)
            writer.writeheader()
            writer.writerows(rows)
    return read_case(folder)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(corruptions(), st.sampled_from([".jsonl", ".csv"]))
def test_a_single_bad_cell_costs_its_row_and_is_reported(
    tmp_path: Path, corruption: tuple[str, str, int, Any], suffix: str
) -> None:
    table, column, row, value = corruption
    case = write(tmp_path / "case", table, column, row, value, suffix)
    whole = len(TABLES[table])
    rows = getattr(case, table)
    if column == "value":
        rows = rows.drop_nulls("value")
    assert rows.height == whole - 1, (table, column, value)
    (gap,) = case.gaps
    assert gap.kind == table
    assert gap.reason.startswith(f"1 of {whole} ")
    assert column in gap.reason
    assert f"row {row + 1}" in gap.reason
    assert len(gap.reason) < 300


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(corruptions())
def test_the_diagnosis_goes_on_without_the_row(
    tmp_path: Path, corruption: tuple[str, str, int, Any]
) -> None:
    case = write(tmp_path / "case", *corruption, ".jsonl")
    found = diagnose(case)
    assert found.causes
    assert found.causes[0].subject == "api"


def test_gaps_say_how_many_rows_and_why(tmp_path: Path) -> None:
    rows = spans(5, 10, 500, 450, tag="b")
    rows[3]["trace_id"], rows[7]["trace_id"], rows[9]["duration_us"] = "", "", -4.0
    (gap,) = write_case(tmp_path, spans=rows).gaps
    assert gap.reason == (
        "3 of 20 spans could not be read: trace_id is empty (first in row 4); "
        "duration_us '-4.0' is negative (row 10)"
    )
    assert (gap.id, gap.kind, gap.query) == ("G1", "spans", "spans.jsonl")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.csv", "time,service\n1,2\n"),
        ("metrics.parquet", "no Parquet at all"),
        ("metrics.jsonl", "{]\n"),
        ("metrics.csv", "time,service,signal,value\nyesterday,web,x,1\n"),
    ],
)
def test_a_file_that_cannot_be_read_is_a_gap_beside_others_and_an_error_alone(
    tmp_path: Path, name: str, content: str
) -> None:
    beside, alone = tmp_path / "beside", tmp_path / "alone"
    write_case(beside, spans=TABLES["spans"])
    write_case(alone)
    for folder in (beside, alone):
        (folder / name).write_text(content)
    case = read_case(beside)
    assert (case.metrics.height, case.spans.height) == (0, len(TABLES["spans"]))
    assert [gap.kind for gap in case.gaps] == ["metrics"]
    assert diagnose(case).verdict in Verdict
    with pytest.raises(EvidenceError, match=name):
        diagnose(read_case(alone))


def test_lines_and_rows_that_are_none_are_counted(tmp_path: Path) -> None:
    write_case(tmp_path, metrics=SLOW)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    lines[4] = lines[4][:20]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    (gap,) = read_case(tmp_path).gaps
    assert gap.reason.startswith(f"1 of {len(SLOW)} points could not be read: is not a JSON object")
    (tmp_path / "metrics.jsonl").unlink()
    table = "time,service,signal,value\n2026-01-01T00:00:00Z,web,x,1\nweb,x\n1,2,3,4,5\n"
    (tmp_path / "metrics.csv").write_bytes(table.encode() + b"2026-01-01T00:01:00Z,w\xff,x,2\n")
    case = read_case(tmp_path)
    assert case.metrics["value"].to_list() == [1, 2]
    assert [gap.reason for gap in case.gaps] == [
        "2 of 4 points could not be read: does not have 4 fields (first in row 2)"
    ]


def test_values_of_another_type_cost_their_rows_alone(tmp_path: Path) -> None:
    write_case(tmp_path, logs=TABLES["logs"])
    odd = pl.DataFrame({"caller": ["web"], "callee": [["api", "db"]]})
    odd.write_parquet(tmp_path / "topology.parquet")
    assert read_rows(tmp_path, "topology").rows.height == 1
    times = pl.DataFrame({"monitor": ["m"], "service": ["s"], "state": ["x"], "since": [[1, 2]]})
    times.write_parquet(tmp_path / "monitors.parquet")
    case = read_case(tmp_path)
    assert case.monitors.height == 0
    assert [gap.kind for gap in case.gaps] == ["monitors"]


def test_files_that_were_checked_when_they_were_written_are_not_read_for_gaps(
    tmp_path: Path,
) -> None:
    case = write_case(tmp_path, metrics=SLOW)
    path = write_table(tmp_path, "metrics", case.metrics)
    assert was_checked(path)
    path.write_bytes(path.read_bytes()[:100])
    assert not was_checked(path)


def test_gaps_that_were_recorded_before_are_not_told_twice(tmp_path: Path) -> None:
    rows = [{**row, "value": "NaN"} if n == 3 else row for n, row in enumerate(SLOW)]
    first = write_case(tmp_path, metrics=rows).gaps
    recorded = json.loads(json.dumps([gap.model_dump() for gap in first]))
    again = write_case(tmp_path, metrics=rows, evidence=recorded)
    assert again.gaps == first


def test_samples_that_are_no_numbers_do_not_cap_the_answer(tmp_path: Path) -> None:
    """0/0 is what a share of no requests is."""
    item = {"id": "E1", "kind": "metrics", "source": "prometheus", "query": "error_ratio"}
    gap = {
        "id": "G1",
        "kind": "metrics",
        "query": "error_ratio",
        "reason": "2 of 90 are no numbers",
    }
    alert = {"service": "api", "signal": "latency_ms"}

    def lost(folder: Path, source: str) -> tuple[str, ...]:
        case = write_case(folder, alert=alert, evidence=[item], metrics=SLOW)
        known = replace(case, recorded_gaps=(Gap.model_validate({**gap, "source": source}),))
        assert len(known.gaps) == 1
        return tuple(each.id for each in known.lost)

    assert lost(tmp_path / "some", "prometheus") == ()
    assert lost(tmp_path / "all", "datadog") == ("G1",)
