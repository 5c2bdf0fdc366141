"""Perfetto's own format: files that Perfetto's bindings wrote (`record.py`), and odd ones."""

from __future__ import annotations

import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.device import Kind, device_work, launched_by
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.pftrace.packets import unpacked
from faultline.analysis.traces.pftrace.trace import read_pftrace
from faultline.analysis.traces.protobuf.wire import BYTES, fields, inner, read_file
from tests.analysis.traces.pftrace.record_constants import SINCE_1970, START
from tests.analysis.traces.protobuf_messages import Message, message

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

RECORDED = Path(__file__).parent / "recorded"
BEGIN, END, INSTANT = 1, 2, 3


def read(tmp_path: Path, content: bytes) -> TraceColumns:
    path = tmp_path / "job.pftrace"
    path.write_bytes(content)
    return read_pftrace(path)[0]


def event(at: int, kind: int, name: str = "", track: int = 1, sequence: int = 1) -> Message:
    named: Message = [(23, name)] if name else []
    return [(8, at), (10, sequence), (11, [[(9, kind), (11, track), *named]])]


def by_zstd(packets: bytes) -> bytes:
    """A packet as `zstd_compressor.cc` of Perfetto writes it: a stream, whose frame does not say
    how long its content is."""
    stream = zstd.ZstdCompressor()
    return message([(1, [[(133, stream.compress(packets) + stream.flush())]])])


def rows_of(trace: TraceColumns) -> list[tuple[str, str, int, int]]:
    """(name, category, start, duration) of the events."""
    return [
        (trace.name_of(i), trace.category_of(i), int(trace.ts[i]), int(trace.dur[i]))
        for i in range(len(trace))
    ]


@pytest.mark.parametrize("name", ["sdk", "rocprofv3"])
def test_packets_read_alike_whether_zstd_compressed_them_or_deflate_or_nothing(
    tmp_path: Path, name: str
) -> None:
    recorded = RECORDED / f"{name}.pftrace"
    buffer = read_file(recorded)
    outer = fields(buffer, np.asarray([0]), np.asarray([buffer.length])).of(1, BYTES)
    plain = unpacked(buffer, outer, inner(buffer, outer))
    packets = bytes(plain.raw[: plain.length])
    assert (plain is buffer) == (name == "rocprofv3")
    trace = read(tmp_path, by_zstd(packets))
    assert rows_of(trace) == rows_of(read_pftrace(recorded)[0])
    assert (rows_of(trace) == rows_of(read(tmp_path, packets)), dict(trace.dropped)) == (True, {})


def test_a_corrupt_packet_is_counted_and_the_others_are_read(tmp_path: Path) -> None:
    first = message([(1, [event(10, BEGIN, "a"), event(20, END)])])
    second = message([(1, [event(30, BEGIN, "b"), event(40, END)])])
    no_frame = message([(1, [[(133, b"no frame")], [(50, b"no stream")]])])
    trace = read(tmp_path, by_zstd(first) + no_frame + by_zstd(second))
    assert [row[0] for row in rows_of(trace)] == ["a", "b"]
    assert trace.dropped == {"compressed packets that are corrupt": 2}


def test_of_a_frame_that_ends_early_the_whole_packets_are_read(tmp_path: Path) -> None:
    stream = zstd.ZstdCompressor()
    begun = stream.compress(
        message([(1, [event(10, BEGIN, "a"), event(20, END)])]), stream.FLUSH_BLOCK
    )
    trace = read(tmp_path, message([(1, [[(133, begun)]])]))
    assert [row[0] for row in rows_of(trace)] == ["a"]
    assert trace.dropped == {"compressed packets that are corrupt": 1}


def test_interned_names_counted_times_and_compressed_packets_are_undone() -> None:
    trace = read_pftrace(RECORDED / "sdk.pftrace")[0]
    rows = [
        (trace.name_of(i), trace.category_of(i), int(trace.ts[i]) - SINCE_1970, int(trace.dur[i]))
        for i in trace.ts.argsort(kind="stable").tolist()
    ]
    us = 1_000
    assert rows == [
        ("ProfilerStep#1", "user_annotation", 10 * us, 60 * us),
        ("cudaLaunchKernel", "cuda_runtime", 15 * us, 2 * us),
        ("ampere_sgemm_128x64_nn", "kernel", 20 * us, 40 * us),
        ("ProfilerStep#2", "user_annotation", 80 * us, 60 * us),
        ("cudaLaunchKernel", "cuda_runtime", 85 * us, 2 * us),
        ("ampere_sgemm_128x64_nn", "kernel", 90 * us, 40 * us),
    ]
    assert steps_of(trace).number.tolist() == [1, 2]
    work = device_work(trace)
    assert trace.ts[launched_by(trace)[work.row]].tolist() == [
        SINCE_1970 + 15 * us,
        SINCE_1970 + 85 * us,
    ]
    assert set(trace.lanes) == {("4711", "main"), ("trace", "GPU 0 STREAM 7")}
    assert trace.stream[work.row].tolist() == [7, 7]
    assert not trace.dropped


def test_rocprofv3s_tracks_are_launches_kernels_and_copies() -> None:
    trace = read_pftrace(RECORDED / "rocprofv3.pftrace")[0]
    assert trace.format == "rocprofv3's Perfetto trace"
    work = device_work(trace)
    assert work.kind.tolist() == [
        Kind.COMPUTATION,
        Kind.COMMUNICATION,
        Kind.COMPUTATION,
        Kind.COMMUNICATION,
        Kind.MEMORY,
    ]
    assert (work.end - work.start).tolist() == [900] * 4 + [200]
    assert int(work.start[0]) == START + 500
    calls = launched_by(trace)[work.row].tolist()
    assert [trace.name_of(i) for i in calls] == ["hipLaunchKernel"] * 4 + ["hipMemcpyAsync"]
    assert trace.stream[work.row].tolist() == [1] * 5
    assert trace.arguments.number("device").at(work.row, -1).tolist() == [2.0] * 5
    assert trace.arguments.number("bytes").at(work.row[4:], -1).tolist() == [8_000.0]
    assert steps_of(trace).number.tolist() == [1, 2]


def test_slices_end_innermost_first_and_what_never_ends_is_counted(tmp_path: Path) -> None:
    packets = [
        event(10, BEGIN, "outer"),
        event(12, BEGIN, "inner"),
        event(15, END),
        event(20, END),
        event(30, BEGIN, "lost"),
        event(5, BEGIN, "elsewhere", track=2),
        event(6, END, track=2),
        event(7, INSTANT, "moment"),
    ]
    trace = read(tmp_path, message([(1, packets)]))
    rows = [(trace.name_of(i), int(trace.ts[i]), int(trace.dur[i])) for i in range(len(trace))]
    assert sorted(rows) == [("elsewhere", 5, 1), ("inner", 12, 3), ("outer", 10, 10)]
    assert trace.dropped == {"slices without an end": 1}
    assert trace.skipped == {"instants": 1}


def test_what_is_interned_holds_for_its_sequence_until_it_is_cleared(tmp_path: Path) -> None:
    def interned(text: str, sequence: int, flags: int) -> Message:
        return [(10, sequence), (13, flags), (12, [[(2, [[(1, 1), (2, text)]])]])]

    def slice_at(at: int, sequence: int, track: int) -> list[Message]:
        begin: Message = [(9, BEGIN), (10, 1), (11, track)]
        first: Message = [(8, at), (10, sequence), (11, [begin])]
        return [first, event(at + 1, END, track=track, sequence=sequence)]

    packets = [
        interned("first", 1, 1),
        interned("other", 2, 1),
        *slice_at(10, 1, 1),
        *slice_at(20, 2, 2),
        interned("second", 1, 1),
        *slice_at(30, 1, 1),
    ]
    trace = read(tmp_path, message([(1, packets)]))
    order = trace.ts.argsort().tolist()
    assert [trace.name_of(i) for i in order] == ["first", "other", "second"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x12\x01a", "has no packets"),
        (b"\x0a\x00", "its packets are empty"),
        (message([(1, [[(8, 5), (11, [[(9, INSTANT)]])]])]), "holds no slices"),
        (message([(1, [[(50, b"\x00\x01\x02")]])]), "has no packets"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path, content: bytes, why: str) -> None:
    with pytest.raises(EvidenceError, match=why) as refused:
        read(tmp_path, content)
    assert "job.pftrace" in str(refused.value)


@pytest.mark.parametrize(("field", "compress"), [(50, zlib.compress), (133, zstd.compress)])
def test_a_packet_that_unpacks_to_very_much_is_cut(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    field: int,
    compress: Callable[[bytes], bytes],
) -> None:
    monkeypatch.setattr("faultline.analysis.traces.pftrace.packets.MAX_BYTES", 5_000)
    good: Message = [(1, [event(1, BEGIN, "a"), event(2, END)])]
    bomb: Message = [(1, [[(field, compress(bytes(10_000_000)))]])]
    later: Message = [(1, [event(3, BEGIN, "b"), event(4, END)])]
    trace = read(tmp_path, message([*good, *bomb, *later]))
    assert [row[0] for row in rows_of(trace)] == ["a"]
    assert "rest of the file after 5000 bytes" in trace.dropped


@given(st.data())
def test_a_damaged_trace_is_read_or_refused(data: st.DataObject) -> None:
    """Bytes changed, doubled and cut: columns that fit together, or one sentence."""
    name = data.draw(st.sampled_from(("sdk", "rocprofv3")))
    whole = bytearray((RECORDED / f"{name}.pftrace").read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=6)):
        whole[at] = data.draw(st.integers(0, 255))
    end = data.draw(st.integers(0, len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "job.pftrace")
        path.write_bytes(bytes(whole[:end] * data.draw(st.integers(1, 2))))
        try:
            trace = read_pftrace(path)[0]
        except EvidenceError:
            return
    assert (trace.dur >= 0).all()
    assert len(device_work(trace)) <= len(trace)
    steps_of(trace)


@pytest.mark.parametrize(("named", "stream"), [(0, 0), (3, 3), (1 << 30, 7), (None, 7)])
def test_a_kernel_is_on_the_stream_that_it_names_else_on_that_of_its_track(
    tmp_path: Path, named: int | None, stream: int
) -> None:
    annotation: Message = [(4, [[(10, "stream"), (3, named)]])] if named is not None else []
    begin: Message = [(9, BEGIN), (11, 1), (22, "kernel"), (23, "gemm"), *annotation]
    packets: list[Message] = [
        [(10, 1), (60, [[(1, 1), (2, "GPU 0 STREAM 7")]])],
        [(8, 10), (10, 1), (11, [begin])],
        event(20, END),
    ]
    trace = read(tmp_path, message([(1, packets)]))
    assert trace.stream.tolist() == [stream]
