"""`--tables DIR`: Parquet files with all rows, written rank by rank."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.trace_report import tables
from faultline.trace_report.analysis_run import RankRequest, RankResult, run_job
from faultline.trace_report.registry import MAX_ROWS
from faultline.trace_report.sources import opened
from faultline.trace_report.tables import frame_of, schema_of
from tests.analysis.traces.written_traces import document, event, job, write_trace
from tests.trace_report.command import trace, write_job
from tests.trace_report.test_report_command import answer

IN_PROCESSES = (
    "from faultline.bot.cli import main as cli; from faultline.trace_report import workers; "
    "workers.SMALL_BYTES = 1_000; cli.main()"
)


def rank_of(folder: Path, rank: int | None, name: str, at: float = 1_000) -> None:
    """A trace with a kernel of that name."""
    kernel = event(name, at, 5, cat="kernel", tid=7, stream=7)
    write_trace(folder / f"{name}.json", document([kernel], rank))


def test_tables_hold_every_row_and_documents_beside_them_do_not(tmp_path: Path) -> None:
    names = [f"kernel_{number}" for number in range(MAX_ROWS + 200)]
    kernels = [
        event(name, 1_000 + 10 * place, 5, cat="kernel", tid=7, stream=7)
        for place, name in enumerate(names)
    ]
    file = write_trace(tmp_path / "rank0.json", document(kernels, rank=0))
    found = answer(file, "--tables", tmp_path / "tables")
    table = pl.read_parquet(tmp_path / "tables" / "kernels.parquet")
    assert set(table["name"]) == set(names)
    assert table["rank"].to_list() == [0] * len(names)
    assert len(found["analyses"]["kernels"]) == MAX_ROWS
    assert {path.stem for path in (tmp_path / "tables").iterdir()} == set(found["analyses"])


def test_tables_of_what_was_asked_for(tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    done = trace(write_job(tmp_path), "--only", "temporal", "--tables", folder)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in folder.iterdir()] == ["temporal.parquet"]
    (tmp_path / "file").write_text("")
    done = trace(write_job(tmp_path), "--tables", tmp_path / "file" / "below")
    assert done.returncode == 2
    assert "cannot be written (Not a directory)" in done.stderr


def test_tables_are_the_documents_rows_with_the_columns_of_the_library(tmp_path: Path) -> None:
    source = write_job(tmp_path / "job")
    found = answer(source, "--tables", tmp_path / "tables")["analyses"]
    for name in ("kernels", "operators", "recompiles", "steps_by_rank"):
        table = pl.read_parquet(tmp_path / "tables" / f"{name}.parquet")
        assert table.equals(frame_of(name, found[name], by_rank=name != "steps_by_rank")), name
    ranks = pl.read_parquet(tmp_path / "tables" / "operators.parquet")["rank"]
    assert ranks.is_sorted()
    assert ranks.n_unique() == 4


def test_ranks_in_tables_are_those_of_the_report(tmp_path: Path) -> None:
    """What only the order of files tells is known last, and of two captures the newer counts."""
    rank_of(tmp_path, None, "a")
    rank_of(tmp_path, None, "b")
    rank_of(tmp_path, 1, "older")
    rank_of(tmp_path, 1, "newer", at=9_000_000)
    folder = tmp_path / "rank=9" / "[tables] rank5"
    found = answer(tmp_path, "--only", "kernels", "--tables", folder)
    table = pl.read_parquet(folder / "kernels.parquet", glob=False)
    ranks = {row["name"]: row["rank"] for row in found["analyses"]["kernels"]}
    assert dict(zip(table["name"], table["rank"], strict=True)) == ranks
    assert "older" not in ranks


def test_columns_that_one_rank_alone_has_are_empty_for_the_others(tmp_path: Path) -> None:
    parts = []
    rows: list[dict[str, Any]]
    rows = [{"name": "mm", "sm_cycles": 5}, {"name": "mm", "hits": 0.5}, {"name": "mm"}]
    for rank, row in enumerate(rows):
        parts.append((rank, tmp_path / str(rank)))
        tables.write_rank({"counters": [row]}, parts[-1][1])
    tables.write_tables(tmp_path, parts, {})
    table = pl.read_parquet(tmp_path / "counters.parquet")
    assert table.columns == ["rank", *schema_of("counters"), "hits", "name", "sm_cycles"]
    assert table.select("rank", "hits", "sm_cycles").rows() == [
        (0, None, 5),
        (1, 0.5, None),
        (2, None, None),
    ]


def held(ranks: Sequence[RankResult]) -> int:
    """Rows that are in memory."""
    return sum(len(rows) for rank in ranks for rows in rank.rows.values())


def test_however_many_ranks_there_are_one_ranks_rows_are_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest: dict[int, int] = {}
    for count in (2, 6):
        sizes: list[int] = []

        def counted(name: str, rows: Sequence[Any], sizes: list[int] = sizes) -> pl.DataFrame:
            sizes.append(len(rows))
            return frame_of(name, rows)

        monkeypatch.setattr(tables, "frame_of", counted)
        folder = tmp_path / str(count)
        folder.mkdir()
        job_of = folder / "job"
        wanted = RankRequest(("operators",), returned_analyses=frozenset(), table_folder=folder)
        with opened([str(write_job(job_of, ranks=count))]) as sources:
            result = run_job(sources, wanted, jobs=1, say=lambda *_: None)
        assert (len(result.ranks), held(result.ranks), len(sizes)) == (count, 0, count)
        ranks = [(r.summary.rank, r.table_folder) for r in result.ranks if r.table_folder]
        tables.write_tables(folder, ranks, {})
        assert pl.read_parquet(folder / "operators.parquet").height == sum(sizes)
        assert len(sizes) == count
        largest[count] = max(sizes)
    assert largest[2] == largest[6] > 0


def test_ranks_that_processes_read_come_into_one_table(tmp_path: Path) -> None:
    source, folder = tmp_path / "job", tmp_path / "tables"
    for rank, events in enumerate(job(ranks=3, steps=50)):
        write_trace(source / f"rank{rank}.json", document(events, rank, 3))
    command = [sys.executable, "-c", IN_PROCESSES, "trace", str(source), "--jobs", "2"]
    done = subprocess.run(
        [*command, "--only", "temporal,operators", "--tables", str(folder)],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in folder.iterdir()) == [
        "operators.parquet",
        "temporal.parquet",
    ]
    assert pl.read_parquet(folder / "temporal.parquet")["rank"].n_unique() == 3


def test_a_disk_that_fills_ends_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    done = trace(write_job(tmp_path / "job"), "--tables", tmp_path / "tables")
    assert done.returncode == 2
    assert "cannot be written (No space left on device)" in done.stderr
