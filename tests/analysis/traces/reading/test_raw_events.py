"""The events of a trace as bytes: the same ones, in the same order, as a JSON reader finds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.reading import raw_events
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.analysis.traces.reading.raw_events import RawEvents
from tests.analysis.traces.written_traces import document, event, write_trace

EVENTS = [
    event(
        f"aten::op{i}", 10.5 * i, 3.25, note='a "}, {\\"ph\\": "', nested=[{"name": 1}, {"name": 2}]
    )
    for i in range(9)
]


def read(path: Path) -> tuple[list[Any], RawEvents, bytes]:
    raw = RawEvents(path)
    found = []
    for block in raw.blocks():
        assert block.first == len(found)
        assert json.loads(b"[" + block.text + b"]") == [json.loads(bytes(e)) for e in block.events]
        found += [json.loads(bytes(e)) for e in block.events]
    return found, raw, b"".join(raw.trailer())


def test_events_header_and_trailer_are_the_whole_file(tmp_path: Path) -> None:
    path = write_trace(
        tmp_path / "t.json.gz", document(EVENTS) | {"deviceProperties": [{"id": 0}, {"id": 1}]}
    )
    found, raw, trailer = read(path)
    assert found == EVENTS
    assert json.loads(raw.header + trailer) == document([]) | {
        "deviceProperties": [{"id": 0}, {"id": 1}]
    }


@pytest.mark.parametrize("size", [7, 40, 100, 333, 5000])
def test_blocks_may_end_anywhere(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_trace(tmp_path / "t.json", document(EVENTS))
    whole = path.read_bytes()
    pieces = [whole[i : i + size] for i in range(0, len(whole), size)]
    monkeypatch.setattr(raw_events, "unpacked_blocks", lambda *_: iter(pieces))
    assert read(path)[0] == EVENTS


def test_a_bare_list_and_an_empty_list_are_read(tmp_path: Path) -> None:
    assert read(write_trace(tmp_path / "list.json", EVENTS))[0] == EVENTS
    assert read(write_trace(tmp_path / "empty.json", document([])))[0] == []
    assert read(write_trace(tmp_path / "none.json", b" []"))[0] == []


def test_a_file_that_ends_early_gives_what_is_whole(tmp_path: Path) -> None:
    whole = json.dumps(document(EVENTS)).encode()
    found, raw, trailer = read(write_trace(tmp_path / "t.json", whole[: whole.index(b"aten::op7")]))
    assert found == EVENTS[:7]
    assert not raw.closed
    assert trailer == b""
    assert raw.dropped["events that are not valid JSON"] == 1


def test_what_json_forbids_is_repaired_or_left_out(tmp_path: Path) -> None:
    texts = [json.dumps(e) for e in EVENTS[:4]]
    texts[1] = texts[1].replace("aten::op1", "aten::\x01op1")
    texts[2] = texts[2].replace('"tid": 1', '"tid": N/A')
    texts[3] = json.dumps(event("aten::op3", 1, 3.25)).replace('"dur": 3.25', '"dur": ,')
    body = ",".join([*texts, json.dumps(EVENTS[4])])
    found, raw, _ = read(write_trace(tmp_path / "t.json", f'{{"traceEvents": [{body}]}}'.encode()))
    assert [e["name"] for e in found] == ["aten::op0", "aten:: op1", "aten::op2", "aten::op4"]
    assert found[2]["tid"] == "N/A"
    assert raw.dropped == {"events that are not valid JSON": 1}


def test_what_is_no_trace_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(EvidenceError, match="no list of trace events"):
        read(write_trace(tmp_path / "t.json", b'{"schema": 1}'))
    with pytest.raises(EvidenceError):
        read(tmp_path / "missing.json")


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(20, 10**6), st.sampled_from('"{}[],:a1\\')), max_size=4))
def test_numbers_of_events_are_the_readers_in_damaged_files_too(
    tmp_path_factory: pytest.TempPathFactory, damage: list[tuple[int, str]]
) -> None:
    whole = bytearray(
        json.dumps(document([event(f"aten::op{i}", 10.0 * i, 3.25) for i in range(9)])).encode()
    )
    first = whole.index(b"traceEvents") + 16
    for place, what in damage:
        whole[first + place % (len(whole) - first - 2)] = ord(what)
    path = write_trace(tmp_path_factory.mktemp("raw") / "t.json", bytes(whole))
    trace = read_trace(path)
    found = [bytes(e) for block in RawEvents(path).blocks() for e in block.events]
    for row in range(len(trace)):
        assert (json.loads(found[int(trace.event[row])]).get("name") or "") == trace.name_of(row)


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=6)
    | st.sampled_from(['}, {"ph":', "N/A", "]", '"args": {']),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ph", "name", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)
json_events = st.lists(
    st.fixed_dictionaries(
        {"ph": st.sampled_from("XMsfiC"), "name": st.text(max_size=8), "args": values}
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(json_events, st.integers(20, 400), st.booleans(), st.sampled_from([None, 1]))
def test_any_json_is_read_as_a_json_reader_does(
    tmp_path_factory: pytest.TempPathFactory,
    events: list[Any],
    size: int,
    bare: bool,
    indent: int | None,
) -> None:
    path = tmp_path_factory.mktemp("raw") / "t.json"
    whole = json.dumps(
        events if bare else {"a": 1, "traceEvents": events, "b": [{"name": 1}, {"name": 2}]},
        indent=indent,
    )
    pieces = [whole.encode()[i : i + size] for i in range(0, len(whole.encode()), size)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(raw_events, "unpacked_blocks", lambda *_: iter(pieces))
        assert read(path)[0] == events


def test_real_traces_have_the_events_that_a_json_reader_finds(shared: Path) -> None:
    paths = sorted((shared / "traces" / "tracelens").rglob("*.json.gz"))
    small = [path for path in paths if path.stat().st_size < 200_000]
    assert len(small) >= 6
    for path in small:
        with gzip.open(path) as file:
            expected = json.load(file)["traceEvents"]
        assert read(path)[0] == expected
