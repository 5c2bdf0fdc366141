"""Snapshots of GPU memory, judged."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.job.telemetry import diagnoses_of_files
from faultline.analysis.traces.memory_snapshot.judgement import judge
from faultline.analysis.traces.memory_snapshot.reading import Snapshot, read_snapshot
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.analysis.traces.memory_snapshot.allocator import GB, MB, Allocator, stack, train
from tests.lines_run import lines_run


def told(folder: Path) -> list[JobDiagnosis]:
    return diagnoses_of_files(sort_job_files([folder]))


def accused(folder: Path) -> list[tuple[str, str]]:
    return [(d.rule, d.severity) for d in told(folder) if d.severity != "info"]


def test_a_healthy_job_is_accused_of_nothing_and_its_peak_has_a_line(tmp_path: Path) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 10, layers=9)
    allocator.write(tmp_path / "rank_0_snapshot.pickle")
    (held,) = told(tmp_path)
    assert (held.rule, held.severity) == ("memory_held", "info")
    assert held.statement == (
        "rank 0 held 10.5 GB of GPU memory at its peak, 4.5 GB of it from model/layers.py:88 "
        "(forward)"
    )


@pytest.mark.parametrize("keep", [None, 130])
def test_the_peak_is_found_though_the_history_lost_its_beginning(
    tmp_path: Path, keep: int | None
) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 10)
    peak = judge(read_snapshot(allocator.write(tmp_path / "a.pickle", keep))).peak
    assert peak is not None
    assert peak.allocated == 10 * GB
    assert {h.site: h.size for h in peak.holders} == {
        "model/layers.py:88 (forward)": 4 * GB,
        "model/layers.py:5 (build)": 2 * GB,
        "job/train.py:20 (main)": 4 * GB,
    }


def test_what_stays_of_every_step_is_growth_with_its_line(tmp_path: Path) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 12, leak=MB)
    allocator.write(tmp_path / "000003_step_12.pickle")
    (found,) = (d for d in told(tmp_path) if d.severity != "info")
    assert (found.rule, found.severity) == ("memory_growth", "warning")
    assert "rank 3" in found.statement
    assert found.details["line"] == "job/metrics.py:42 (log_loss)"
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 12, leak=50 * MB)
    allocator.write(tmp_path / "000003_step_12.pickle")
    assert accused(tmp_path) == [("memory_growth", "critical")]


def test_cycles_without_an_optimizer_show_growth_too(tmp_path: Path) -> None:
    for name, leak in (("leaks", MB), ("healthy", 0)):
        allocator = Allocator(reserved=8 * GB)
        train(allocator, 14, leak=leak, optimizer=False)
        allocator.write(tmp_path / name / "a.pickle")
        assert accused(tmp_path / name) == ([("memory_growth", "warning")] if leak else [])


def test_one_long_forward_pass_is_no_growth(tmp_path: Path) -> None:
    allocator = Allocator(reserved=50 * GB)
    for _ in range(80):
        held = allocator.alloc(200 * MB, stack(90))
        allocator.alloc(500 * MB, stack(88))
        allocator.free(held)
    allocator.write(tmp_path / "a.pickle")
    assert accused(tmp_path) == []


def out_of_memory(allocator: Allocator, path: Path, free: list[int] | None = None) -> JobDiagnosis:
    allocator.write(path, free=free)
    (found,) = (d for d in told(path.parent) if d.severity != "info")
    assert (found.rule, found.severity) == ("out_of_memory", "critical")
    return found


def test_out_of_memory_by_fragmentation(tmp_path: Path) -> None:
    allocator = Allocator(reserved=70 * GB)
    allocator.alloc(40 * GB, stack(5))
    allocator.oom(8 * GB, 1 * GB, stack(77))
    found = out_of_memory(allocator, tmp_path / "rank_2.pickle", free=[3 * GB] * 10)
    assert found.ranks == (2,)
    assert found.statement == (
        "rank 2 ran out of memory on the GPU in model/layers.py:77 (forward): 8 GB were asked "
        "for, 1 GB were free "
        "on the device; the allocator had 30 GB more, but in pieces too small, the largest 3 GB: "
        "fragmentation"
    )
    assert "expandable_segments" in found.fix


def test_out_of_memory_by_one_large_allocation(tmp_path: Path) -> None:
    allocator = Allocator(reserved=20 * GB)
    allocator.alloc(19 * GB, stack(5))
    allocator.oom(64 * GB, 50 * GB, stack(77, "attention"))
    found = out_of_memory(allocator, tmp_path / "a.pickle")
    assert found.details["cause"] == "one large allocation"
    assert found.details["line"] == "model/layers.py:77 (attention)"


def test_out_of_memory_by_growth_names_the_line_that_keeps_memory(tmp_path: Path) -> None:
    allocator = Allocator(reserved=11_200 * MB)
    train(allocator, 20, leak=50 * MB)
    for _ in range(8):
        allocator.alloc(500 * MB, stack(88))
    allocator.oom(500 * MB, 20 * MB, stack(88))
    found = out_of_memory(allocator, tmp_path / "a.pickle")
    assert found.details["cause"] == "growth"
    assert "kept from job/metrics.py:42 (log_loss)" in found.statement


def test_out_of_memory_near_the_limit_names_who_holds_most(tmp_path: Path) -> None:
    allocator = Allocator(reserved=78 * GB)
    allocator.alloc(77 * GB, stack(5))
    allocator.oom(2 * GB, 1 * GB, stack(88))
    found = out_of_memory(allocator, tmp_path / "a.pickle")
    assert found.details["cause"] == "near the limit"
    assert found.statement.endswith("77 GB were held, most by model/layers.py:5 (forward) (77 GB)")


def test_a_log_of_the_same_rank_does_not_say_it_again(tmp_path: Path) -> None:
    allocator = Allocator(reserved=78 * GB)
    allocator.oom(2 * GB, 1 * GB, stack(88))
    allocator.write(tmp_path / "rank_1_snapshot.pickle")
    log = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
        "total capacity\n"
    )
    (tmp_path / "log_rank1.txt").write_text("started\n" + log)
    (tmp_path / "log_rank2.txt").write_text("started\n" + log)
    assert [d.ranks for d in told(tmp_path) if d.rule == "out_of_memory"] in (
        [(1, 2), (1,)],
        [(2,), (1,)],
    )
    (tmp_path / "log_rank2.txt").unlink()
    assert [d.ranks for d in told(tmp_path) if d.rule == "out_of_memory"] == [(1,)]


def test_reserved_memory_that_is_never_used(tmp_path: Path) -> None:
    allocator = Allocator(reserved=30 * GB)
    train(allocator, 10)
    allocator.write(tmp_path / "a.pickle")
    assert accused(tmp_path) == [("memory_fragmentation", "warning")]


def test_a_snapshot_without_history_says_what_is_held(tmp_path: Path) -> None:
    allocator = Allocator(reserved=30 * GB)
    train(allocator, 3)
    allocator.write(tmp_path / "a.pickle.gz", keep=0)
    (tmp_path / "a.pickle.gz").write_bytes(gzip.compress((tmp_path / "a.pickle.gz").read_bytes()))
    (held,) = told(tmp_path)
    assert "(no history was recorded), 4 GB of it from job/train.py:20 (main)" in held.statement


def test_only_the_latest_of_a_rank_counts(tmp_path: Path) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 12, leak=MB)
    allocator.write(tmp_path / "step_000000000010" / "000000_step_10.pickle")
    healthy = Allocator(reserved=12 * GB)
    train(healthy, 12)
    healthy.write(tmp_path / "step_000000000020" / "000000_step_20.pickle")
    assert accused(tmp_path) == []


def test_a_file_that_is_cut_off_still_tells_what_is_held(tmp_path: Path) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 10, leak=MB)
    whole = pickle.dumps(allocator.snapshot())
    path = tmp_path / "a.pickle"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    found = read_snapshot(path)
    assert found.cut_off
    assert found.bytes_in("allocated") == 6 * GB + 10 * MB
    assert accused(tmp_path) == []


def test_a_snapshot_that_asks_for_code_is_refused(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Any, ...]:
            return (print, ("segments",))

    (tmp_path / "a.pickle").write_bytes(pickle.dumps({"segments": Bomb(), "device_traces": []}))
    (unread,) = told(tmp_path)
    assert unread.rule == "telemetry_unread"
    assert "refused" in unread.statement


def test_values_of_the_wrong_kind_do_no_harm(tmp_path: Path) -> None:
    huge = 2**200
    odd: list[Any] = [None, -1, 1.5, "x", [], {}]
    blocks = [
        {"size": s, "state": s, "address": s, "frames": s, "requested_size": s}
        for s in [huge, *odd]
    ]
    events = [
        {"action": a, "size": s, "addr": s, "frames": [s]}
        for a in ("alloc", "oom", 5)
        for s in [huge, *odd]
    ]
    deep = {
        "action": "oom",
        "size": 10**9,
        "device_free": 0,
        "frames": [{"filename": "`<!x>\n.py", "line": huge}],
    }
    value = {
        "segments": [1, {"blocks": 3}, {"blocks": blocks, "device": huge, "total_size": huge}],
        "device_traces": [1, [*events, deep], {}],
    }
    (tmp_path / "a.pickle").write_bytes(pickle.dumps(value))
    assert accused(tmp_path) == [("out_of_memory", "critical")]
    assert not any(mark in repr(told(tmp_path)) for mark in ("<!x>", "\\n.py"))
    (tmp_path / "a.pickle").write_bytes(pickle.dumps({"segments": {}, "device_traces": 3}))
    with pytest.raises(EvidenceError, match="no memory snapshot"):
        read_snapshot(tmp_path / "a.pickle")


def test_references_to_the_same_pieces_take_no_quadratic_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.analysis.traces.memory_snapshot.reading.MAX_BLOCKS", 20_000)
    monkeypatch.setattr(
        "faultline.analysis.traces.memory_snapshot.reading.MAX_FRAME_VISITS", 20_000
    )
    blocks = [{"size": 5, "state": "active_allocated", "frames": stack(5)}, 7] * 5_000
    segment = {"device": 0, "total_size": 100, "blocks": blocks}
    frames = stack(5) * 50

    def lines_for(segments: int) -> int:
        events = [
            {"action": "alloc", "addr": 1, "size": 10**9, "frames": list(frames)}
            for _ in range(segments // 5)
        ]
        path = tmp_path / "a.pickle"
        path.write_bytes(
            pickle.dumps({"segments": [segment] * segments, "device_traces": [events]})
        )
        snapshots: list[Snapshot] = []
        lines = lines_run(lambda: snapshots.append(read_snapshot(path)))
        assert len(snapshots[0].blocks) == 10_000
        assert sum(1 for event in snapshots[0].events if event.site) == 100
        return lines

    assert lines_for(10_000) < 4.5 * lines_for(2_500)


def test_a_history_takes_time_in_proportion_to_its_length(tmp_path: Path) -> None:
    def lines_for(steps: int) -> int:
        allocator = Allocator(reserved=12 * GB)
        train(allocator, steps, leak=512)
        path = allocator.write(tmp_path / "a.pickle")
        return lines_run(lambda: judge(read_snapshot(path)))

    assert lines_for(200) < 4.5 * lines_for(50)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10**6), st.binary(max_size=8))
def test_damaged_snapshots_are_survived(
    tmp_path_factory: pytest.TempPathFactory, at: int, noise: bytes
) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 2)
    whole = bytearray(pickle.dumps(allocator.snapshot()))
    at %= len(whole)
    whole[at : at + len(noise)] = noise
    folder = tmp_path_factory.mktemp("damaged")
    (folder / "a.pickle").write_bytes(bytes(whole))
    told(folder)
