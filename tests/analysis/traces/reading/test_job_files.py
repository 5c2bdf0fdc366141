"""Files of a job, told apart by what they hold."""

from __future__ import annotations

import gzip
import os
import pickle
from pathlib import Path

import pytest

from faultline.analysis.traces.reading.job_files import sort_job_files


def test_every_real_file_is_what_its_folder_says(shared: Path) -> None:
    traces = shared / "traces"
    found = {f.path.relative_to(traces).as_posix(): f for f in sort_job_files([traces]).files}
    kinds = {
        "generated/hang_skip/fr/rank_2": "flight_recorder",
        "generated/hang_type_truncated/fr/rank_2": "flight_recorder",
        "generated/hang_skip/http/rank1.fr_trace_json.json": "flight_recorder",
        "nvrx_flight_recorder/gpu_error_1st/_dump_12": "flight_recorder",
        "debug_server/fr_trace_json.html": "flight_recorder",
        "debug_server/stacks.html": "stack_dump",
        "debug_server/index.html": "debug_answer",
        "debug_server/profile_rank1.json.gz": "profiler_trace",
        "generated/hang_skip/http/rank1.dump_traceback.txt": "stack_dump",
        "generated/hang_skip/http/rank1.ping.txt": "debug_answer",
        "generated/hang_skip/http/rank1.wait_counter_values.json": "debug_answer",
        "generated/hang_skip/log_rank3.txt": "log",
        "generated/hang_skip/label.json": "label",
        "generated/nan_loss/metrics_rank1.jsonl": "metrics",
        "hta/execution_trace/benchmark_simple_add_et.json.gz": "execution_trace",
        "hta/memory_analysis/memory_timeline.raw.gz": "memory_timeline",
        "nsys_sqlite/mock.sqlite.gz": "nsight_sqlite",
    }
    assert {path: found[path].kind for path in kinds} == kinds
    assert found["nvrx_flight_recorder/gpu_error_1st/_dump_12"].rank == 12
    assert found["generated/hang_skip/fr/rank_2"].rank == 2
    profiles = [p for p in found if p.endswith(".pt.trace.json.gz")]
    assert len(profiles) > 30
    assert {found[p].kind for p in profiles} == {"profiler_trace"}


def test_names_do_not_matter_where_the_content_speaks(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(
        pickle.dumps({"version": "2.9", "pg_config": {}, "entries": []}, protocol=2)
    )
    (tmp_path / "b.txt").write_bytes(gzip.compress(b'{"schemaVersion": 1, "traceEvents": []}'))
    (tmp_path / "c.json").write_text('{"step": 1, "loss": 2.5}\n{"step": 2, "loss": NaN}\n')
    (tmp_path / "d.json").write_text("[rank0]: Traceback (most recent call last):\n")
    (tmp_path / "e.log").write_text("[W1121 03:01:11.1 WorkerServer.cpp:123] listening\n")
    (tmp_path / "f").write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    (tmp_path / "g").write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 1}]')
    kinds = {f.path.name: f.kind for f in sort_job_files([tmp_path]).files}
    assert kinds == {
        "a": "flight_recorder",
        "b.txt": "profiler_trace",
        "c.json": "metrics",
        "d.json": "other",
        "e.log": "log",
        "f": "memory_snapshot",
        "g": "profiler_trace",
    }


def test_labels_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "label.json").write_text('{"traceEvents": []}')

    def opened(path: Path) -> bytes:
        raise AssertionError(f"{path} was opened")

    monkeypatch.setattr("faultline.analysis.traces.reading.job_files.first_block", opened)
    assert [f.kind for f in sort_job_files([tmp_path]).files] == ["label"]


def test_pipes_links_and_depth_cannot_hold_it_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path)
    deep = tmp_path.joinpath(*"abcdefghijkl")
    deep.mkdir(parents=True)
    (deep / "rank_0").write_text("x")
    (tmp_path / "broken").symlink_to(tmp_path / "nowhere")
    sorted_out = sort_job_files([tmp_path, tmp_path / "missing"])
    assert sorted_out.files == ()
    assert sorted_out.left_out == {
        "no regular file": 3,
        "link to a folder": 1,
        "deeper than 8 folders": 1,
    }
    for i in range(9):
        (tmp_path / f"rank_{i}").write_text("x")
    monkeypatch.setattr("faultline.analysis.traces.reading.job_files.MAX_FILES", 5)
    assert len(sort_job_files([tmp_path]).files) == 5


def test_files_come_by_number_and_once(tmp_path: Path) -> None:
    for i in (10, 9, 100):
        (tmp_path / f"rank_{i}").write_text("x")
    found = sort_job_files([tmp_path, tmp_path / "rank_9"])
    assert [f.rank for f in found.files] == [9, 10, 100]
    assert found.ranks == {9, 10, 100}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("nccl_trace_rank_3", "flight_recorder"),
        ("_dump_3", "flight_recorder"),
        ("nccl_trace_rank_3.txt", "empty"),
        ("rank_3.LOG", "empty"),
        ("model.bin", "empty"),
    ],
)
def test_an_empty_file_that_is_named_as_a_dump_counts_as_one(
    tmp_path: Path, name: str, kind: str
) -> None:
    (tmp_path / name).write_bytes(b"")
    assert [file.kind for file in sort_job_files([tmp_path]).files] == [kind]
