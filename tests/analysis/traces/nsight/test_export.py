"""Nsight Systems exports become the same columns as profiler traces."""

from __future__ import annotations

import gzip
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.nsight.export import read_export
from faultline.analysis.traces.reading import hostile_sqlite as database

UTC_NS = 1_790_000_000_000_000_000
PROCESS = (1 << 48) | (77 << 24)
THREAD = PROCESS | 78


def _write(path: Path, tables: dict[str, tuple[str, Sequence[tuple[object, ...]]]]) -> Path:
    with sqlite3.connect(path) as connection:
        for table, (columns, rows) in tables.items():
            connection.execute(f"CREATE TABLE {table} ({columns})")
            for row in rows:
                connection.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)
    connection.close()
    return path


def _small() -> dict[str, tuple[str, Sequence[tuple[object, ...]]]]:
    return {
        "StringIds": (
            "id INTEGER, value TEXT",
            [(1, "cudaLaunchKernel_v7000"), (2, "void gemm<float>()"), (3, "step 1")],
        ),
        "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs INTEGER", [(UTC_NS,)]),
        "CUPTI_ACTIVITY_KIND_RUNTIME": (
            "start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER, correlationId "
            "INTEGER, nameId INTEGER",
            [(100, 150, 0, THREAD, 5, 1)],
        ),
        "CUPTI_ACTIVITY_KIND_KERNEL": (
            "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId "
            "INTEGER, "
            "globalPid INTEGER, demangledName INTEGER, gridX INTEGER, gridY INTEGER, gridZ INTEGER",
            [(200, 900, 0, 7, 5, PROCESS, 2, 4, 2, 1)],
        ),
        "CUPTI_ACTIVITY_KIND_MEMCPY": (
            "start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER, correlationId "
            "INTEGER, "
            "globalPid INTEGER, bytes INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER",
            [(1000, 2000, 0, 7, 6, PROCESS, 12_000, 1, 0, 2)],
        ),
        "NVTX_EVENTS": (
            "start INTEGER, end INTEGER, eventType INTEGER, text TEXT, globalTid INTEGER, textId "
            "INTEGER",
            [
                (50, 3000, 59, None, THREAD, 3),
                (60, 160, 59, "aten::mm, seq = 4, op_id = 9", THREAD, None),
                (70, None, 34, "a mark", THREAD, None),
            ],
        ),
    }


def test_tables_without_any_of_the_columns_that_are_read(tmp_path: Path) -> None:
    """Tools that trim exports keep tables and drop columns."""
    tables = _small() | {
        "TARGET_INFO_GPU": ("id INTEGER, name TEXT", [(0, "NVIDIA H100 80GB HBM3")]),
        "OSRT_API": ("globalVid INTEGER", [(1,), (2,)]),
        "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": ("eventId INTEGER", [(1,)]),
    }
    (trace,) = read_export(_write(tmp_path / "job.sqlite", tables))
    assert trace.header["deviceProperties"][0]["name"] == "NVIDIA H100 80GB HBM3"
    assert "step 1" in {trace.name_of(row) for row in range(len(trace))}


def test_numbered_ranges_are_steps(tmp_path: Path) -> None:
    tables = _small()
    columns, rows = tables["NVTX_EVENTS"]
    inner = [(1_000 * n + 10, 1_000 * n + 20, 59, "batch 0", THREAD, None) for n in range(4, 7)]
    outer = [(1_000 * n, 1_000 * n + 900, 59, f"Iteration {n}", THREAD, None) for n in range(4, 7)]
    tables["NVTX_EVENTS"] = columns, [*rows[1:], *outer, *inner]
    (trace,) = read_export(_write(tmp_path / "job.sqlite", tables))
    steps = steps_of(trace)
    assert steps.number.tolist() == [4, 5, 6]
    assert (steps.end - steps.start).tolist() == [900, 900, 900]


@pytest.mark.parametrize(
    ("wanted", "numbers"), [("train_step", [0, 1]), ("train*", [0, 1]), ("eval", [7, 9])]
)
def test_steps_are_what_the_user_says(tmp_path: Path, wanted: str, numbers: list[int]) -> None:
    tables = _small()
    columns, _ = tables["NVTX_EVENTS"]
    names = ["train_step", "eval 7", "train_step", "eval 9", "iteration 1", "iteration 2"]
    tables["NVTX_EVENTS"] = (
        columns,
        [(100 * n, 100 * n + 50, 59, name, THREAD, None) for n, name in enumerate(names)],
    )
    (trace,) = read_export(_write(tmp_path / "job.sqlite", tables))
    assert steps_of(replace(trace, step_name=wanted)).number.tolist() == numbers


def test_kernels_calls_copies_and_ranges_are_rows_in_utc(tmp_path: Path) -> None:
    (trace,) = read_export(_write(tmp_path / "job.sqlite", _small()))
    assert {(trace.name_of(row), trace.category_of(row)) for row in range(len(trace))} == {
        ("cudaLaunchKernel", "cuda_runtime"),
        ("void gemm<float>()", "kernel"),
        ("Memcpy HtoD (Pageable -> Device)", "gpu_memcpy"),
        ("aten::mm", "cpu_op"),
        ("step 1", "user_annotation"),
    }
    kernel = next(row for row in range(len(trace)) if trace.category_of(row) == "kernel")
    assert (trace.ts[kernel], trace.dur[kernel], trace.stream[kernel]) == (UTC_NS + 200, 700, 7)
    assert trace.name_of(int(launched_by(trace)[kernel])) == "cudaLaunchKernel"
    assert trace.arguments.text("grid").at(np.asarray([kernel])) == ["[4,2,1]"]
    assert trace.dropped == {"NVTX marks and ranges that never end": 1}


def test_bandwidth_of_a_copy_is_its_bytes_over_its_time(tmp_path: Path) -> None:
    (trace,) = read_export(_write(tmp_path / "job.sqlite", _small()))
    assert trace.arguments.number("memory bandwidth (GB/s)").values.tolist() == [12.0]


def test_a_real_export_of_two_gpus_is_two_ranks(shared: Path, tmp_path: Path) -> None:
    packed = shared / "traces/nsys_sqlite/h100_2gpu_1s.sqlite.gz"
    unpacked = tmp_path / "h100.sqlite"
    unpacked.write_bytes(gzip.decompress(packed.read_bytes()))
    traces = read_export(unpacked)
    assert [(t.rank, t.rank_source, t.world_size) for t in traces] == [
        (0, "order", 2),
        (1, "order", 2),
    ]
    assert sum(int(t.in_category("kernel").sum()) for t in traces) == 3442
    assert sum(int(t.in_category("gpu_memcpy").sum()) for t in traces) == 904
    assert {t.host for t in traces} == {"modal"}


def test_an_old_schema_without_most_columns_still_reads(tmp_path: Path) -> None:
    tables = _small()
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = (
        "start INTEGER, end INTEGER, shortName INTEGER",
        [(5, 6, 2)],
    )
    (trace, *_) = read_export(_write(tmp_path / "old.sqlite", tables))
    assert "void gemm<float>()" in trace.names


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"SQLite format 3\0" + b"\xff" * 5000, "is no readable SQLite file"),
        (b"hello", "is no readable SQLite file"),
    ],
)
def test_what_is_no_database_is_one_clear_line(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "broken.sqlite"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=said):
        read_export(path)


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "other.sqlite", {"people": ("name TEXT", [("x",)])})
    with pytest.raises(EvidenceError, match="no export of Nsight Systems"):
        read_export(path)


def test_a_truncated_export_is_one_clear_line(tmp_path: Path) -> None:
    whole = _write(tmp_path / "whole.sqlite", _small()).read_bytes()
    path = tmp_path / "cut.sqlite"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(EvidenceError, match=r"cut\.sqlite"):
        read_export(path)


def test_a_view_that_never_ends_is_not_read(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "hostile.sqlite", {k: v for k, v in _small().items() if k != "NVTX_EVENTS"}
    )
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS (SELECT 1 UNION ALL SELECT "
            "start + 1 FROM n) "
            "SELECT start FROM n"
        )
    connection.close()
    (trace,) = read_export(path)
    assert "user_annotation" not in trace.categories


def test_reading_ends_when_it_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(
        tmp_path / "large.sqlite",
        {"StringIds": ("id INTEGER, value TEXT", [(i, "x") for i in range(20_000)])},
    )
    monkeypatch.setattr(database, "MAX_SECONDS", -1)
    monkeypatch.setattr(database, "STEPS_BETWEEN_CHECKS", 100)
    with pytest.raises(EvidenceError, match="interrupted"):
        read_export(path)


def test_values_of_the_wrong_type_and_impossible_times_are_left_out(tmp_path: Path) -> None:
    tables = _small()
    columns, rows = tables["CUPTI_ACTIVITY_KIND_KERNEL"]
    more = [
        ("text", 9, 0, 7, 8, PROCESS, 2, 1, 1, 1),
        (900, 100, 0, 7, 9, PROCESS, 2, 1, 1, 1),
        (2**62, 2**63 - 1, 0, 7, 9, PROCESS, 2, 1, 1, 1),
    ]
    tables["CUPTI_ACTIVITY_KIND_KERNEL"] = (columns, [*rows, *more])
    (trace,) = read_export(_write(tmp_path / "odd.sqlite", tables))
    assert trace.dropped["events with a time outside the trace"] == 2


def test_an_export_of_one_process_named_after_its_rank_is_that_rank(tmp_path: Path) -> None:
    (trace,) = read_export(_write(tmp_path / "run.rank3.sqlite", _small()))
    assert (trace.rank, trace.rank_source, trace.world_size) == (3, "file name", None)
