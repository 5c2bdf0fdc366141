"""Memory over time: allocator events by hand and of a real training, and torch's raw timelines by
category."""

from __future__ import annotations

import gzip
import json
from itertools import groupby
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.memory import (
    holders_at_peak,
    memory_timelines,
    never_freed,
    rows,
    thinned,
)
from faultline.analysis.traces.per_rank.memory_categories import (
    CATEGORIES,
    category_rows,
    read_memory_timeline,
)
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.per_rank.stack_traces import Event, call, step, trace_of

GB = 10**9


def _memory(
    ts: float, address: int, change: int, total: int | None = None, *, kind: int = 1
) -> Event:
    args = {"Addr": address, "Bytes": change, "Device Type": kind, "Device Id": 0 if kind else -1}
    args |= {} if total is None else {"Total Allocated": total, "Total Reserved": total + 100}
    return {
        "ph": "i",
        "s": "t",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
    } | {"args": args}


def _leaking(folder: Path) -> TraceColumns:
    events = [step(1, 0, 100), step(2, 100, 100)]
    for at, level in ((0, 1000), (100, 1010)):
        events += [
            call("aten::linear", at + 10, 30),
            call("aten::empty", at + 15, 10),
            call("aten::cat", at + 60, 10),
            _memory(at + 20, 7, 500, level + 500),
            _memory(at + 65, 9 + at, 10, level + 510),
            _memory(at + 80, 7, -500, level + 10),
        ]
    return trace_of(folder, events)


def test_the_peak_and_who_held_it(tmp_path: Path) -> None:
    trace = _leaking(tmp_path)
    (timeline,) = memory_timelines(trace)
    assert timeline.name == "GPU 0"
    assert timeline.ts[timeline.peak] - trace.ts[0] == 165_000
    assert (timeline.allocated[timeline.peak], timeline.reserved[timeline.peak]) == (1520, 1620)
    held = [(h.operator, h.blocks, h.bytes, h.steps) for h in holders_at_peak(trace, timeline)]
    assert held == [("aten::empty", 1, 500, 1), ("aten::cat", 2, 20, 2)]


def test_what_is_never_freed_and_how_the_level_moves(tmp_path: Path) -> None:
    trace = _leaking(tmp_path)
    (timeline,) = memory_timelines(trace)
    assert [(h.operator, h.bytes, h.steps) for h in never_freed(trace, timeline)] == [
        ("aten::cat", 20, 2)
    ]
    assert timeline.step_number.tolist() == [1, 2]
    assert timeline.step_floor.tolist() == [1010, 1020]
    assert timeline.step_peak.tolist() == [1510, 1520]
    assert timeline.slope_bytes == 10
    kinds = [row["kind"] for row in rows(trace)]
    assert kinds == ["device", "at_peak", "at_peak", "never_freed", *["point"] * 6]


def test_without_totals_and_addresses_the_level_is_relative_and_has_no_holders(
    tmp_path: Path,
) -> None:
    events = [_memory(1, 0, -300), _memory(2, 0, 500), _memory(3, 0, 100), _memory(4, 0, -600)]
    trace = trace_of(tmp_path, [call("aten::empty", 0, 10), *events])
    (timeline,) = memory_timelines(trace)
    assert timeline.allocated.tolist() == [0, 500, 600, 0]
    assert (timeline.has_totals, timeline.has_addresses) == (False, False)
    assert holders_at_peak(trace, timeline) == never_freed(trace, timeline) == []
    assert rows(trace)[0]["never_freed_bytes"] is None
    assert {row["reserved_bytes"] for row in rows(trace) if row["kind"] == "point"} == {None}
    assert rows(trace)[0]["peak_reserved_bytes"] is rows(trace)[0]["reserved_at_peak_bytes"] is None


def test_devices_stand_apart_and_the_allocating_operator_is_the_one_that_began_last(
    tmp_path: Path,
) -> None:
    events = [
        call("main thread waits", 0, 100, tid=1),
        call("aten::mm", 10, 20, tid=2),
        _memory(15, 1, 700, 700),
        _memory(16, 2, 8, 8, kind=0),
        _memory(150, 3, 5, 705),
    ]
    trace = trace_of(tmp_path, events)
    gpu, cpu = memory_timelines(trace)
    assert (gpu.name, cpu.name) == ("GPU 0", "CPU")
    assert [(h.operator, h.bytes) for h in holders_at_peak(trace, gpu)] == [
        ("aten::mm", 700),
        ("", 5),
    ]


def test_a_long_line_is_thinned_to_its_highest_points(tmp_path: Path) -> None:
    events = [_memory(i, i + 1, 1, 5000 if i == 777 else i % 50) for i in range(2000)]
    (timeline,) = memory_timelines(trace_of(tmp_path, events))
    places = thinned(timeline, 100)
    assert 90 <= len(places) <= 100
    assert 777 in places.tolist()
    assert len(rows(trace_of(tmp_path, events))) <= 1000


def test_a_trace_without_allocator_events_has_no_memory(tmp_path: Path) -> None:
    assert rows(trace_of(tmp_path, [call("aten::mm", 0, 5)])) == []


def test_a_real_training_returns_to_its_level_after_each_step(shared: Path) -> None:
    trace = read_trace(shared / "traces/hta/df_index_resolver/df_index_resolver.json.gz")
    gpu = memory_timelines(trace)[0]
    assert gpu.allocated[gpu.peak] == 6_629_508_096
    assert set(gpu.step_floor.tolist()) == {4_096_614_400}
    assert never_freed(trace, gpu) == []
    held = holders_at_peak(trace, gpu)
    assert sum(h.bytes for h in held) == 6_629_508_096 - 4_096_614_400
    assert held[0].operator == "aten::mm"


def _raw(folder: Path, content: object, name: str = "t.raw.json") -> Path:
    path = folder / name
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def test_sums_by_category_and_what_was_there_before(tmp_path: Path) -> None:
    events = [[-1, 1, 100, 0], [50, 2, 30, 4], [50, 2, 5, 7], [90, 4, -30, 4], [90, 2, 1, 99]]
    found = read_memory_timeline(_raw(tmp_path, events, "t.raw.json.gz"))
    assert found.ts.tolist() == [50, 50, 90]
    assert found.sizes[:, [0, 4, 7]].tolist() == [[100, 0, 0], [100, 30, 5], [100, 0, 5]]
    assert found.peak == 1
    assert found.dropped == {"events of unknown categories": 1}
    assert category_rows(found)[1]["activation_bytes"] == 30
    assert len(category_rows(found, 2)) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"[[1, 2, 3]]",
        b"[[1, 2, 3, 4.5]]",
        b'[{"ph": "X"}]',
        b"[[1,2,3,99999999999999999999]]",
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EvidenceError) as refused:
        read_memory_timeline(_raw(tmp_path, content))
    assert "\n" not in str(refused.value)


def test_a_real_timeline_has_the_sums_that_a_plain_loop_gives(shared: Path) -> None:
    path = shared / "traces/hta/memory_analysis/memory_timeline.raw.gz"
    found = read_memory_timeline(path)
    sums, place = [0] * len(CATEGORIES), 0
    for _, group in groupby(
        json.loads(gzip.decompress(path.read_bytes())), key=lambda event: event[0]
    ):
        for _, _, size, category in group:
            sums[category] += size
        assert found.sizes[place].tolist() == sums
        place += 1
    assert place == len(found.ts) == 7721
    assert found.sizes.sum() == 15_825_435_227_944
