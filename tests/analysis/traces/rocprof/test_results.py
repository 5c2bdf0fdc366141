"""rocprofv3's JSON, by the shape that its source gives."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.device import Kind, device_work, launched_by
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.rocprof.results import read_results
from tests.analysis.traces.rocprof.write import KERNELS, START, process

RESULTS = Path(__file__).parent / "recorded" / "results.json"


def read(
    tmp_path: Path, *processes: dict[str, Any], name: str = "results.json"
) -> list[TraceColumns]:
    path = tmp_path / name
    path.write_text(json.dumps({"rocprofiler-sdk-tool": processes}))
    return read_results(path)


def test_kernels_and_copies_are_linked_to_their_calls() -> None:
    trace = read_results(RESULTS)[0]
    work = device_work(trace)
    assert [trace.name_of(row) for row in work.row.tolist()] == ["Memcpy HtoD", *KERNELS] * 3
    assert work.kind.tolist() == [Kind.MEMORY, Kind.COMPUTATION, Kind.COMMUNICATION] * 3
    assert int(work.start[0]) == START + 400
    assert (work.end - work.start)[:3].tolist() == [200, 4_000, 3_000]
    calls = launched_by(trace)[work.row[:3]].tolist()
    assert [trace.name_of(row) for row in calls] == [
        "hipMemcpyAsync",
        "hipLaunchKernel",
        "hipLaunchKernel",
    ]
    first = work.row[1:2]
    # 25,600 work items in blocks of 256.
    assert trace.arguments.text("grid").at(first) == ["[100,2,1]"]
    assert trace.arguments.text("block").at(first) == ["[256,1,1]"]
    assert trace.arguments.number("memory bandwidth (GB/s)").at(work.row[:1], 0).tolist() == [40.0]


def test_markers_are_steps_and_the_gpu_is_named() -> None:
    trace = read_results(RESULTS)[0]
    assert steps_of(trace).number.tolist() == [0, 1, 2]
    assert trace.header["deviceProperties"][0]["name"] == "AMD Instinct MI300X"
    assert trace.format == "rocprofv3's JSON"


def test_each_process_is_a_rank_and_a_file_of_one_takes_it_from_its_name(tmp_path: Path) -> None:
    both = read(tmp_path, process(1), process(2))
    assert [trace.rank for trace in both] == [0, 1]
    one = read(tmp_path, process(1), name="rank_5_results.json")[0]
    assert (one.rank, one.rank_source) == (5, "file name")


def test_a_build_without_streams_has_those_of_its_queues(tmp_path: Path) -> None:
    older = process(1)
    for record in older["buffer_records"]["kernel_dispatch"]:
        del record["stream_id"]
        record["dispatch_info"]["queue_id"]["handle"] += record["dispatch_info"]["kernel_id"]
    trace = read(tmp_path, older)[0]
    kernels = trace.in_category("kernel")
    assert set(trace.stream[kernels].tolist()) == {0, 1}


def test_bytes_that_are_no_text_in_arguments_are_skipped(tmp_path: Path) -> None:
    text = json.dumps({"rocprofiler-sdk-tool": [process(1)]}).encode()
    path = tmp_path / "results.json"
    path.write_bytes(text.replace(b'"grid"', b'"\xa8\xec"'))
    assert len(read_results(path)[0]) == len(read_results(RESULTS)[0])


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (RESULTS.read_bytes()[:-2_000], "is no readable JSON of rocprofv3"),
        (b'{"rocprofiler-sdk-tool": []}', "has no kernels"),
        (b'{"rocprofiler-sdk-tool": {}}', "is no readable JSON"),
        (b'{"rocprofiler-sdk-tool": ' + b"[" * 100_000, "is no readable JSON"),
        (RESULTS.read_bytes().replace(b"2652740482000400", b"99999999999999999999"), "no readable"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, content: bytes, why: str
) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    with pytest.raises(EvidenceError, match=why) as refused:
        read_results(path)
    assert len(str(refused.value)) < 320
    assert "\n" not in str(refused.value)


@given(st.data())
def test_damaged_results_are_read_or_refused(data: st.DataObject) -> None:
    whole = bytearray(RESULTS.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        whole[at] = data.draw(st.sampled_from(b'0919-"{[x'))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.json")
        path.write_bytes(bytes(whole))
        try:
            traces = read_results(path)
        except EvidenceError:
            return
    for trace in traces:
        assert (trace.dur >= 0).all()
        steps_of(trace)
