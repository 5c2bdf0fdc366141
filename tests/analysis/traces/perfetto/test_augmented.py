"""Counter tracks and critical paths drawn into traces: what is added, and that nothing else
changes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.per_rank.critical_path import critical_path
from faultline.analysis.traces.perfetto.augmented import write_overlay, write_with_counters
from faultline.analysis.traces.perfetto.augmented_counters import counter_tracks
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import BASE_NS, document, event, write_trace


def gpu(
    name: str, ts: float, dur: float, correlation: int, stream: int = 7, **args: Any
) -> dict[str, Any]:
    cat = "gpu_memcpy" if name.startswith("Memcpy") else "kernel"
    return event(
        name, ts, dur, cat=cat, tid=stream, stream=stream, correlation=correlation, **args
    ) | {"pid": 0}


def launch(ts: float, dur: float, correlation: int) -> dict[str, Any]:
    return event("cudaLaunchKernel", ts, dur, cat="cuda_runtime", correlation=correlation)


def memory(ts: float, size: int, total: int) -> dict[str, Any]:
    args = {"Addr": 1, "Bytes": size, "Total Allocated": total, "Device Type": 1, "Device Id": 0}
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "name": "[memory]",
        "pid": 1,
        "tid": 1,
        "ts": ts,
        "args": args,
    }


EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}},
    event("ProfilerStep#1", 1000, 500, cat="user_annotation"),
    event("aten::mm", 1000, 100),
    launch(1010, 10, 1),
    launch(1030.5, 10, 2),
    event("aten::other", 1000, 5, tid=9),
    gpu("gemm", 1040.125, 200, 1),
    gpu("Memcpy DtoH (Device -> Pageable)", 1241, 50, 2, **{"memory bandwidth (GB/s)": 12.5}),
    {"ph": "X", "name": "no category or arguments", "pid": 1, "tid": 1, "ts": 1600, "dur": 2},
    memory(1015, 4096, 4096),
    memory(1300, -4096, 0),
]


def loaded(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


def without_marks(events: list[Any]) -> list[Any]:
    """The events as they were before the path was drawn in."""
    found = []
    for e in events:
        if e.get("cat") == "critical_path" and e["ph"] in "sf":
            continue
        args = {key: value for key, value in e.get("args", {}).items() if key != "critical"}
        found.append({**e, "args": args} if "args" in e else e)
    return found


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_counters_stand_after_the_traces_own_events_which_stay_as_they_are(
    tmp_path: Path, name: str
) -> None:
    source = write_trace(tmp_path / name, document(EVENTS))
    written = write_with_counters(source, tmp_path / f"with_{name}", read_trace(source))
    result = loaded(written.path)
    assert result["traceEvents"][: len(EVENTS)] == EVENTS
    assert {k: v for k, v in result.items() if k != "traceEvents"} == {
        k: v for k, v in document([]).items() if k != "traceEvents"
    }
    added = result["traceEvents"][len(EVENTS) :]
    assert (written.events, written.added) == (len(EVENTS), len(added))
    assert {e["ph"] for e in added} == {"C"}
    series = {
        name: [(e["ts"], *e["args"].values()) for e in added if e["name"] == name]
        for name in {e["name"] for e in added}
    }
    assert series == {
        "Queue length, stream 7": [(1010, 1), (1030.5, 2), (1040.125, 1), (1241, 0)],
        "Memcpy bandwidth, DtoH": [(1241, 12.5), (1291, 0)],
        "GPU busy": [(1040.125, 1), (1240.125, 0), (1241, 1), (1291, 0)],
        "Allocated memory, device 0": [(1015, 4096), (1300, 0)],
    }
    assert {e["pid"] for e in added if e["name"] != "Allocated memory, device 0"} == {0}


def test_our_reader_finds_the_same_intervals_in_the_new_file(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json", document(EVENTS))
    before = read_trace(source)
    after = read_trace(write_with_counters(source, tmp_path / "new.json.gz", before).path)
    assert after.ts.tolist() == before.ts.tolist()
    assert after.event.tolist() == before.event.tolist()
    assert after.ts[0] == BASE_NS + 1_000_000


def test_the_overlay_marks_the_path_and_draws_its_dependencies(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json", document(EVENTS))
    trace = read_trace(source)
    path = critical_path(trace)
    written = write_overlay(source, tmp_path / "over.json", trace, path, only_critical=False)
    events = loaded(written.path)["traceEvents"]
    marked = {
        e["name"] for e in events if e["ph"] == "X" and e.get("args", {}).get("critical") == 1
    }
    assert marked == {"aten::mm", "cudaLaunchKernel", "gemm", "Memcpy DtoH (Device -> Pageable)"}
    assert without_marks(events) == EVENTS
    start, end = [e for e in events if e.get("cat") == "critical_path"]
    assert start == {
        "ph": "s",
        "id": 0,
        "ts": 1010,
        "cat": "critical_path",
        "name": "critical_path",
        "args": {"weight": 30.125, "critical": True, "type": "critical_path_kernel_launch_delay"},
        "pid": 1,
        "tid": 1,
    }
    assert end == start | {"ph": "f", "bp": "e", "ts": 1040.125, "pid": 0, "tid": 7}


def test_an_arrow_from_an_end_begins_inside_its_slice(tmp_path: Path) -> None:
    source = write_trace(
        tmp_path / "t.json", document([event("aten::a", 10, 5), event("aten::b", 20, 5)])
    )
    trace = read_trace(source)
    over = write_overlay(source, tmp_path / "over.json", trace, critical_path(trace))
    arrow = [e["ts"] for e in loaded(over.path)["traceEvents"] if e["ph"] in "sf"]
    assert arrow == [14.999, 20]


def test_only_critical_leaves_out_other_intervals_but_keeps_annotations(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json.gz", document(EVENTS))
    trace = read_trace(source)
    written = write_overlay(source, tmp_path / "over.json.gz", trace, critical_path(trace))
    names = [e["name"] for e in loaded(written.path)["traceEvents"]]
    assert written.left_out == 3
    assert "aten::other" not in names
    assert {"process_name", "ProfilerStep#1", "[memory]", "aten::mm"} <= set(names)
    assert written.events + written.added == len(names)


def test_all_edges_are_drawn_on_demand(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json", document(EVENTS))
    trace = read_trace(source)
    path = critical_path(trace)
    written = write_overlay(
        source, tmp_path / "over.json", trace, path, only_critical=False, all_edges=True
    )
    assert written.added == 2 * len(path.edges)


def test_a_bare_list_stays_one_and_an_empty_one_is_no_problem(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "list.json", EVENTS)
    assert (
        loaded(write_with_counters(source, tmp_path / "new.json", read_trace(source)).path)[
            : len(EVENTS)
        ]
        == EVENTS
    )
    empty = write_trace(tmp_path / "empty.json", document([]))
    trace = read_trace(empty)
    assert loaded(write_with_counters(empty, tmp_path / "new.json", trace).path) == document([])
    assert loaded(
        write_overlay(empty, tmp_path / "new.json", trace, critical_path(trace)).path
    ) == document([])


def test_a_path_without_events_to_show_leaves_a_valid_file(tmp_path: Path) -> None:
    source = write_trace(
        tmp_path / "t.json", document([event("aten::a", 1, 0), event("aten::b", 5, 0, tid=2)])
    )
    trace = read_trace(source)
    assert loaded(
        write_overlay(source, tmp_path / "over.json", trace, critical_path(trace)).path
    ) == document([])


def test_a_file_that_ends_early_is_closed(tmp_path: Path) -> None:
    whole = json.dumps(document(EVENTS)).encode()
    for name, data in (("t.json", whole), ("list.json", json.dumps(EVENTS).encode())):
        source = write_trace(tmp_path / name, data[: data.index(b"Memcpy")])
        written = write_with_counters(source, tmp_path / f"new_{name}", read_trace(source))
        result = loaded(written.path)
        events = result["traceEvents"] if isinstance(result, dict) else result
        assert events[:7] == EVENTS[:7]
        assert written.dropped


def test_the_source_is_never_overwritten(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json", document(EVENTS))
    (tmp_path / "link.json").symlink_to(source)
    before = source.read_bytes()
    for target in (source, tmp_path / "link.json", tmp_path / "." / "t.json"):
        with pytest.raises(EvidenceError, match="is the trace itself"):
            write_with_counters(source, target, read_trace(source))
    assert source.read_bytes() == before


def test_a_failure_leaves_no_file_behind(tmp_path: Path) -> None:
    source = write_trace(tmp_path / "t.json", document(EVENTS))
    trace = read_trace(source)
    with pytest.raises(EvidenceError, match="cannot be written"):
        write_with_counters(source, tmp_path / "no folder" / "new.json", trace)
    source.write_bytes(b'{"no": "trace"}')
    with pytest.raises(EvidenceError, match="not a profiler trace"):
        write_with_counters(source, tmp_path / "new.json", trace)
    assert [p.name for p in tmp_path.iterdir()] == ["t.json"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["cpu_op", "kernel", "user_annotation", "cuda_runtime"]),
            st.text(max_size=5),
            st.integers(0, 900),
            st.integers(0, 90),
            st.integers(1, 3),
            st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2),
        ),
        max_size=12,
    ),
    st.booleans(),
    st.booleans(),
)
def test_the_new_file_less_what_was_added_is_the_trace(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], bare: bool, all_edges: bool
) -> None:
    events = [
        event(name, ts, dur, cat=cat, tid=tid)
        | (
            {"pid": 0, "args": {"stream": tid, "correlation": tid}}
            if cat == "kernel"
            else {"args": args}
        )
        for cat, name, ts, dur, tid, args in rows
    ]
    folder = tmp_path_factory.mktemp("augmented")
    source = write_trace(folder / "t.json", events if bare else document(events))
    trace = read_trace(source)
    over = write_overlay(
        source,
        folder / "over.json.gz",
        trace,
        critical_path(trace),
        only_critical=False,
        all_edges=all_edges,
    )
    result = loaded(over.path)
    assert without_marks(result if bare else result["traceEvents"]) == events
    counted = loaded(write_with_counters(source, folder / "c.json", trace).path)
    found = counted if bare else counted["traceEvents"]
    assert found[: len(events)] == events
    assert len(found) - len(events) == sum(len(track) for track in counter_tracks(trace))


def test_real_traces_keep_every_event(shared: Path, tmp_path: Path) -> None:
    source = shared / "traces/hta/critical_path/cuda_event_sync/event_sync_trace.json.gz"
    trace = read_trace(source)
    over = write_overlay(
        source, tmp_path / "over.json.gz", trace, critical_path(trace), only_critical=False
    )
    assert without_marks(loaded(over.path)["traceEvents"]) == loaded(source)["traceEvents"]
