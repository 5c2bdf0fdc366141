"""Files that are made to cost time, memory or disk space: the cost stays in proportion to what they
hold."""

from __future__ import annotations

import gzip
import time
import zlib
from collections import Counter
from pathlib import Path

import pytest

from faultline.analysis.traces.reading.file_kinds import HEAD_BYTES, kind_of
from faultline.analysis.traces.reading.kineto import read_trace_stream
from faultline.analysis.traces.reading.trace_bytes import BOMB_BYTES, BOMB_RATIO, unpacked

ONE = b'{"ph":"X","name":"a","ts":1,"dur":1}'


def one_byte_members(content: bytes) -> bytes:
    packed = {value: gzip.compress(bytes([value]), 1, mtime=0) for value in set(content)}
    return b"".join(packed[value] for value in content)


def test_names_made_to_collide_cost_no_more_than_others() -> None:
    """Texts that hold a factor of a well-known hash function where it multiplies."""
    factor = (0xE7037ED1A0B428DB).to_bytes(8, "little")
    names = [b'"' + b"%015d" % i + factor + b'abcdefgh"' for i in range(30_000)]
    text = (
        b"[" + b",".join(b'{"ph":"X","ts":1,"dur":1,"name":' + name + b"}" for name in names) + b"]"
    )
    began = time.process_time()
    assert len(read_trace_stream("t.json", [text]).names) == len(names)
    assert time.process_time() - began < 2


def test_gzip_of_one_byte_members_is_read_in_large_blocks() -> None:
    blocks = list(unpacked("t.json.gz", [one_byte_members(b" " * 20_000)], Counter()))
    assert [len(block) for block in blocks] == [20_000]
    assert (
        len(read_trace_stream("t.json.gz", [one_byte_members(b"[" + ONE + b"," + ONE + b"]")])) == 2
    )


def test_a_gzip_bomb_is_read_no_further(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    spaces = b" " * (1 << 20)
    packed = [
        packer.compress(b"[" + ONE),
        *(packer.compress(spaces) for _ in range(200)),
        packer.flush(),
    ]
    trace = read_trace_stream("t.json.gz", [b"".join(packed)])
    assert len(trace) == 1
    assert (
        trace.dropped[f"rest of the file: it unpacks to more than {BOMB_RATIO} times its size"] == 1
    )
    dropped: Counter[str] = Counter()
    assert sum(len(b) for b in unpacked("t.json.gz", [b"".join(packed)], dropped)) < BOMB_BYTES + (
        1 << 20
    )


@pytest.mark.parametrize(
    ("begins", "goes_on"), [(b'{"', b"loss"), (b"[[1", b"1"), (b"[[1", b", "), (b'[{"', b"loss ")]
)
def test_what_a_file_is_takes_no_time_to_tell(begins: bytes, goes_on: bytes) -> None:
    head = (begins + goes_on * HEAD_BYTES)[:HEAD_BYTES]
    began = time.process_time()
    kind_of(Path("rank0.jsonl"), head)
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    "event",
    [
        b'{"ph":"X","name":"a" "ts":1,"dur":1}',
        # Deeper than a reader of JSON goes.
        b'{"ph":"X","name":"a","args":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    ],
)
def test_a_file_of_unreadable_events_is_given_up_after_a_while(
    monkeypatch: pytest.MonkeyPatch, event: bytes
) -> None:
    monkeypatch.setattr("faultline.analysis.traces.reading.event_scanner.MAX_WASTED_BYTES", 20_000)
    events = [ONE, *[event] * 30, ONE]
    trace = read_trace_stream("t.json", [b"[" + b",".join(events) + b"]"])
    assert len(trace) == 1
    assert trace.dropped["rest of the file: too many unreadable events"] == 1
    few = read_trace_stream("t.json", [b"[" + b",".join([ONE, event, ONE]) + b"]"])
    assert len(few) == 2
    assert "rest of the file: too many unreadable events" not in few.dropped
