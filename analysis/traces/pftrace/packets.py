"""Packets of a Perfetto trace: their sequences, what these intern, and their times.

Field numbers: Perfetto's `protos/perfetto/trace` (`trace_packet.proto`, `track_event.proto`,
`interned_data.proto`, `clock_snapshot.proto`). A sequence is what one writer wrote: names are
interned, and times counted, within it.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.protobuf.wire import (
    BYTES,
    MAX_BYTES,
    Buffer,
    Fields,
    fields,
    inner,
    walk,
)

# Compressed packets of a Perfetto trace, unpacked in their places.
#
# Each holds packets as a file does, by deflate or, from Perfetto 58 on, by zstd: field numbers of
# `trace_packet.proto`, contents of `zlib_compressor.cc` and `zstd_compressor.cc` (one stream each).

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

PADDING = bytes(16)
_DEFLATE, _ZSTD = 50, 133
CORRUPT = "compressed packets that are corrupt"


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def unpacked(buffer: Buffer, outer: Fields, content: Fields) -> Buffer:
    """The same file with what the packets `outer` hold in the place of those that are compressed;
    the same buffer where none is. `content` are the packets' fields.

    What is corrupt, and what follows after MAX_BYTES, is counted as dropped.
    """
    inside = _compressed(content)
    if not inside:
        return buffer
    whole = bytearray()
    places = zip(outer.start.tolist(), outer.stop.tolist(), strict=True)
    for index, (start, stop) in enumerate(places):
        if index in inside:
            kind, begin, end = inside[index]
            packets = _decompressed(buffer, kind, begin, end, MAX_BYTES - len(whole))
        else:
            # 0x0a is the tag of field 1 with BYTES: a packet of the outer list.
            packets = b"\x0a" + _varint(stop - start) + buffer.raw[start:stop]
        if len(whole) + len(packets) > MAX_BYTES:
            whole += packets[: MAX_BYTES - len(whole)]
            buffer.dropped[f"rest of the file after {MAX_BYTES} bytes"] = 1
            break
        whole += packets
    length = len(whole)
    return Buffer(buffer.name, whole + PADDING, length, buffer.dropped)


def _compressed(content: Fields) -> dict[int, tuple[int, int, int]]:
    """(field, begin, end) by packet."""
    field_by_packet: dict[int, tuple[int, int, int]] = {}
    for kind in (_DEFLATE, _ZSTD):
        fields = content.of(kind, BYTES)
        columns = (fields.owner.tolist(), fields.start.tolist(), fields.stop.tolist())
        for packet, begin, end in zip(*columns, strict=True):
            field_by_packet[packet] = (kind, begin, end)
    return field_by_packet


def _decompressed(buffer: Buffer, kind: int, begin: int, end: int, room: int) -> bytes:
    """At most one byte more than there is room for, which tells that there was more."""
    # libzstd refuses windows of more than 128 MB by itself.
    stream: _Decompressor = zstd.ZstdDecompressor() if kind == _ZSTD else zlib.decompressobj()
    try:
        packets = stream.decompress(bytes(buffer.raw[begin:end]), room + 1)
    except (zlib.error, zstd.ZstdError):
        buffer.dropped[CORRUPT] += 1
        return b""
    if not stream.eof and len(packets) <= room:
        buffer.dropped[CORRUPT] += 1
    return packets


def _varint(value: int) -> bytes:
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


MAX_TEXT = 4_096
MAX_INTERNED = 2_000_000
BOOTTIME, REALTIME = 6, 1
FIRST_SEQUENCE_CLOCK = 64
"""Clocks from here on are those of one sequence; they may count from packet to packet."""
_PACKET, _TIMESTAMP, _CLOCKS, _SEQUENCE, _EVENT, _INTERNED, _FLAGS = 1, 8, 6, 10, 11, 12, 13
_CLOCK, _DEFAULTS, _DESCRIPTOR, _CLEARED_BEFORE = 58, 59, 60, 41
_CLEARED = 1
EVENT_NAMES, CATEGORIES, ANNOTATION_NAMES, TEXTS = 2, 1, 3, 29
"""Fields of InternedData."""


@dataclass(frozen=True)
class Clock:
    """A clock of a sequence: its value and the trace's time at the last snapshot."""

    value: int
    time: int
    unit: int = 1
    counts_on: bool = False
    """Whether a packet's time is what passed since the packet before."""


@dataclass
class Sequence:
    """What one writer said last."""

    clocks: dict[int, Clock] = field(default_factory=dict)
    default_clock: int = 0
    default_track: int = 0
    scope: int = 0
    """What is interned is valid in its scope."""


@dataclass(frozen=True)
class Packets:
    """All track events of a file, in its order, and the tracks."""

    buffer: Buffer
    event: Fields
    """Fields of track events; `owner` is the index of the event."""
    time: Int64
    """ns of the trace's clock; -1 where it is not known."""
    scope: Int64
    track: Int64
    """Track of events that do not say theirs."""
    interned: dict[tuple[int, int, int], str]
    """Texts by (scope, field of InternedData, id)."""
    descriptors: Fields
    since_1970: int
    """What to add to times; 0 where the file does not say."""

    @cached_property
    def count(self) -> int:
        """How many events there are."""
        return len(self.time)


def packets_of(buffer: Buffer) -> Packets:
    """Decode a file. Raises EvidenceError where it holds no packets."""
    outer = _packets(buffer)
    content = inner(buffer, outer)
    plain = unpacked(buffer, outer, content)
    if plain is not buffer:
        buffer, outer = plain, _packets(plain)
        content = inner(buffer, outer)
    if not len(content):
        raise EvidenceError(buffer.name, "is no Perfetto trace (its packets are empty)")
    return _Reading(buffer, len(outer), content).packets()


def _packets(buffer: Buffer) -> Fields:
    start, stop = np.zeros(1, dtype=np.int64), np.asarray([buffer.length], dtype=np.int64)
    packets = fields(buffer, start, stop).of(_PACKET, BYTES)
    if not len(packets):
        raise EvidenceError(buffer.name, "is no Perfetto trace (it has no packets)")
    return packets


class _Reading:
    """Goes through the packets in their order."""

    def __init__(self, buffer: Buffer, count: int, content: Fields) -> None:
        self.buffer, self.count, self.content = buffer, count, content
        self.sequences: dict[int, Sequence] = {}
        self.interned: dict[tuple[int, int, int], str] = {}
        self.scopes = 0
        self.offsets: dict[int, int] = {}
        """Built-in clock -> what to add to get the trace's time."""

    def packets(self) -> Packets:
        """All events."""
        number = self.content.of
        sequence = number(_SEQUENCE).column(self.count).tolist()
        flags = number(_FLAGS).column(self.count) | number(_CLEARED_BEFORE).column(self.count)
        clock = number(_CLOCK).column(self.count)
        stamp = number(_TIMESTAMP).column(self.count, -1).tolist()
        event = number(_EVENT, BYTES)
        is_event = np.zeros(self.count, dtype=np.bool_)
        is_event[event.owner] = True
        rare = self._rare()
        times, scopes, tracks = [], [], []
        columns = zip(
            sequence, flags.tolist(), clock.tolist(), stamp, is_event.tolist(), strict=True
        )
        for index, (number_of, flag, clock_of, value, has_event) in enumerate(columns):
            state = self.sequences.get(number_of)
            if state is None:
                state = self.sequences[number_of] = Sequence(scope=self._new_scope())
            if flag & _CLEARED:
                # From here on nothing that was interned before is valid.
                state.scope = self._new_scope()
                state.clocks, state.default_clock, state.default_track = {}, 0, 0
            if index in rare:
                for kind, start, stop in rare[index]:
                    self._learn(state, kind, start, stop)
            time = -1
            if value >= 0:
                time = self._time(state, clock_of or state.default_clock, value)
            if has_event:
                times.append(time)
                scopes.append(state.scope)
                tracks.append(state.default_track)
        # The last of several events of a packet counts, as with every field that is no list.
        last = np.append(event.owner[1:] != event.owner[:-1], True) if len(event) else event.owner
        return Packets(
            self.buffer,
            inner(self.buffer, event.where(last.astype(np.bool_))),
            np.asarray(times, dtype=np.int64),
            np.asarray(scopes, dtype=np.int64),
            np.asarray(tracks, dtype=np.uint64).view(np.int64),
            self.interned,
            number(_DESCRIPTOR, BYTES),
            self.offsets.get(-REALTIME, 0),
        )

    def _rare(self) -> dict[int, list[tuple[int, int, int]]]:
        """What changes the state of a sequence, by packet."""
        kinds = (_CLOCKS, _DEFAULTS, _INTERNED)
        rares: dict[int, list[tuple[int, int, int]]] = {}
        for kind in kinds:
            messages = self.content.of(kind, BYTES)
            for packet, start, stop in zip(
                messages.owner.tolist(),
                messages.start.tolist(),
                messages.stop.tolist(),
                strict=True,
            ):
                rares.setdefault(packet, []).append((kind, start, stop))
        return rares

    def _new_scope(self) -> int:
        self.scopes += 1
        return self.scopes

    def _learn(self, state: Sequence, kind: int, start: int, stop: int) -> None:
        if kind == _CLOCKS:
            self._snapshot(state, start, stop)
        elif kind == _DEFAULTS:
            for number, wire, value, end in walk(self.buffer, start, stop):
                if number == _CLOCK and wire == 0:
                    state.default_clock = value
                elif number == _EVENT and wire == BYTES:
                    # 11 is track_uuid.
                    for inside, _, track, _ in walk(self.buffer, value, end):
                        state.default_track = track if inside == 11 else state.default_track
        else:
            for number, wire, value, end in walk(self.buffer, start, stop):
                if wire == BYTES and number in (EVENT_NAMES, CATEGORIES, ANNOTATION_NAMES, TEXTS):
                    self._intern(state.scope, number, value, end)

    def _intern(self, scope: int, kind: int, start: int, stop: int) -> None:
        if len(self.interned) >= MAX_INTERNED:
            self.buffer.dropped[f"interned texts after {MAX_INTERNED}"] = 1
            return
        key, text = 0, ""
        for number, wire, value, end in walk(self.buffer, start, stop):
            if number == 1 and wire == 0:
                key = value
            elif number == 2 and wire == BYTES:
                text = self.buffer.text(value, end, MAX_TEXT)
        self.interned[scope, kind, key] = text

    def _snapshot(self, state: Sequence, start: int, stop: int) -> None:
        """Values of several clocks at one moment."""
        read: dict[int, tuple[int, int, bool]] = {}
        for number, wire, value, end in walk(self.buffer, start, stop):
            if number == 1 and wire == BYTES:
                # A clock's fields: 1 id, 2 value, 3 whether it is incremental, 4 its unit in ns.
                clock = dict.fromkeys((1, 2, 3, 4), 0)
                for inside, kind, field_value, _ in walk(self.buffer, value, end):
                    if kind == 0 and inside in clock:
                        clock[inside] = field_value
                read[clock[1]] = (clock[2], min(clock[4] or 1, 1 << 31), bool(clock[3]))
        now = read.get(BOOTTIME, (None,))[0]
        if now is None:
            # Without the trace's own clock, another of the machine's stands for it.
            now = next((v for key, (v, _, _) in read.items() if 1 < key < FIRST_SEQUENCE_CLOCK), 0)
        for key, (value, unit, counts_on) in read.items():
            if key >= FIRST_SEQUENCE_CLOCK:
                state.clocks[key] = Clock(value, now, unit, counts_on)
            elif key == REALTIME:
                self.offsets.setdefault(-REALTIME, value - now)
            self.offsets.setdefault(key, now - value)

    def _time(self, state: Sequence, clock: int, value: int) -> int:
        if clock < FIRST_SEQUENCE_CLOCK:
            time = value + self.offsets.get(clock, 0)
        elif clock in state.clocks:
            reference = state.clocks[clock]
            passed = (
                value * reference.unit
                if reference.counts_on
                else (value - reference.value) * reference.unit
            )
            time = reference.time + passed
            # An incremental clock counts on from this packet.
            if reference.counts_on:
                state.clocks[clock] = Clock(reference.value, time, reference.unit, True)
        else:
            time = -1
        return time if 0 <= time < 1 << 61 else -1


def texts_at(buffer: Buffer, text_fields: Fields) -> Iterator[str]:
    """The texts of fields of BYTES; equal ones are one object."""
    text_by_content: dict[bytes, str] = {}
    raw = buffer.raw
    for start, stop in zip(text_fields.start.tolist(), text_fields.stop.tolist(), strict=True):
        content = bytes(raw[start : min(stop, start + MAX_TEXT)])
        text = text_by_content.get(content)
        if text is None:
            text = text_by_content[content] = content.decode("utf-8", "replace")
        yield text
