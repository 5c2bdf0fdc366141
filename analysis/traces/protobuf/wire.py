"""The wire format of protocol buffers, read for many messages at once: a table of fields.

No schema and no generated code: a caller knows the numbers of the fields that it wants, and asks
for the fields of all messages of a kind together. Nothing is recursive. A message that is damaged
gives the fields before the damage. Source: "Encoding" in Google's documentation of protocol
buffers.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.reading.trace_bytes import unpacked_blocks

Int64 = NDArray[np.int64]
UInt64 = NDArray[np.uint64]
Bytes = NDArray[np.uint8]

MAX_BYTES = 1 << 30
"""Most bytes of a file, unpacked (own; a message of protocol buffers ends at 2 GB). The rest is
dropped."""
MAX_FIELDS = 64
"""Most fields of a message read among many (own): the events of traces have under 30."""
MAX_MESSAGES = 5_000_000
"""Most fields of messages that are read one by one (own): a list of 5 million events takes 200 MB.
The rest is dropped."""
FEW = 24
"""So few messages are read one by one, which costs 1 us a field; a round of numpy costs as much as
some dozens."""
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_PADDING = 16
"""So that a number may be read behind the end of the file."""
_MAX_VARINT = 10
_SHIFTS = np.arange(0, 70, 7, dtype=np.uint64)


@dataclass(frozen=True)
class Buffer:
    """A file: its bytes, and what was lost of it."""

    name: str
    raw: bytes | bytearray
    """Padded with zeros."""
    length: int
    dropped: Counter[str]
    counts: Counter[str] = field(default_factory=Counter)
    """What a reader has taken of the file until now."""

    @property
    def bytes(self) -> Bytes:
        """The same as an array."""
        return np.frombuffer(self.raw, dtype=np.uint8)

    def text(self, start: int, stop: int, limit: int) -> str:
        """At most `limit` bytes as text; what is no UTF-8 is replaced."""
        return self.raw[start : min(stop, start + limit)].decode("utf-8", "replace")


@dataclass(frozen=True)
class Fields:
    """Fields of messages, in the order of the messages."""

    owner: Int64
    """Index of the message."""
    number: Int64
    kind: Int64
    """Wire type: VARINT, FIXED64, BYTES or FIXED32."""
    value: UInt64
    """The number as it is; for BYTES where they begin."""
    stop: Int64
    """Where BYTES end; 0 for numbers."""

    def __len__(self) -> int:
        return len(self.owner)

    def of(self, number: int, kind: int = VARINT) -> Fields:
        """The fields with this number; those of another wire type are damage."""
        return self.where((self.number == number) & (self.kind == kind))

    def where(self, keep: NDArray[Any]) -> Fields:
        """The fields of a mask."""
        return Fields(
            self.owner[keep],
            self.number[keep],
            self.kind[keep],
            self.value[keep],
            self.stop[keep],
        )

    @property
    def start(self) -> Int64:
        """Where BYTES begin."""
        return self.value.astype(np.int64)

    @property
    def signed(self) -> Int64:
        """Numbers as int64."""
        return self.value.view(np.int64)

    @property
    def doubles(self) -> NDArray[np.float64]:
        """FIXED64 as floating point."""
        return self.value.view(np.float64)

    def column(self, messages: int, default: int = 0) -> Int64:
        """One number per message, of `of(number)`; the last of a message counts."""
        column = np.full(messages, default, dtype=np.int64)
        column[self.owner] = self.signed
        return column


def read_file(path: Path, limit: int = MAX_BYTES) -> Buffer:
    """A file, unpacked where it is gzip. Raises EvidenceError when it cannot be opened or is
    empty."""
    dropped: Counter[str] = Counter()
    whole = bytearray()
    for block in unpacked_blocks(path, dropped, limit):
        whole += block
    length = len(whole)
    whole += bytes(_PADDING)
    return Buffer(path.name, whole, length, dropped)


def fields(buffer: Buffer, start: Int64, stop: Int64) -> Fields:
    """The fields of all messages. O(bytes)."""
    if len(start) <= FEW:
        return _read_serially(buffer, start, stop)
    return _together(buffer, start, stop)


def inner(buffer: Buffer, outer: Fields) -> Fields:
    """The fields of the messages that these fields (of BYTES) hold; `owner` is the index in
    `outer`."""
    return fields(buffer, outer.start, outer.stop)


def walk(buffer: Buffer, start: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, wire type, value or begin, end) of the fields of one message."""
    raw, at = buffer.raw, start
    stop = min(stop, buffer.length)
    while at < stop:
        tag, at = _varint(raw, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(raw, at)
            end = 0
        elif kind == BYTES:
            length, value = _varint(raw, at)
            at = end = value + length
            # A file that ends early: what there is of the last message is read.
            if end > stop:
                at = end = stop
                buffer.dropped["rest of the file: it ends early"] = 1
        elif kind == FIXED64:
            value, end = int.from_bytes(raw[at : at + 8], "little"), 0
            at += 8
        elif kind == FIXED32:
            value, end = int.from_bytes(raw[at : at + 4], "little"), 0
            at += 4
        else:
            # An unknown wire type has no length: a place past the end counts as damage below.
            at = stop + 1
            value = end = 0
        if at > stop or not number or value < 0:
            buffer.dropped["messages that are damaged"] += 1
            return
        yield number, kind, value, end


def _varint(raw: bytes | bytearray, at: int) -> tuple[int, int]:
    """The number and where it ends; a number that is too long ends far behind everything."""
    byte = raw[at] if at < len(raw) else 0
    if byte < 0x80:
        return byte, at + 1
    value, shift = byte & 0x7F, 7
    for place in range(at + 1, min(at + _MAX_VARINT, len(raw))):
        byte = raw[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            # Ten bytes can carry 70 bits: keep the low 64.
            return value & 0xFFFF_FFFF_FFFF_FFFF, place + 1
        shift += 7
    return -1, 1 << 62


def _read_serially(buffer: Buffer, start: Int64, stop: Int64) -> Fields:
    columns = [array("q") for _ in range(4)]
    owner, numbers, kinds, stops = columns
    values = array("Q")
    for index, (begin, end) in enumerate(zip(start.tolist(), stop.tolist(), strict=True)):
        for number, kind, value, close in walk(buffer, begin, end):
            if len(owner) >= MAX_MESSAGES:
                buffer.dropped[f"fields after {MAX_MESSAGES:,}"] += 1
                break
            owner.append(index)
            numbers.append(number)
            kinds.append(kind)
            values.append(value)
            stops.append(close)
    read = [np.frombuffer(column, dtype=np.int64) for column in columns]
    return Fields(read[0], read[1], read[2], np.frombuffer(values, dtype=np.uint64), read[3])


def _together(buffer: Buffer, start: Int64, stop: Int64) -> Fields:
    """One field of every message per round; messages that ended are left out of the next."""
    data = buffer.bytes
    stop = np.minimum(stop, buffer.length)
    owner = np.flatnonzero(start < stop)
    at, end = start[owner], stop[owner]
    parts: list[Fields] = []
    for _ in range(MAX_FIELDS):
        if not len(owner):
            break
        tag, at = _varints(data, at, end)
        kind = (tag & np.uint64(7)).astype(np.int64)
        number = (tag >> np.uint64(3)).astype(np.int64)
        # Read every field as a varint first: for BYTES that is the length.
        value, after = _varints(data, at, end)
        is_bytes = kind == BYTES
        # Lengths over 2**62 would wrap around.
        length = np.minimum(value, np.uint64(1 << 40)).astype(np.int64)
        value = np.where(is_bytes, after.astype(np.uint64), value)
        after = np.where(is_bytes, after + length, after)
        ends = np.where(is_bytes, after, 0)
        for fixed, size in ((FIXED64, 8), (FIXED32, 4)):
            rows = np.flatnonzero((kind == fixed) & (at + size <= end))
            if len(rows):
                value[rows] = _fixed(data, at[rows], size)
            after = np.where(kind == fixed, at + size, after)
        is_supported = is_bytes | (kind == VARINT) | (kind == FIXED64) | (kind == FIXED32)
        sound = is_supported & (number > 0) & (after <= end)
        lost = int((~sound).sum())
        if lost:
            buffer.dropped["messages that are damaged"] += lost
        parts.append(Fields(owner, number, kind, value, ends).where(sound))
        go_on = sound & (after < end)
        owner, at, end = owner[go_on], after[go_on], end[go_on]
    if len(owner):
        buffer.dropped[f"messages with more than {MAX_FIELDS} fields"] += len(owner)
    return _table(parts)


def _varints(data: Bytes, at: Int64, end: Int64) -> tuple[UInt64, Int64]:
    """The numbers that begin at these places, and where they end (behind `end` where they do
    not)."""
    limit = len(data) - 1
    value = np.zeros(len(at), dtype=np.uint64)
    after = at + 1
    byte = data[np.minimum(at, limit)]
    value |= (byte & 0x7F).astype(np.uint64)
    going = np.flatnonzero(byte >= 0x80)
    for place in range(1, _MAX_VARINT):
        if not len(going):
            return value, after
        byte = data[np.minimum(at[going] + place, limit)]
        value[going] |= (byte & 0x7F).astype(np.uint64) << _SHIFTS[place]
        after[going] += 1
        going = going[byte >= 0x80]
    after[going] = end[going] + 1
    return value, after


def _fixed(data: Bytes, at: Int64, size: int) -> UInt64:
    value = np.zeros(len(at), dtype=np.uint64)
    for place in range(size):
        value |= data[at + place].astype(np.uint64) << np.uint64(8 * place)
    return value


def _table(parts: list[Fields]) -> Fields:
    """All rounds, sorted so that the fields of a message stand together and in their order."""
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Fields(none, none, none, np.empty(0, dtype=np.uint64), none)
    owner = np.concatenate([p.owner for p in parts])
    order = np.argsort(owner, kind="stable")
    return Fields(
        owner[order],
        np.concatenate([p.number for p in parts])[order],
        np.concatenate([p.kind for p in parts])[order],
        np.concatenate([p.value for p in parts])[order],
        np.concatenate([p.stop for p in parts])[order],
    )


def whole(buffer: Buffer) -> Fields:
    """The fields of the file's outermost message. Raises EvidenceError where there is none."""
    message = fields(
        buffer, np.zeros(1, dtype=np.int64), np.asarray([buffer.length], dtype=np.int64)
    )
    if not len(message):
        raise EvidenceError(buffer.name, "holds no message of protocol buffers")
    return message
