"""Traces that are broken, strange or meant to do harm: what can be read is read, the rest is named,
in linear time."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.reading.event_scanner import ScanLimits
from faultline.analysis.traces.reading.kineto import read_trace, read_trace_stream, read_traces
from tests.analysis.traces.both_lanes import blocks_of, read_both
from tests.analysis.traces.written_traces import BASE_NS, document, event, write_trace

TWO = [event("aten::mm", 10.001, 2.5), event("aten::add", 20.0, 1.0)]


def trace_of(events: list[Any], **beside: Any) -> TraceColumns:
    return trace_of_text(json.dumps({**document(events), **beside}))


def trace_of_text(text: str | bytes, **limits: int) -> TraceColumns:
    trace = read_both(text.encode() if isinstance(text, str) else text, limits=ScanLimits(**limits))
    assert isinstance(trace, TraceColumns), trace
    return trace


def kernel(stream: Any = None, tid: Any = 7, cat: str = "kernel") -> dict[str, Any]:
    made = event("gemm", 1, 1, cat=cat, tid=tid)
    made["args"] = {} if stream is None else {"stream": stream}
    return made


@pytest.mark.parametrize(
    ("stream", "tid", "expected"),
    [
        (7, 1, 7),
        (0, 1, 0),
        ("20", 1, 20),
        ("0x0", 1, 0),
        ("stream 13", 1, 13),
        (None, 9, 9),
        (None, "stream 21", 21),
        (None, "worker", -1),
        (4294967295, "worker", -1),
        (-1, "worker", -1),
        ("0x7f2a10c0", "worker", 2**30),
        ("default", "worker", 2**30),
        (None, 140_000_000_000, -1),
    ],
)
def test_the_stream_of_a_kernel_is_its_argument_or_its_lane(
    stream: Any, tid: Any, expected: int
) -> None:
    assert trace_of([kernel(stream, tid)]).stream.tolist() == [expected]


def test_only_work_on_a_gpu_takes_its_stream_from_its_lane() -> None:
    events = [
        event("aten::mm", 1, 1, tid=9),
        kernel(None, 9, "mtia_ccp_events"),
        kernel(None, 9, "Kernel"),
    ]
    assert trace_of(events).stream.tolist() == [-1, -1, 9]


def test_handles_are_numbered_once_however_they_are_written() -> None:
    text = json.dumps(document([kernel("alpha"), kernel("beta"), kernel("alpha")]))
    trace = trace_of_text(text.replace('"alpha"', '"\\u0061lpha"', 1))
    assert (trace.stream - 2**30).tolist() == [0, 1, 0]


def test_one_name_written_in_two_ways_is_one_name() -> None:
    trace = trace_of_text(
        json.dumps(document([*TWO, TWO[0]])).replace("aten::mm", "\\u0061ten::mm", 1)
    )
    assert trace.names == ("aten::mm", "aten::add")
    assert trace.name.tolist() == [0, 1, 0]


def test_of_a_member_written_twice_the_last_counts() -> None:
    args = '"args": {"stream": 1}, "args": {"stream": 2, "stream": 3}'
    trace = trace_of_text('[{"ph": "M", "ph": "X", "ts": 1, "ts": 2, "dur": 1, ' + args + "}]")
    assert (trace.ts.tolist(), trace.stream.tolist()) == ([2000], [3])


def test_numbers_in_quotes_are_numbers() -> None:
    args = '"args": {"correlation": "9007199254740993"}'
    trace = trace_of_text('[{"ph": "X", "name": "k", "ts": "12.5", "dur": "3", ' + args + "}]")
    assert (trace.ts.tolist(), trace.dur.tolist()) == ([12500], [3000])
    assert trace.correlation.tolist() == [9007199254740993]


def test_bare_words_that_are_no_numbers_leave_the_event_whole() -> None:
    for word in ("N/A", "NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"):
        text = json.dumps(document([event("a", 1, 1, bytes=0, dtype=0), *TWO])).replace(
            ": 0,", f": {word},"
        )
        trace = trace_of_text(text.replace(": 0}", f": {word}}}"))
        assert (len(trace), trace.dropped) == (3, {}), word
        assert len(trace.arguments.number("bytes").rows) == 0


def test_events_know_their_place_in_the_list_and_in_the_file() -> None:
    text = json.dumps(document([TWO[0], {"ph": "s", "ts": 1}, {"ph": "X"}, TWO[1]])).encode()
    trace = trace_of_text(text)
    assert trace.event.tolist() == [0, 3]
    for row, name in enumerate(("aten::mm", "aten::add")):
        found = json.JSONDecoder().raw_decode(text.decode(), int(trace.offset[row]))[0]
        assert found["name"] == name


def test_white_space_and_the_order_of_members_do_not_matter() -> None:
    odd = (
        '{ "args" : { } ,\n"dur":1.5,"name"\t:"b","ts" : '
        '2,"tid":1,"pid":1,\r\n"cat":"cpu_op","ph":"X" }'
    )
    trace = trace_of_text('{"traceEvents"\n:\n[\n' + odd + " \n,\n" + odd + "\n]\n}")
    assert (trace.ts.tolist(), trace.dur.tolist(), trace.names) == (
        [2000, 2000],
        [1500, 1500],
        ("b",),
    )


def test_times_beyond_64_bits_are_dropped() -> None:
    times = [("9999999999999999", "1"), ("1", "1e15"), ("1", "2")]
    trace = trace_of_text(
        "[" + ",".join(f'{{"ph": "X", "ts": {ts}, "dur": {dur}}}' for ts, dur in times) + "]"
    )
    assert trace.dur.tolist() == [10**18, 2000]
    assert trace.dropped == {"events with no readable time": 1}


def test_a_time_that_only_overflows_with_the_base_is_dropped() -> None:
    events = '[{"ph": "X", "ts": 9e15, "dur": 1}, {"ph": "X", "ts": 5, "dur": 1}]'
    trace = trace_of_text(
        '{"baseTimeNanoseconds": 4000000000000000000, "traceEvents": ' + events + "}"
    )
    assert trace.ts.tolist() == [4 * 10**18 + 5000]
    assert trace.dropped == {"events with a time outside the trace": 1}


def test_names_beyond_the_limit_are_dropped_and_counted() -> None:
    events = [event(f"op{i}", i + 1, 1) for i in range(10)] + [event("op3", 50, 1)]
    trace = trace_of_text(json.dumps(document(events)), names=4)
    assert [trace.name_of(row) for row in range(len(trace))] == ["op0", "op1", "op2", "op3", "op3"]
    assert trace.dropped == {"events with a new name, category or lane after too many": 6}


def test_enough_events_are_enough() -> None:
    trace = trace_of_text(json.dumps(document([*TWO, *TWO])), events=3)
    assert len(trace) == 3
    assert trace.dropped == {"rest of the file after 3 events": 1}


def test_counters_of_a_profiler_range_are_kept_under_any_name() -> None:
    counted = event(
        "gemm",
        1,
        1,
        cat="cuda_profiler_range",
        **{"smsp__inst.sum": 12, "dram": "0x10", "text": "x", "correlation": 3},
    )
    trace = trace_of([TWO[0], counted])
    assert sorted(trace.arguments.numbers) == ["dram", "smsp__inst.sum"]
    assert trace.arguments.number("smsp__inst.sum").rows.tolist() == [1]
    assert trace.arguments.number("dram").values.tolist() == [16.0]
    assert trace.correlation.tolist() == [-1, 3]


def test_text_arguments_are_compact_and_hold_no_nothing() -> None:
    trace = trace_of(
        [
            event("a", 1, 1, **{"Input Dims": [[64, 3], []], "dtype": ""}),
            event("b", 2, 1, dtype=None),
        ]
    )
    assert trace.arguments.text("Input Dims").texts == ("[[64,3],[]]",)
    assert "dtype" not in trace.arguments.texts


def test_lanes_get_the_names_that_metadata_events_give_them() -> None:
    named = {
        "ph": "M",
        "name": "thread_name",
        "pid": 1,
        "tid": 1,
        "args": {"name": "thread 1 (main)"},
    }
    labels = {"ph": "M", "name": "process_labels", "pid": "1", "args": {"labels": "GPU 0"}}
    trace = trace_of([*TWO, named, named, labels])
    assert (dict(trace.lane_names), dict(trace.process_labels)) == (
        {0: "thread 1 (main)"},
        {"1": "GPU 0"},
    )


def test_lone_surrogates_and_bytes_that_are_no_utf8_become_question_marks() -> None:
    text = (
        json.dumps(document(TWO))
        .replace("aten::mm", "\\ud800 mm")
        .encode()
        .replace(b"aten::add", b"add \xff\xfe")
    )
    trace = trace_of_text(text)
    assert trace.names == ("\ufffd mm", "add \ufffd\ufffd")
    json.dumps(trace.names).encode()


@pytest.mark.parametrize("levels", [100, 127, 129, 900, 5_000, 200_000])
def test_deep_nesting_costs_one_event_at_most(levels: int) -> None:
    deep = b'{"ph": "X", "ts": 5, "dur": 1, "args": ' + b"[" * levels + b"]" * levels + b"}"
    text = (
        json.dumps(document(TWO))
        .encode()
        .replace(b'"traceEvents": [', b'"traceEvents": [' + deep + b", ")
    )
    trace = trace_of_text(text)
    assert len(trace) == (3 if levels <= 127 else 2)
    assert sum(trace.dropped.values()) == (levels > 127)


HOSTILE = {
    "an endless string": b'{"ph": "X", "name": "' + b"a" * 20_000_000,
    "a string over and over": b'{"ph": "X", "args": "' + b'},{"ph":' * 50_000,
    "open lists": b'{"ph":[{},' * 2_500,
    "nothing but brackets": b"[" * 2_500_000,
    "quotes": b'"' * 1_500_000,
    "backslashes": b'{"ph": "' + b"\\" * 2_500_000,
    "commas": b"," * 5_000_000,
    "broken quotes": b'{"ph": "X", "name": "a"b"},' * 25_000,
    "digits": b"1" * 10_000_000,
    "a list that does not end": b'{"args":[' + b'{"ph":1},' * 250_000,
    "zeros": b"\x00" * 2_500_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_text_takes_time_in_proportion_to_its_length(what: str) -> None:
    content = b'{"traceEvents": [' + HOSTILE[what]
    began = time.process_time()
    try:
        assert len(read_trace_stream("t.json", blocks_of(content, 1 << 20))) == 0
    except EvidenceError as error:
        assert "a list without trace events" in str(error)  # noqa: PT017
    assert time.process_time() - began < 3.75


def test_many_distinct_names_do_not_take_more_than_linear_time() -> None:
    took = []
    for count in (20_000, 80_000):
        text = json.dumps(
            [
                {"ph": "X", "name": f"{i * 2654435761 % 2**32:08x}", "ts": i + 1, "dur": 1}
                for i in range(count)
            ]
        )
        began = time.process_time()
        assert len(read_trace_stream("t.json", [text.encode()]).names) == count
        took.append(time.process_time() - began)
    assert took[1] < 12 * took[0] + 0.5


def test_a_bomb_of_events_stops_at_the_cap(tmp_path: Path) -> None:
    text = b"[" + b'{"ph":"X","ts":1,"dur":1},' * 400_000
    trace = read_trace(write_trace(tmp_path / "t.json.gz", text), max_bytes=5_000_000)
    assert len(trace) == (5_000_000 - 1) // 26
    assert trace.dropped["rest of the file after 5000000 bytes"] == 1


def test_gzip_in_several_members_is_one_trace(tmp_path: Path) -> None:
    text = json.dumps(document(TWO)).encode()
    packed = b"".join(gzip.compress(text[at : at + 50]) for at in range(0, len(text), 50))
    (tmp_path / "t.json.gz").write_bytes(packed + b"\x00" * 512)
    trace = read_trace(tmp_path / "t.json.gz")
    assert (len(trace), trace.dropped) == (2, {})


def test_corrupt_gzip_gives_what_comes_before(tmp_path: Path) -> None:
    events = [event(f"op{i % 7}", i * 10.0, 5.0, n=i * 7919) for i in range(20_000)]
    packed = bytearray(gzip.compress(json.dumps(document(events)).encode()))
    packed[len(packed) * 3 // 4] ^= 0xFF
    (tmp_path / "t.json.gz").write_bytes(packed)
    trace = read_trace(tmp_path / "t.json.gz")
    assert 5_000 < len(trace) <= 20_000
    assert any("gzip data are corrupt" in reason for reason in trace.dropped)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (
            b'{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [{"id": 1}]}',
            "a Chakra execution trace",
        ),
        (b'{"data": [{"traceID": "7c", "spans": []}]}', "spans of Jaeger"),
        (b'{"resourceSpans": [{"scopeSpans": []}]}', "spans of OpenTelemetry"),
        (b'{"version": "2.10", "pg_config": {}, "entries": []}', "a flight recorder dump"),
        (b"\x80\x02}q\x00X\x07\x00", "a pickle"),
        (b"SQLite format 3\x00....", "an SQLite database"),
        (b"PK\x03\x04....", "an archive"),
        (b"<!doctype html><html>", "a page of HTML"),
        (b"[[1, 2, 3]]", "without trace events"),
        (b"[2026-01-01 00:00:00] started", "without trace events"),
        (b"Traceback (most recent call last):", "no list of trace events"),
        (b"   ", "no list of trace events"),
        (b"\x1f\x8b\x08\x00garbage", "no list of trace events"),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_what_it_seems_to_be(
    tmp_path: Path, content: bytes, what: str
) -> None:
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(EvidenceError) as error:
        read_trace(tmp_path / "t.json")
    assert what in str(error.value)
    assert str(error.value).startswith("t.json: is not a profiler trace")


def test_an_empty_list_of_events_is_an_empty_trace() -> None:
    for text in ("[]", '{"traceEvents": []}'):
        trace = trace_of_text(text)
        assert (len(trace), trace.dropped, len(trace.end), trace.on_device.tolist()) == (
            0,
            {},
            0,
            [],
        )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rank-3.Jul_15_10_52_41.1074.pt.trace.json.gz", (3, "file name")),
        ("vm_rank12.1795231721126108748.pt.trace.json.gz", (12, "file name")),
        ("iteration_10/rank5_trace.json.gz", (5, "file name")),
        ("rank_4/trace.json", (4, "file name")),
        ("dp0_pp0_tp3_dcp0_ep3_rank3.1774.pt.trace.json.gz", (3, "file name")),
        ("1774.3-TP-2.trace.json.gz", (2, "file name")),
        ("odtrace_3941.json.gz", (6, "order")),
        ("host_1234.1795231721126.pt.trace.json", (6, "order")),
        ("crank7.json", (6, "order")),
    ],
)
def test_ranks_are_told_from_file_names(name: str, expected: tuple[int, str]) -> None:
    trace = read_trace_stream(name, [json.dumps(document(TWO, rank=None)).encode()], order=6)
    assert (trace.rank, trace.rank_source) == expected


def test_what_the_trace_says_of_its_rank_counts_more_than_its_name() -> None:
    trace = read_trace_stream("rank5_trace.json", [json.dumps(document(TWO, rank=2)).encode()])
    assert (trace.rank, trace.rank_source) == (2, "distributedInfo")


def test_files_of_one_rank_are_both_kept_and_noted(tmp_path: Path) -> None:
    for name, rank in (("a", 1), ("b", 1), ("c", None), ("d", 0), ("e", None)):
        write_trace(tmp_path / f"{name}.json", document(TWO, rank=rank))
    traces, errors = read_traces(sorted(tmp_path.iterdir()))
    assert [(t.file, t.rank) for t in traces] == [
        ("d.json", 0),
        ("a.json", 1),
        ("b.json", 1),
        ("c.json", 2),
        ("e.json", 3),
    ]
    assert [t.notes for t in traces] == [
        (),
        ("2 files say they are rank 1",),
        ("2 files say they are rank 1",),
        (),
        (),
    ]
    assert errors == []


def test_many_files_are_read_at_once_with_progress(tmp_path: Path) -> None:
    paths = [
        write_trace(tmp_path / f"rank{rank}.json.gz", document(TWO, rank=rank)) for rank in range(9)
    ]
    seen: list[tuple[int, int]] = []
    traces, errors = read_traces(
        [*paths, tmp_path / "gone.json"], jobs=4, progress=lambda *at: seen.append(at)
    )
    size = sum(path.stat().st_size for path in paths)
    assert [t.rank for t in traces] == list(range(9))
    assert len(errors) == 1
    assert seen[-1] == (size, size)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_columns_outlive_the_reader(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "t.json", document([event("a", i + 1, 1, stream=i) for i in range(9_000)])
    )
    columns = [read_trace(path).stream for _ in range(5)]
    assert all(np.array_equal(column, np.arange(9_000)) for column in columns)


def test_times_of_real_traces_start_at_the_base(shared: Path) -> None:
    trace = read_trace(shared / "traces" / "debug_server" / "profile_rank0.json.gz")
    assert int(trace.ts.min()) > BASE_NS // 2


def test_every_file_of_the_data_is_read_or_refused_and_both_lanes_agree(shared: Path) -> None:
    """Of the ranks of a job that was recorded here the first: the others are written alike."""
    read = refused = 0
    for path in sorted((shared / "traces").rglob("*")):
        if (
            not path.is_file()
            or path.stat().st_size > 130_000
            or path.name.startswith(("metrics_", "stdout_", "vm_rank1.", "vm_rank2.", "vm_rank3."))
        ):
            continue
        found = read_both(path.read_bytes(), packed=True)
        if isinstance(found, TraceColumns):
            assert (found.dropped, "json" in path.name) == ({}, True), path
            read += 1
        else:
            assert "is not a profiler trace" in found or found.endswith("is empty"), path
            refused += 1
    assert read > 30
    assert refused > 50
