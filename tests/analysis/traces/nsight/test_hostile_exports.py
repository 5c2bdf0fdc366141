"""Exports made to mislead, to delay or to fill memory."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.nsight.export import read_export
from faultline.analysis.traces.reading import hostile_sqlite
from tests.trace_report.nsight_tool import PROCESS, small_export


def changed(path: Path, *statements: str) -> Path:
    with sqlite3.connect(small_export(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return path


def names(trace: TraceColumns) -> set[str]:
    return {trace.name_of(row) for row in range(len(trace))}


def test_an_index_over_names_does_not_swap_them(tmp_path: Path) -> None:
    """Tools that query exports add indexes; SQLite reads a column alone in its index's order."""
    plain = read_export(small_export(tmp_path / "plain.sqlite"))
    indexed = read_export(
        changed(tmp_path / "indexed.sqlite", "CREATE INDEX by_value ON StringIds (value DESC)")
    )
    assert (
        [names(t) for t in indexed]
        == [names(t) for t in plain]
        == [{"cudaLaunchKernel", "void gemm<float>()"}]
    )
    assert [t.name.tolist() for t in indexed] == [t.name.tolist() for t in plain]


def test_triggers_and_views_are_never_run(tmp_path: Path) -> None:
    path = changed(
        tmp_path / "job.sqlite",
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL; "
        "END",
        "CREATE VIEW OSRT_API AS SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL a, "
        "CUPTI_ACTIVITY_KIND_KERNEL b",
        "CREATE VIEW NVTX_EVENTS AS SELECT load_extension('/tmp/evil.so') AS text",
    )
    before = path.read_bytes()
    (trace,) = read_export(path)
    assert len(trace) == 2
    assert path.read_bytes() == before


def test_a_virtual_table_is_no_table_however_it_is_spelt(tmp_path: Path) -> None:
    path = changed(
        tmp_path / "job.sqlite", "CREATE VIRTUAL TABLE OSRT_API USING fts5(start, nameId)"
    )
    assert len(read_export(path)[0]) == 2
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'VIRTUAL TABLE', 'VIRTUAL  TABLE')"
        )
    connection.close()
    assert len(read_export(path)[0]) == 2


def test_a_value_of_many_megabytes_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile_sqlite, "MAX_VALUE_BYTES", 1 << 20)
    path = changed(
        tmp_path / "job.sqlite", f"INSERT INTO StringIds VALUES (9, zeroblob({3 << 20}))"
    )
    with pytest.raises(
        EvidenceError, match=r"job\.sqlite: is no readable SQLite file \(string or blob too big\)"
    ):
        read_export(path)


def test_text_that_no_row_holds_cannot_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostile_sqlite, "MAX_ALL_TEXT", 200_000)
    rows = ", ".join(f"({n}, {n + 1}, 59, {PROCESS | 78})" for n in range(1, 5_000))
    path = changed(
        tmp_path / "job.sqlite",
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid "
        "INTEGER)",
        f"INSERT INTO NVTX_EVENTS VALUES {rows}",
        f"ALTER TABLE NVTX_EVENTS ADD COLUMN text TEXT DEFAULT '{'x' * 4000}'",
    )
    (trace,) = read_export(path)
    assert any("NVTX_EVENTS after" in reason for reason in trace.dropped)
    assert sum(name.startswith("xxx") for name in trace.names) == 1


def test_generated_columns_are_not_worked_out(tmp_path: Path) -> None:
    path = changed(
        tmp_path / "job.sqlite",
        "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, eventType INTEGER, globalTid "
        "INTEGER, "
        "text TEXT GENERATED ALWAYS AS (hex(zeroblob(50000000))) VIRTUAL)",
        f"INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid) VALUES (5, 6, 59, "
        f"{PROCESS | 78})",
    )
    (trace,) = read_export(path)
    assert "(unnamed)" in names(trace)


def test_as_many_processes_as_rows_take_no_quadratic_time(tmp_path: Path) -> None:
    path = small_export(tmp_path / "job.sqlite")
    with sqlite3.connect(path) as connection:
        rows = ((n, n + 1, 0, 7, 5, n << 24, 2) for n in range(1, 100_000))
        connection.executemany(
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )
    connection.close()
    began = time.process_time()
    assert len(read_export(path)) == 256
    assert time.process_time() - began < 25


def test_a_table_that_is_named_to_break_out_of_the_query_is_only_a_name(tmp_path: Path) -> None:
    path = changed(tmp_path / "job.sqlite", 'CREATE TABLE "x"" ; DROP TABLE StringIds --" (a)')
    assert len(read_export(path)) == 1
