"""XPlane files: a real one of JAX beside JAX's own reader, and accelerators by XLA's schema."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.device import Kind, device_work, launched_by
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.reading.job_files import sort_job_files, traces_of
from faultline.analysis.traces.xla.xplane import read_xplane
from tests.analysis.traces.xla.profiles import ENVIRONMENT, START, Event, gpu, plane, space, tpu

RECORDED = Path(__file__).parent / "recorded"
PROFILE = RECORDED / "training" / "host.xplane.pb"


def written(tmp_path: Path, content: bytes, name: str = "worker.xplane.pb") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_all_events_are_those_of_jaxs_own_reader() -> None:
    trace = read_xplane(PROFILE)[0]
    told = json.loads(gzip.decompress((RECORDED / "events.json.gz").read_bytes()))
    expected = sorted(
        (line, start, length)
        for where, line, name, start, length in told
        if where == "/host:CPU" and not name.startswith(("ThreadpoolListener::", "end: "))
    )
    base = trace.header["baseTimeNanoseconds"]
    found = sorted(
        (trace.lanes[trace.lane[i]][1], int(trace.ts[i]) - base, int(trace.dur[i]))
        for i in range(len(trace))
    )
    assert len(found) == len(expected) > 1_000
    for (line, start, length), (thread, ours, lasted) in zip(expected, found, strict=True):
        assert thread == line
        # JAX rounds ps to ns, and we round down.
        assert abs(start - ours) <= 1
        assert abs(length - lasted) <= 1
    assert trace.skipped["markers between threads"] == len(
        [event for event in told if event[2].startswith(("ThreadpoolListener::", "end: "))]
    )


def test_a_real_profile_has_its_steps_python_calls_and_operations() -> None:
    trace = read_xplane(PROFILE)[0]
    steps = steps_of(trace)
    assert steps.number.tolist() == [0, 1, 2]
    assert trace.step_name == "train"
    calls = [trace.name_of(i) for i in np.flatnonzero(trace.in_category("python_function"))]
    assert any(call.startswith("profiler.py(") for call in calls)
    operations = trace.arguments.text("hlo_op")
    assert any(text.startswith("all-reduce") for text in operations.texts)
    assert not trace.dropped


def test_each_chip_is_a_rank_with_its_steps_and_work(tmp_path: Path) -> None:
    path = written(tmp_path, space(ENVIRONMENT, tpu(0), tpu(1, waiting=15)))
    first, second = read_xplane(path)
    assert (first.rank, second.rank) == (0, 1)
    assert first.header["deviceProperties"][0]["name"] == "Google TPU v5 lite"
    assert steps_of(first).ms.tolist() == pytest.approx([0.09] * 3)
    work = device_work(second)
    names = [second.name_of(row) for row in work.row.tolist()]
    # The loop holds the two operations, and is not work itself.
    assert names == ["fusion.7", "convolution_fusion.2", "all-reduce.3"] * 3
    kinds = [Kind.COMPUTATION, Kind.COMPUTATION, Kind.COMMUNICATION] * 3
    assert work.kind.tolist() == kinds
    assert int(work.start[0]) == START
    assert int((work.end - work.start)[2]) == 35_000
    assert second.arguments.text("hlo_category").at(work.row[:2]) == [
        "loop fusion",
        "convolution fusion",
    ]


def test_work_of_a_gpu_is_linked_to_the_calls_of_the_host(tmp_path: Path) -> None:
    trace = read_xplane(written(tmp_path, space(ENVIRONMENT, *gpu())))[0]
    work = device_work(trace)
    assert [trace.name_of(row) for row in work.row.tolist()] == [
        "loop_add_fusion",
        "MemcpyD2H",
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
    ]
    assert work.kind.tolist() == [Kind.COMPUTATION, Kind.MEMORY, Kind.COMMUNICATION]
    calls = launched_by(trace)[work.row]
    assert [trace.name_of(row) for row in calls.tolist()] == [
        "cuLaunchKernel",
        "cuMemcpyDtoHAsync_v2",
        "cuLaunchKernel",
    ]
    assert trace.stream[work.row].tolist() == [13, 20, 13]
    assert trace.arguments.number("bytes").at(work.row[1:2], -1).tolist() == [4000.0]
    assert trace.arguments.text("grid").at(work.row[:1]) == ["[12,1,1]"]
    assert steps_of(trace).number.tolist() == [0, 1]


def test_a_fusion_that_communicates_says_so(tmp_path: Path) -> None:
    fused = plane(
        "/device:TPU:0",
        {"XLA Ops": [Event("fusion.9", 0, 5)]},
        about_events={"fusion.9": {"hlo_category": "all-reduce fusion"}},
    )
    trace = read_xplane(written(tmp_path, space(fused)))[0]
    assert trace.name_of(0) == "all-reduce fusion (fusion.9)"
    assert device_work(trace).kind.tolist() == [Kind.COMMUNICATION]


def test_the_chrome_json_beside_a_profile_is_not_read_again() -> None:
    files = sort_job_files([RECORDED / "training"])
    assert [f.kind for f in files.files] == ["profiler_trace", "xplane"]
    assert [f.path for f in traces_of(files)] == [PROFILE]


def test_a_file_that_was_cut_gives_what_it_holds(tmp_path: Path) -> None:
    whole = PROFILE.read_bytes()
    trace = read_xplane(written(tmp_path, whole[: len(whole) // 2]))[0]
    assert 0 < len(trace) < len(read_xplane(PROFILE)[0])
    assert "rest of the file: it ends early" in trace.dropped


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\x0a\x03\x12\x01/", "holds no events"),
        (b"\x0a\x00", "no named planes"),
        (b"\xff" * 64, "holds no message"),
        (space(plane("/host:metadata", {})), "holds no events"),
    ],
)
def test_what_is_no_profile_is_refused_in_one_line(
    tmp_path: Path, content: bytes, why: str
) -> None:
    with pytest.raises(EvidenceError, match=why) as refused:
        read_xplane(written(tmp_path, content))
    assert "worker.xplane.pb" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_name_that_is_a_pattern_finds_only_its_own_steps(tmp_path: Path) -> None:
    steps = [Event("train[a*]", 0, 9, {"step_num": 4}), Event("train[b]", 20, 9, {"step_num": 5})]
    host = plane("/host:CPU", {"python": [steps[0], steps[0], steps[1]]})
    trace = read_xplane(written(tmp_path, space(host)))[0]
    assert steps_of(trace).number.tolist() == [4]


@given(st.data())
def test_a_damaged_profile_is_read_or_refused(data: st.DataObject) -> None:
    """Bytes changed, doubled and cut: columns that fit together, or one sentence."""
    whole = bytearray(space(ENVIRONMENT, tpu(0), *gpu()))
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=6)):
        whole[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), bytes(whole[:end] * data.draw(st.integers(1, 2))))
        try:
            traces = read_xplane(path)
        except EvidenceError:
            return
    for trace in traces:
        assert (trace.dur >= 0).all()
        assert len(device_work(trace)) <= len(trace)
        steps_of(trace)


def test_events_beyond_the_limit_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.analysis.traces.xla.planes.MAX_EVENTS", 10)
    trace = read_xplane(written(tmp_path, space(tpu(0), tpu(1))))[0]
    # Each chip has three steps, three modules and twelve operations.
    assert trace.dropped["events after 10"] == 26


def test_lines_of_many_chunks_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, space(ENVIRONMENT, *gpu()))
    whole = read_xplane(path)[0]
    monkeypatch.setattr("faultline.analysis.traces.xla.planes.CHUNK", 1)
    parts = read_xplane(path)[0]
    assert parts.ts.tolist() == whole.ts.tolist()
    assert parts.correlation.tolist() == whole.correlation.tolist()
    rows = device_work(whole).row
    for name in ("hlo_op", "grid"):
        assert parts.arguments.text(name).at(rows) == whole.arguments.text(name).at(rows)
