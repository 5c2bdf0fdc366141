"""Cropped traces for Perfetto: what of a window is in them, and what is said of the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from faultline.analysis.traces.perfetto.window import WindowDocument, perfetto_window
from faultline.analysis.traces.reading.kineto import read_trace
from tests.analysis.traces.written_traces import BASE_NS, document, event, write_trace

NAMES = {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "ts": 0, "args": {"name": "main"}}


def arrow(phase: str, ts: float) -> dict[str, Any]:
    return {"ph": phase, "cat": "ac2g", "id": 1, "name": "ac2g", "pid": 1, "tid": 1, "ts": ts}


EVENTS = [
    event("before", 0, 100),
    event("into", 50, 100),
    arrow("s", 90),
    event("inside", 120, 10),
    arrow("f", 125),
    event("overlaps without nesting", 125, 10),
    event("main.py: run", 0, 1000, cat="python_function"),
    event("at once", 150, 0),
    event("out of", 190, 50),
    event("after", 200, 10),
    NAMES,
]


def window(
    tmp_path: Path, begin_us: int, end_us: int, events: list[Any] = EVENTS, **limit: int
) -> WindowDocument:
    source = write_trace(tmp_path / "t.json.gz", document(events))
    return perfetto_window(
        source, read_trace(source), BASE_NS + begin_us * 1000, BASE_NS + end_us * 1000, **limit
    )


def names(found: WindowDocument) -> list[str]:
    return [e["name"] for e in json.loads(found.content)["traceEvents"]]


def test_all_that_overlaps_the_window_is_in_it_as_it_was(tmp_path: Path) -> None:
    found = window(tmp_path, 100, 200)
    wanted = [
        "into",
        "inside",
        "ac2g",
        "overlaps without nesting",
        "main.py: run",
        "at once",
        "out of",
        "thread_name",
    ]
    assert names(found) == wanted
    content = json.loads(found.content)
    assert all(e in EVENTS for e in content["traceEvents"])
    assert content["baseTimeNanoseconds"] == BASE_NS
    assert (found.note, content["cropped"]) == ("", "")


def test_a_window_without_events_is_still_a_document(tmp_path: Path) -> None:
    assert names(window(tmp_path, 5000, 6000)) == ["thread_name"]
    assert names(window(tmp_path, 0, 10, [])) == []


def test_what_does_not_fit_is_left_out_short_events_and_python_first(tmp_path: Path) -> None:
    many = [event(f"op {i}", i, 1 + i % 7) for i in range(400)]
    many += [event("frame", 0, 500, cat="python_function") for _ in range(50)]
    found = window(tmp_path, 0, 500, [*many, NAMES], max_bytes=20_000)
    assert len(found.content) <= 20_000
    content = json.loads(found.content)
    kept = [e for e in content["traceEvents"] if e["ph"] == "X"]
    assert found.cut == {"cpu_op": 400 - len(kept), "python_function": 50}
    assert min(e["dur"] for e in kept) >= 4
    assert content["traceEvents"][-1] == NAMES
    assert content["cropped"] == found.note
    assert "50 of python_function" in found.note


def test_arrows_do_not_push_out_the_events(tmp_path: Path) -> None:
    found = window(
        tmp_path, 0, 500, [*(arrow("s", i) for i in range(300)), *EVENTS], max_bytes=8_000
    )
    assert found.cut[""] > 200
    assert "into" in names(found)
    assert len(found.content) <= 8_000


def test_a_real_step_is_small_enough(shared: Path) -> None:
    source = shared / "traces/tracelens/mi300/resnet_act_checkpoint.json.gz"
    trace = read_trace(source)
    found = perfetto_window(
        source, trace, int(trace.ts.min()), int(trace.end.max()), max_bytes=2_000_000
    )
    assert len(found.content) <= 2_000_000
    assert found.cut["python_function"] > 10_000
    assert json.loads(found.content)["traceEvents"]
