"""A case folder may come from a stranger: what is no regular file of it is refused, never read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case import folder, tables
from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import read_table
from faultline.analysis.errors import EvidenceError
from tests.analysis.cases import series, write_case

POINTS = [*series("api", "latency_ms", 100, 900), *series("web", "latency_ms", 50, 52)]
NAMES = ("alert.json", "scope.json", "evidence.json", "metrics.jsonl")
IN_REASONABLE_TIME_S = 60


def fifo(path: Path) -> None:
    os.mkfifo(path)


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def stranger(path: Path) -> None:
    outside = path.parent.parent / "outside"
    outside.write_text("{}")
    path.symlink_to(outside)


def loop(path: Path) -> None:
    path.symlink_to(path.name)


def directory(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(("made", "name"), [(fifo, "alert.json"), (zeros, "metrics.jsonl")])
def test_the_command_ends_in_one_line(
    tmp_path: Path, made: Callable[[Path], None], name: str
) -> None:
    case = tmp_path / "case"
    write_case(case, metrics=POINTS)
    (case / name).unlink()
    made(case / name)
    command = [sys.executable, "-m", "faultline.bot.cli.main", "investigate", str(case)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=IN_REASONABLE_TIME_S, check=False
    )
    assert done.returncode == 2
    assert name in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("made", [fifo, zeros, stranger, loop, directory])
def test_what_is_no_regular_file_of_the_folder_is_refused(
    tmp_path: Path, made: Callable[[Path], None], name: str
) -> None:
    case = tmp_path / "case"
    write_case(case, metrics=POINTS)
    (case / name).unlink(missing_ok=True)
    made(case / name)
    with pytest.raises(EvidenceError, match=f"^{name}: "):
        _ = read_case(case).metrics


def test_a_table_beside_others_that_is_no_regular_file_is_a_gap(tmp_path: Path) -> None:
    write_case(tmp_path, metrics=POINTS)
    fifo(tmp_path / "logs.parquet")
    case = read_case(tmp_path)
    assert [gap.reason for gap in case.gaps] == ["logs.parquet: is not a regular file"]
    assert case.metrics.height == len(POINTS)


def test_files_that_are_too_large_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_case(tmp_path, metrics=POINTS)
    with (tmp_path / "metrics.jsonl").open("ab") as table:
        table.truncate(tables.MAX_TEXT_TABLE_BYTES + 1)
    with pytest.raises(EvidenceError, match=r"metrics.jsonl: has [0-9,]+ bytes, more than"):
        _ = read_case(tmp_path).metrics
    monkeypatch.setattr(folder, "MAX_JSON_BYTES", 10)
    with pytest.raises(EvidenceError, match=r"alert.json: has [0-9,]+ bytes, more than"):
        read_case(tmp_path)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    write_case(tmp_path, metrics=POINTS)
    (tmp_path / "metrics.jsonl").rename(tmp_path / "kept.jsonl")
    (tmp_path / "metrics.jsonl").symlink_to("kept.jsonl")
    assert read_case(tmp_path).metrics.height == len(POINTS)


def test_a_link_out_of_the_traces_is_left_out(tmp_path: Path) -> None:
    case = tmp_path / "case"
    write_case(case, metrics=POINTS)
    (case / "traces").mkdir()
    (case / "traces" / "rank0.json").write_text("{}")
    (case / "traces" / "rank1.json").symlink_to(case / "alert.json")
    assert [path.name for path in read_case(case).trace_files] == ["rank0.json"]


NESTED: tuple[tuple[str, Any, pl.DataType], ...] = (
    ("list", ["a"], pl.List(pl.String)),
    ("numbers", [1.0, 2.0], pl.Array(pl.Float64, 2)),
    ("struct", {"a": 1}, pl.Struct({"a": pl.Int64})),
)


@pytest.mark.parametrize(("kind", "value", "dtype"), NESTED)
@pytest.mark.parametrize("column", ["time", "value"])
def test_a_nested_column_is_one_line_about_the_column(
    tmp_path: Path, kind: str, value: Any, dtype: pl.DataType, column: str
) -> None:
    write_case(tmp_path, metrics=POINTS)
    nested = pl.Series(column, [value] * len(POINTS), dtype=dtype)
    table = pl.read_ndjson(tmp_path / "metrics.jsonl").with_columns(nested)
    table.write_parquet(tmp_path / "metrics.parquet")
    with pytest.raises(
        EvidenceError, match=rf"^metrics.parquet, first in row 1: {column} "
    ) as said:
        read_table(tmp_path, "metrics")
    assert "\n" not in str(said.value), kind
