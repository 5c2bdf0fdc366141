"""XPlane files (`*.xplane.pb`): planes, lines and events as they lie in the file.

Field numbers and names of statistics: `xplane.proto` and `xplane_schema.cc` of openxla/xla.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Int32, Int64
from faultline.analysis.traces.protobuf.wire import (
    BYTES,
    FIXED64,
    Buffer,
    Fields,
    fields,
    inner,
    whole,
)
from faultline.analysis.traces.reading.assembled import Words

MAX_PLANES = 4_096
MAX_LINES = 20_000
MAX_TEXT = 4_096
MAX_EVENTS = 10_000_000
"""Of a file (own): their columns take 1 GB."""
CHUNK = 1 << 18
"""Events of a line that are decoded together: their fields take 50 MB."""
STATISTIC_NAMES = (
    "step_num",
    "correlation_id",
    "hlo_category",
    "hlo_op",
    "kernel_details",
    "memcpy_details",
    "Memset_details",
    "flops",
    "bytes_accessed",
)
"""Statistics of events that are read."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of events by name: each a number or a text for some of the events."""

    numbers: Mapping[str, tuple[Int64, Int64]] = field(default_factory=dict)
    """Indices of events, values."""
    texts: Mapping[str, tuple[Int64, Int32, tuple[str, ...]]] = field(default_factory=dict)
    """Indices of events, indices of words, words."""

    def number(self, name: str, count: int, default: int = -1) -> Int64:
        """One number per event."""
        number = np.full(count, default, dtype=np.int64)
        if name in self.numbers:
            rows, values = self.numbers[name]
            number[rows] = values
        return number

    def text(self, name: str, count: int) -> Words:
        """One text per event."""
        ids = np.full(count, -1, dtype=np.int32)
        if name not in self.texts:
            return ids, ()
        rows, places, words = self.texts[name]
        ids[rows] = places
        return ids, words


@dataclass(frozen=True)
class Line:
    """A thread, a stream, or a row of derived events."""

    name: str
    number: int
    start_ns: Int64
    """From the start of the profile, or since 1970."""
    end_ns: Int64
    metadata: Int64
    """Ids in the plane's `event_names`."""
    statistics: Statistics


@dataclass(frozen=True)
class Plane:
    """A device, the host's threads, or facts about the run."""

    buffer: Buffer
    name: str
    content: Fields

    @cached_property
    def stat_names(self) -> dict[int, str]:
        """Names of statistics by id."""
        return {key: name for key, (name, _) in self._named(5).items()}

    @cached_property
    def event_names(self) -> dict[int, str]:
        """Names of events by id; the short one where there are two."""
        return {key: shown or name for key, (name, shown) in self._named(4).items()}

    @cached_property
    def event_statistics(self) -> tuple[list[int], Statistics]:
        """What is the same for all events of an id: the ids, and statistics by their place."""
        keys, values = self._map(4)
        described = inner(self.buffer, values)
        stats = described.of(5, BYTES)
        return keys, self._statistics(stats)

    @cached_property
    def statistics(self) -> dict[str, int | str]:
        """The plane's own."""
        outer = self.content.of(6, BYTES)
        # All of these statistics belong to the plane: give them one owner.
        outer = Fields(
            np.zeros_like(outer.owner), outer.number, outer.kind, outer.value, outer.stop
        )
        words_by_name: dict[str, int | str] = {}
        read = self._statistics(outer, None)
        for name, (_, values) in read.numbers.items():
            words_by_name[name] = int(values[-1])
        for name, (_, ids, words) in read.texts.items():
            words_by_name[name] = words[int(ids[-1])]
        return words_by_name

    @property
    def lines(self) -> Iterator[Line]:
        """All lines with events. Raises EvidenceError where there are too many."""
        outer = self.content.of(3, BYTES)
        if len(outer) > MAX_LINES:
            raise EvidenceError(self.buffer.name, f"has over {MAX_LINES:,} lines in a plane")
        return (self._line(outer, i) for i in range(len(outer)))

    def _line(self, outer: Fields, index: int) -> Line:
        content = fields(self.buffer, outer.start[index : index + 1], outer.stop[index : index + 1])
        number, zero = _last(content.of(1)), _last(content.of(3))
        # Field 11 is the display name, field 2 the name.
        name = _text(self.buffer, content.of(11, BYTES)) or _text(self.buffer, content.of(2, BYTES))
        events = content.of(4, BYTES)
        left = MAX_EVENTS - self.buffer.counts["events"]
        if len(events) > left:
            self.buffer.dropped[f"events after {MAX_EVENTS:,}"] += len(events) - left
            events = events.where(np.arange(left))
        self.buffer.counts["events"] += len(events)
        chunks = []
        for first in range(0, len(events), CHUNK):
            rows = np.arange(first, min(first + CHUNK, len(events)))
            chunks.append(self._events(events.where(rows), zero))
        return Line(
            name,
            number,
            _joined([start for start, _, _, _ in chunks]),
            _joined([end for _, end, _, _ in chunks]),
            _joined([metadata for _, _, metadata, _ in chunks]),
            _together([statistics for _, _, _, statistics in chunks]),
        )

    def _events(self, events: Fields, zero: int) -> tuple[Int64, Int64, Int64, Statistics]:
        """Starts, ends, ids of metadata and statistics."""
        count = len(events)
        described = inner(self.buffer, events)
        # Starts and ends are rounded down alike, so that nested events stay nested.
        begin = described.of(2).column(count)
        length = np.maximum(described.of(3).column(count), 0)
        # Times that would leave 64 bits are dropped with those that are negative.
        wild = (begin < 0) | (begin > 1 << 61) | (length > 1 << 61) | (abs(zero) > 1 << 61)
        # Offsets and lengths are in picoseconds.
        start = np.where(wild, -1, zero + begin // 1000)
        end = np.where(wild, -1, zero + (begin + length) // 1000)
        statistics = self._statistics(described.of(4, BYTES))
        return start, end, described.of(1).column(count), statistics

    def _map(self, number: int) -> tuple[list[int], Fields]:
        """Keys and values of a map."""
        entries = self.content.of(number, BYTES)
        pairs = inner(self.buffer, entries)
        values = pairs.of(2, BYTES)
        keys = pairs.of(1).column(len(entries))
        return keys[values.owner].tolist(), values

    def _named(self, number: int) -> dict[int, tuple[str, str]]:
        """(name, display name) by id."""
        keys, values = self._map(number)
        described = inner(self.buffer, values)
        names, shown = [""] * len(keys), [""] * len(keys)
        for texts, place in ((names, 2), (shown, 4)):
            name_fields = described.of(place, BYTES)
            for owner, start, stop in zip(
                name_fields.owner.tolist(),
                name_fields.start.tolist(),
                name_fields.stop.tolist(),
                strict=True,
            ):
                texts[owner] = self.buffer.text(start, stop, MAX_TEXT)
        return dict(zip(keys, zip(names, shown, strict=True), strict=True))

    def _statistics(
        self, outer: Fields, statistic_names: tuple[str, ...] | None = STATISTIC_NAMES
    ) -> Statistics:
        """Statistics (of BYTES); the owner is the event's index. `statistic_names` None: all."""
        described = inner(self.buffer, outer)
        kind_of = described.of(1).column(len(outer))
        numbers: dict[str, tuple[Int64, Int64]] = {}
        texts: dict[str, tuple[Int64, Int32, tuple[str, ...]]] = {}
        for key, name in self.stat_names.items():
            if statistic_names is not None and name not in statistic_names:
                continue
            statistic = described.where(kind_of[described.owner] == key)
            # Values: 2 is a double, 3 and 4 whole numbers, 5 a text, 7 a reference to a name.
            values = statistic.where(
                ((statistic.number == 3) | (statistic.number == 4)) & (statistic.kind == 0)
            )
            doubles = statistic.of(2, FIXED64)
            if len(values):
                numbers[name] = (outer.owner[values.owner], values.signed)
            elif len(doubles):
                whole_numbers = np.nan_to_num(doubles.doubles, nan=0, posinf=0, neginf=0)
                numbers[name] = (
                    outer.owner[doubles.owner],
                    np.clip(whole_numbers, -(2**62), 2**62).astype(np.int64),
                )
            text_fields = statistic.where((statistic.number == 5) | (statistic.number == 7))
            if len(text_fields):
                texts[name] = (outer.owner[text_fields.owner], *self._words(text_fields))
        return Statistics(numbers, texts)

    def _words(self, text_fields: Fields) -> Words:
        """Texts as they stand, and those that refer to the name of a statistic."""
        id_by_text: dict[bytes | int, int] = {}
        ids = []
        raw = self.buffer.raw
        for kind, value, stop in zip(
            text_fields.kind.tolist(),
            text_fields.value.tolist(),
            text_fields.stop.tolist(),
            strict=True,
        ):
            if kind == BYTES:
                key: bytes | int = bytes(raw[value : min(stop, value + MAX_TEXT)])
            else:
                key = value
            ids.append(id_by_text.setdefault(key, len(id_by_text)))
        words = []
        for key in id_by_text:
            if isinstance(key, bytes):
                words.append(key.decode("utf-8", "replace"))
            else:
                words.append(self.stat_names.get(key, ""))
        return np.asarray(ids, dtype=np.int32), tuple(words)


def _joined(columns: list[Int64]) -> Int64:
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)


def _together(chunks: list[Statistics]) -> Statistics:
    """The statistics of all chunks of a line."""
    numbers: dict[str, list[tuple[Int64, Int64]]] = {}
    texts: dict[str, list[tuple[Int64, Int32]]] = {}
    words: dict[str, dict[str, int]] = {}
    for place, chunk in enumerate(chunks):
        # Every chunk but the last is full, so its place gives its first row.
        first = place * CHUNK
        for name, (rows, values) in chunk.numbers.items():
            numbers.setdefault(name, []).append((rows + first, values))
        for name, (rows, ids, chunk_words) in chunk.texts.items():
            word = words.setdefault(name, {})
            table = np.asarray([word.setdefault(w, len(word)) for w in chunk_words], dtype=np.int32)
            texts.setdefault(name, []).append((rows + first, table[ids]))
    joined = {}
    for name, parts in numbers.items():
        joined[name] = (_joined([r for r, _ in parts]), _joined([v for _, v in parts]))
    spoken = {}
    for name, text in texts.items():
        ids = np.concatenate([i for _, i in text])
        spoken[name] = (_joined([r for r, _ in text]), ids, tuple(words[name]))
    return Statistics(joined, spoken)


@dataclass(frozen=True)
class Space:
    """A whole file."""

    planes: tuple[Plane, ...]
    hostname: str


def space_of(buffer: Buffer) -> Space:
    """The planes of a file. Raises EvidenceError where it has none."""
    outer = whole(buffer)
    planes = outer.of(1, BYTES)
    if len(planes) > MAX_PLANES:
        raise EvidenceError(buffer.name, f"has over {MAX_PLANES:,} planes")
    named_planes = []
    for i in range(len(planes)):
        content = fields(buffer, planes.start[i : i + 1], planes.stop[i : i + 1])
        name = _text(buffer, content.of(2, BYTES))
        if name:
            named_planes.append(Plane(buffer, name, content))
    if not named_planes:
        raise EvidenceError(buffer.name, "is no XPlane file (it has no named planes)")
    return Space(tuple(named_planes), _text(buffer, outer.of(4, BYTES)))


def _text(buffer: Buffer, text_fields: Fields) -> str:
    if not len(text_fields):
        return ""
    return buffer.text(int(text_fields.start[-1]), int(text_fields.stop[-1]), MAX_TEXT)


def _last(number_fields: Fields) -> int:
    return int(number_fields.signed[-1]) if len(number_fields) else 0
