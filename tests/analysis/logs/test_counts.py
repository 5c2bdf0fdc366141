from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from faultline.analysis.case.windows import log_windows
from faultline.analysis.logs import counts as log_counts
from faultline.analysis.logs.counts import PIECE, baseline_pieces, counted_lines, distinct_lines
from faultline.analysis.logs.miner import OTHER
from faultline.analysis.logs.templates import log_findings
from tests.analysis.cases import logs, write_case


def test_lines_are_counted_in_the_incident_and_in_each_part_of_the_baseline(tmp_path: Path) -> None:
    case = write_case(tmp_path, logs=logs("api", "order 7 stored", [-50, -49, -20, -1, 1, 2, 3]))
    (row,) = counted_lines(case).lines.iter_rows(named=True)
    assert (row["masked"], row["n"], row["n_before"]) == ("order <*> stored", 3, 4)
    assert [row[f"{PIECE}{i}"] for i in range(4)] == [2, 0, 1, 1]


def test_the_parts_of_the_baseline_are_as_long_as_the_incident_where_there_are_enough(
    tmp_path: Path,
) -> None:
    hours = {"incident": ["2026-03-01T12:00:00Z", "2026-03-01T12:10:00Z"]}
    case = write_case(tmp_path, scope=hours, logs=logs("api", "x", [-5, 5]))
    pieces = baseline_pieces(log_windows(case))
    assert {p.seconds for p in pieces} == {600.0}
    assert len(pieces) == 6


def test_reading_in_chunks_gives_the_same_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = logs("api", "order 7 stored", range(-50, 20)) + logs(
        "db", "disk full", range(-3, 9), level="ERROR"
    )
    case = write_case(tmp_path, logs=rows)
    whole = distinct_lines(case.logs, log_windows(case))
    monkeypatch.setattr(log_counts, "CHUNK", 7)
    assert_frame_equal(distinct_lines(case.logs, log_windows(case)), whole, check_row_order=False)


def test_a_service_of_endless_different_lines_keeps_a_bounded_number_and_loses_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_counts, "MAX_LINES_PER_SERVICE", 25)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [f"{letters[i % 26]}{letters[i // 26]}" for i in range(200)]
    rows = [
        r for i, word in enumerate(words) for r in logs("api", f"{word} was {word} said", [i / 10])
    ]
    rows += logs("db", "disk full", [3.0], level="ERROR")
    case = write_case(tmp_path, logs=rows)
    found = counted_lines(case)
    assert found.lines.filter(pl.col("service") == "api").height <= 26
    assert found.lines["n"].sum() == 201
    assert found.cut == found.lines.filter(pl.col("masked") == OTHER)["n"].sum() > 0
    findings = log_findings(case, found)
    assert all(f.details.written()["lines_cut"] == found.cut for f in findings)
    assert "disk full" in {f.details.written()["template"] for f in findings}


def test_a_case_without_logs_has_no_lines(tmp_path: Path) -> None:
    found = counted_lines(write_case(tmp_path))
    assert (found.lines.height, found.cut) == (0, 0)
    assert log_findings(write_case(tmp_path), found) == []


def test_different_lines_of_one_template_are_grouped_before_any_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_counts, "MAX_LINES_PER_SERVICE", 25)
    names = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]
    rows = [
        r for i, name in enumerate(names) for r in logs("api", f"user {name} logged in", [i / 10])
    ]
    rows += logs("api", "disk full", [3.0], level="ERROR")
    found = counted_lines(write_case(tmp_path, logs=rows))
    assert found.cut == 0
    assert dict(found.lines.select("masked", "n").iter_rows()) == {
        "disk full": 1,
        "user <*> logged in": 100,
    }
