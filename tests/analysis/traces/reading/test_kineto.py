from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.reading.kineto import nanoseconds, read_trace, read_traces
from faultline.analysis.traces.reading.trace_bytes import BLOCK_BYTES
from tests.analysis.traces.both_lanes import read_both
from tests.analysis.traces.written_traces import BASE_NS, document, event, job, write_trace

TWO = [event("aten::mm", 10.001, 2.5), event("aten::add", 20.0, 1.0)]


def test_times_are_exact_nanoseconds_since_the_epoch(tmp_path: Path) -> None:
    text = json.dumps(document([event("aten::mm", 1, 2)])).replace(
        '"ts": 1', '"ts": 4372264215533.041'
    )
    trace = read_trace(write_trace(tmp_path / "t.json", text.encode()))
    assert trace.ts.tolist() == [BASE_NS + 4372264215533041]
    assert trace.dur.tolist() == [2000]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"4372264215533.041", 4372264215533041),
        (b"1790857026123456.789", 1790857026123456789),
        (b'"12.5"', 12500),
        (b"-0.25", -250),
        (b"1e3", 1000000),
        (b"0.0019", 2),
        (b"NaN", None),
        (b"1e400", None),
        (b"true", None),
        (b"", None),
    ],
)
def test_microseconds_are_read_without_float_loss(text: bytes, expected: int | None) -> None:
    assert nanoseconds(text) == expected


@given(st.integers(-(10**15), 10**15), st.integers(0, 999))
def test_every_decimal_time_survives(whole: int, thousandths: int) -> None:
    sign = -1 if whole < 0 else 1
    assert nanoseconds(b"%d.%03d" % (whole, thousandths)) == whole * 1000 + sign * thousandths


def test_names_categories_and_lanes_are_interned(tmp_path: Path) -> None:
    trace = read_trace(
        write_trace(
            tmp_path / "t.json.gz", document([*TWO, event("aten::mm", 30, 1, tid=7)], rank=3)
        )
    )
    assert (trace.rank, trace.rank_source, trace.world_size, trace.host) == (
        3,
        "distributedInfo",
        4,
        "node-a",
    )
    assert [trace.name_of(i) for i in range(3)] == ["aten::mm", "aten::add", "aten::mm"]
    assert trace.name[0] == trace.name[2]
    assert trace.lanes == (("1", "1"), ("1", "7"))
    assert trace.dropped == {}


def test_the_rank_comes_from_the_file_name_and_last_from_the_order(tmp_path: Path) -> None:
    named = write_trace(tmp_path / "host_rank12.pt.trace.json", document(TWO, rank=None))
    plain = write_trace(tmp_path / "worker.json", document(TWO, rank=None))
    assert [(t.rank, t.rank_source) for t in (read_trace(named), read_trace(plain, order=5))] == [
        (12, "file name"),
        (5, "order"),
    ]


def test_a_bare_list_of_events_is_a_trace(tmp_path: Path) -> None:
    assert len(read_trace(write_trace(tmp_path / "t.json", list(TWO)))) == 2


def test_metadata_after_the_events_counts_too(tmp_path: Path) -> None:
    content = document(TWO, rank=6)
    content = {"traceEvents": content.pop("traceEvents"), **content}
    trace = read_trace(write_trace(tmp_path / "t.json", content))
    assert trace.rank == 6
    assert trace.ts[0] == BASE_NS + 10001


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.97])
def test_a_truncated_gzip_gives_what_comes_before_the_end(tmp_path: Path, keep: float) -> None:
    events = [event(f"op{i % 7}", i * 10.0, 5.0, n=i * 7919) for i in range(20_000)]
    packed = gzip.compress(json.dumps(document(events)).encode())
    (tmp_path / "t.json.gz").write_bytes(packed[: int(len(packed) * keep)])
    trace = read_trace(tmp_path / "t.json.gz")
    assert 0.5 * keep * 20_000 < len(trace) < 20_000
    assert np.array_equal(trace.ts, BASE_NS + np.arange(len(trace)) * 10_000)
    assert trace.dropped["rest of the file: gzip data end early"] == 1


def test_truncated_json_loses_only_the_event_at_the_end(tmp_path: Path) -> None:
    text = json.dumps(document(TWO)).encode()
    trace = read_trace(write_trace(tmp_path / "t.json", text[: text.index(b"aten::add") + 4]))
    assert [trace.name_of(0), len(trace)] == ["aten::mm", 1]
    assert trace.dropped == {"events that are not valid JSON": 1}


@pytest.mark.parametrize(
    "damage",
    [
        lambda t: t.replace('"aten::add"', '"aten::\x01\x0aadd"'),
        lambda t: t.replace('"args": {}', '"args": {"occupancy": N/A}'),
        lambda t: t.replace('"args": {}', '"args": {"occupancy": nan, "x": -inf}'),
        lambda t: t.replace('"args": {}', '"args": {"list": [{"ph": 1}, {"ph": 2}]}'),
    ],
)
def test_invalid_json_that_profilers_write_is_repaired(tmp_path: Path, damage: object) -> None:
    text = damage(json.dumps(document(TWO)))  # type: ignore[operator]
    trace = read_trace(write_trace(tmp_path / "t.json", text.encode()))
    assert trace.ts.tolist() == [BASE_NS + 10001, BASE_NS + 20000]
    assert trace.dropped == {}


def test_an_event_that_cannot_be_repaired_is_dropped_alone(tmp_path: Path) -> None:
    text = json.dumps(document([*TWO, event("aten::sub", 40, 1)])).replace("aten::add", 'say "hi"')
    trace = read_trace(write_trace(tmp_path / "t.json", text.encode()))
    assert [trace.name_of(i) for i in range(len(trace))] == ["aten::mm", "aten::sub"]
    assert trace.dropped == {"events that are not valid JSON": 1}


def test_events_without_duration_or_time_are_dropped_and_counted(tmp_path: Path) -> None:
    broken = [
        event("a", 1, -5),
        {"ph": "X", "name": "b", "ts": 3},
        {"ph": "X", "name": "c", "ts": "?", "dur": 1},
    ]
    trace = read_trace(write_trace(tmp_path / "t.json", document([*TWO, *broken])))
    assert len(trace) == 2
    assert trace.dropped == {
        "events with a negative duration": 1,
        "events with no duration": 1,
        "events with no readable time": 1,
    }


def test_an_event_that_lost_its_time_is_dropped(tmp_path: Path) -> None:
    trace = read_trace(
        write_trace(tmp_path / "t.json", document([event("late", 4e12, 1), event("zero", 0, 1)]))
    )
    assert [trace.name_of(0), len(trace)] == ["late", 1]
    assert trace.dropped == {"events with a time outside the trace": 1}


def test_events_that_are_no_intervals_are_counted_by_phase(tmp_path: Path) -> None:
    others = [
        {"ph": "M", "name": "process_name"},
        {"ph": "s", "id": 1, "ts": 1},
        {"ph": "i", "name": "x", "ts": 2},
    ]
    assert read_trace(write_trace(tmp_path / "t.json", document([*TWO, *others]))).skipped == {
        "M": 1,
        "s": 1,
        "i": 1,
    }


def test_a_compression_bomb_stops_at_the_cap(tmp_path: Path) -> None:
    bomb = json.dumps(document(TWO)).encode()[:-2] + b"," + b" " * 50_000_000
    trace = read_trace(write_trace(tmp_path / "t.json.gz", bomb), max_bytes=3 * BLOCK_BYTES)
    assert len(trace) == 2
    assert trace.dropped[f"rest of the file after {3 * BLOCK_BYTES} bytes"] == 1


@pytest.mark.parametrize(
    "content", [b"", b"\x80\x04}q", b'{"schema": 1, "nodes": []}', b"hello", b"[[1, 2], [3, 4]]"]
)
def test_what_is_no_trace_is_one_clear_error(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(EvidenceError) as error:
        read_trace(write_trace(tmp_path / "t.json", content))
    assert str(error.value).startswith("t.json: ")
    assert "\n" not in str(error.value)


def test_a_missing_file_is_an_error_and_does_not_stop_the_others(tmp_path: Path) -> None:
    good = write_trace(tmp_path / "a.json", document(TWO))
    traces, errors = read_traces([tmp_path / "gone.json", good])
    assert [len(t) for t in traces] == [2]
    assert "gone.json" in str(errors[0])


@given(st.integers(1, 97))
@settings(deadline=None, max_examples=30)
def test_events_do_not_depend_on_where_blocks_end(size: int) -> None:
    text = json.dumps(
        document([*TWO, event('a "} , {"ph": 1', 40, 1, x=[{"ph": "X"}, {"ph": "Y"}])])
    ).encode()
    trace = read_both(text, block=size)
    assert isinstance(trace, TraceColumns)
    assert trace.names == ("aten::mm", "aten::add", 'a "} , {"ph": 1')
    assert trace.dropped == {}


SEED = json.dumps(document(job(ranks=1, steps=2)[0])).encode()


@given(
    st.lists(
        st.tuples(st.integers(0, len(SEED) - 1), st.binary(min_size=0, max_size=6)), max_size=6
    ),
    st.integers(0, len(SEED)),
    st.booleans(),
)
@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
def test_no_damage_crashes_the_reader(
    edits: list[tuple[int, bytes]], length: int, packed: bool
) -> None:
    damaged = bytearray(SEED)
    if packed:
        damaged = bytearray(gzip.compress(bytes(damaged)))
    for at, replacement in edits:
        place = at % len(damaged)
        damaged[place : place + len(replacement)] = replacement
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.json"
        file.write_bytes(bytes(damaged[:length]))
        try:
            trace = read_trace(file)
        except EvidenceError as error:
            assert "\n" not in str(error)  # noqa: PT017
            return
        assert (trace.dur >= 0).all()
        assert len(trace.ts) == len(trace.dur) == len(trace.name) == len(trace.lane)


@given(st.binary(max_size=400))
@settings(deadline=None, max_examples=60)
def test_no_bytes_after_the_list_opens_crash_the_reader(rest: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.json"
        file.write_bytes(b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1}, ' + rest)
        assert len(read_trace(file)) <= 400


def test_deeply_nested_arguments_are_dropped_and_not_a_crash(tmp_path: Path) -> None:
    deep = b'{"ph": "X", "ts": 5, "dur": 1, "args": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    text = (
        json.dumps(document(TWO))
        .encode()
        .replace(b'"traceEvents": [', b'"traceEvents": [' + deep + b", ")
    )
    trace = read_trace(write_trace(tmp_path / "t.json", text))
    assert len(trace) == 2
    assert sum(trace.dropped.values()) == 1


@pytest.mark.parametrize(
    "hostile",
    [
        b'{"traceEvents": [{"ph": "X", "args": "' + b'},{"ph":' * 10_000,
        b'{"traceEvents": [' + b'{"ph":[{},' * 3_000,
        b'{"traceEvents": [' + b'{"ph": "X", "name": "a"b"},' * 10_000,
    ],
)
def test_text_full_of_false_boundaries_is_given_up_in_time_that_grows_with_its_length(
    tmp_path: Path, hostile: bytes
) -> None:
    trace = read_trace(write_trace(tmp_path / "t.json", hostile))
    assert len(trace) == 0
    assert trace.dropped


def test_real_traces_of_many_versions_are_read_without_loss(shared: Path) -> None:
    for file, events in {
        "hta/trace_filter/sampled_rank-1.json.gz": 4676,
        "hta/amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": 113,
        "hta/rank_unavailable/rank_not_found.json.gz": 2467,
        "hta/mtia_inference_trace/mtia_inference_rank_0.json.gz": 14179,
        "kineto_tb_plugin/resnet50_num_workers_0/worker0.2d19c63.pt.trace.json.gz": 63166,
        "param/dlrm_kineto_8rank/rank-1.json": 2527,
    }.items():
        trace = read_trace(shared / "traces" / file)
        assert (len(trace), trace.dropped) == (events, {}), file
