"""`--counters FILE` and `--perfetto FILE` write one rank's trace again, with more in it."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.traces.written_traces import document, event, write_trace
from tests.trace_report.command import STRAGGLER, trace, write_job


def on_a_device(folder: Path) -> Path:
    """A step with two launches and their kernels."""
    events = [
        event("ProfilerStep#0", 0.0, 100.0, cat="user_annotation"),
        event("aten::mm", 1.0, 50.0),
    ]
    for number, at in enumerate((5.0, 10.0), start=1):
        events.append(event("cudaLaunchKernel", at, 2.0, cat="cuda_runtime", correlation=number))
        kernel = event(
            "gemm", 20.0 * number, 15.0, cat="kernel", tid=7, stream=7, correlation=number, device=0
        )
        events.append(kernel)
    return write_trace(folder / "rank0.json", document(events, 0, 1))


@pytest.mark.parametrize(
    ("option", "added"), [("--counters", '"ph": "C"'), ("--perfetto", '"critical": 1')]
)
def test_the_trace_is_written_with_more_in_it(tmp_path: Path, option: str, added: str) -> None:
    target = tmp_path / "more.json.gz"
    done = trace(on_a_device(tmp_path), option, target)
    assert done.returncode == 0, done.stderr
    text = gzip.decompress(target.read_bytes()).decode()
    assert added in text
    assert "gemm" in {e["name"] for e in json.loads(text)["traceEvents"]}
    assert done.stderr.startswith(f"faultline: wrote {target}: ")


def test_of_several_ranks_one_must_be_named(tmp_path: Path) -> None:
    folder, target = write_job(tmp_path / "job"), tmp_path / "more.json"
    done = trace(folder, "--perfetto", target)
    assert (done.returncode, target.exists()) == (2, False)
    assert done.stderr == "faultline: --perfetto: there are 4 ranks: say which one with --rank\n"
    assert trace(folder, "--perfetto", target, "--rank", 2).returncode == 0
    assert target.exists()


def test_a_trace_is_never_written_over_itself(tmp_path: Path) -> None:
    source = on_a_device(tmp_path)
    before = source.read_bytes()
    done = trace(source, "--counters", source)
    assert done.returncode == 2
    assert "is the trace itself" in done.stderr
    assert source.read_bytes() == before


def test_a_step_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = trace(on_a_device(tmp_path), "--perfetto", tmp_path / "x.json", "--step", 9)
    assert done.returncode == 2
    assert done.stderr == "faultline: --step: rank 0 has no step 9\n"


def test_the_old_name_still_works_and_says_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "more.json"
    done = trace(on_a_device(tmp_path), "--overlay", target)
    assert done.returncode == 0
    assert "faultline: --overlay is now called --perfetto\n" in done.stderr
    assert '"critical": 1' in target.read_text()


def test_findings_have_tracks_and_late_ranks_have_arrows(tmp_path: Path) -> None:
    target = tmp_path / "found.json"
    done = trace(write_job(tmp_path / "job", STRAGGLER), "--perfetto", target, "--rank", 0)
    assert done.returncode == 0, done.stderr
    events = json.loads(target.read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] in ("process_name", "thread_name")}
    assert {"Faultline: findings", "Faultline: who came last", "rank 2"} <= names
    assert "critical: straggler (rank 2)" in names
    slices = [e for e in events if e.get("cat") == "faultline" and e["ph"] == "X"]
    assert any(e["args"]["statement"].startswith("rank 2") for e in slices if "args" in e)
    starts = {e["id"]: e for e in events if e.get("cat") == "faultline" and e["ph"] == "s"}
    ends = {e["id"]: e for e in events if e.get("cat") == "faultline" and e["ph"] == "f"}
    assert starts
    assert starts.keys() == ends.keys()
    for number, start in starts.items():
        assert [e["tid"] for e in around(start, slices)] == [2]
        waiting = around(ends[number], events)
        assert "gloo:all_reduce" in {e["name"] for e in waiting}


def around(flow: dict[str, Any], events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slices of the flow's track that it lies in, as Perfetto binds it."""
    track = [e for e in events if e["ph"] == "X" and (e["pid"], e["tid"]) == lane(flow)]
    return [e for e in track if e["ts"] <= flow["ts"] <= e["ts"] + e["dur"]]


def lane(event: dict[str, Any]) -> tuple[Any, Any]:
    return event["pid"], event["tid"]


def test_slices_of_one_track_do_not_overlap(tmp_path: Path) -> None:
    """Perfetto drops a slice that begins inside another of its track and ends after it."""
    target = tmp_path / "found.json"
    assert trace(write_job(tmp_path / "job", STRAGGLER), "--perfetto", target, "--rank", 1)
    events = json.loads(target.read_text())["traceEvents"]
    tracks: dict[tuple[Any, Any], list[dict[str, Any]]] = defaultdict(list)
    for event_ in events:
        if event_.get("cat") == "faultline" and event_["ph"] == "X":
            tracks[lane(event_)].append(event_)
    assert tracks
    for own in tracks.values():
        own.sort(key=lambda e: e["ts"])
        for one, after in pairwise(own):
            assert one["ts"] + one["dur"] <= after["ts"] + 1e-3
