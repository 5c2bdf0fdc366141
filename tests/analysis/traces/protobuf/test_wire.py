"""The wire format of protocol buffers: one message and many give the same, whatever the bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.traces.protobuf import wire
from faultline.analysis.traces.protobuf.wire import BYTES, Buffer, Fields, inner, whole
from tests.analysis.traces.protobuf_messages import message, varint


def buffer_of(content: bytes) -> Buffer:
    return Buffer("a.pb", content + bytes(16), len(content), Counter())


def rows(found: Fields) -> list[tuple[int, ...]]:
    columns = (found.owner, found.number, found.kind, found.value, found.stop)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_a_message_of_googles_own_writer_is_read() -> None:
    described = FileDescriptorProto(name="a.proto", package="p", dependency=["x", "y" * 300])
    for number in range(60):
        described.message_type.add(name=f"M{number}")
    buffer = buffer_of(described.SerializeToString())
    outer = whole(buffer)
    texts = outer.where((outer.number <= 3) & (outer.kind == BYTES))
    read = [
        buffer.text(a, b, 1_000)
        for a, b in zip(texts.start.tolist(), texts.stop.tolist(), strict=True)
    ]
    assert read == ["a.proto", "p", "x", "y" * 300]
    names = inner(buffer, outer.of(4, BYTES)).of(1, BYTES)
    assert names.owner.tolist() == list(range(60))
    last = buffer.text(int(names.start[-1]), int(names.stop[-1]), 9)
    assert last == "M59"


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=60))
def test_many_messages_give_what_each_gives_alone(messages: list[bytes]) -> None:
    buffer = buffer_of(b"".join(messages))
    ends = np.cumsum([len(m) for m in messages]).astype(np.int64)
    starts = ends - [len(m) for m in messages]
    alone, together = buffer_of(buffer.raw[: buffer.length]), buffer
    one = wire._read_serially(alone, starts, ends)
    many = wire._together(together, starts, ends)
    damaged = {row[0] for row in rows(one)} ^ {row[0] for row in rows(many)}
    # A length beyond its message is a cut file to one and damage to the other.
    cut = {row[0] for row in rows(one) if row[4] in ends.tolist()}
    sound = set(range(len(messages))) - cut - damaged
    assert [r for r in rows(one) if r[0] in sound] == [r for r in rows(many) if r[0] in sound]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=30, max_size=40))
def test_numbers_of_64_bits_are_exact(numbers: list[int]) -> None:
    buffer = buffer_of(message([(1, [[(3, number)] for number in numbers])]))
    found = inner(buffer, whole(buffer).of(1, BYTES)).of(3)
    assert found.value.tolist() == numbers


@pytest.mark.parametrize("count", [1, 64])
@pytest.mark.parametrize(
    "damage",
    [
        b"\x08",  # no value
        b"\x08" + b"\xff" * 12,  # a number that does not end
        b"\x0b",  # a group, which nobody writes
        b"\x00\x01",  # field 0
        b"\x09\x01\x02",  # half a double
        varint(1 << 3 | 2) + varint(1 << 63) + b"a",  # a length that wraps around
    ],
)
def test_damage_costs_the_rest_of_its_message_alone(damage: bytes, count: int) -> None:
    good = message([(2, 7)])
    buffer = buffer_of(message([(1, good + damage), (1, good)] * count))
    found = inner(buffer, whole(buffer).of(1, BYTES)).of(2)
    assert found.signed.tolist() == [7] * 2 * count
    assert sum(buffer.dropped.values()) >= 1


def test_a_message_of_endless_fields_is_bounded() -> None:
    endless = message([(1, 1)] * 5_000)
    buffer = buffer_of(message([(1, endless)] * 40))
    found = inner(buffer, whole(buffer).of(1, BYTES))
    assert len(found) == 40 * wire.MAX_FIELDS
    assert buffer.dropped == {f"messages with more than {wire.MAX_FIELDS} fields": 40}


def test_a_file_that_is_too_large_is_read_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "large.pb"
    path.write_bytes(b"\x08\x01" * 1_000)
    buffer = wire.read_file(path, limit=100)
    assert buffer.length == 100
    assert buffer.dropped
