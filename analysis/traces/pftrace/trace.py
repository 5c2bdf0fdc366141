"""Perfetto traces of training jobs as columns: those of rocprofv3, of Kineto, and others whose
track events have the categories of either.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import DEVICE_CATEGORIES, NUMBERS, Int64, TraceColumns
from faultline.analysis.traces.pftrace import packets as packed
from faultline.analysis.traces.pftrace.packets import MAX_TEXT, Packets, packets_of, texts_at
from faultline.analysis.traces.protobuf.wire import (
    BYTES,
    FIXED64,
    Buffer,
    Fields,
    inner,
    read_file,
    walk,
)
from faultline.analysis.traces.reading.assembled import EventPart, Names, assembled
from faultline.analysis.traces.reading.file_kinds import rank_in_name

# Tracks of a Perfetto trace: threads, processes, and the rows of accelerators.
#
# Field numbers: `track_descriptor.proto`, `thread_descriptor.proto`, `process_descriptor.proto`.

MAX_TRACKS = 200_000
MAX_PARENTS = 8
MAX_NAME = 256
"""Bytes of the name of a process or thread."""
_STREAM = re.compile(r"\b(?:STREAM|QUEUE)\b[ #\[]*(\d{1,9})", re.IGNORECASE)
_DEVICE = re.compile(r"\b(?:AGENT|GPU|DEVICE|NPU|XPU)\b[ :#\[]*(\d{1,6})", re.IGNORECASE)


@dataclass(frozen=True)
class Track:
    """One row."""

    name: str = ""
    parent: int = 0
    pid: int = 0
    tid: int = 0
    process: str = ""
    counter: bool = False

    @property
    def stream(self) -> int:
        """The stream that its name gives ("COMPUTE AGENT [4] STREAM [1] (GPU)"); -1 for none."""
        match = _STREAM.search(self.name)
        return int(match[1]) if match else -1

    @property
    def device(self) -> int:
        """The accelerator that its name gives; -1 for none."""
        match = _DEVICE.search(self.name)
        return int(match[1]) if match else -1


class Tracks:
    """All tracks by their numbers."""

    def __init__(self, packets: Packets) -> None:
        self.packets = packets
        self.by_number: dict[int, Track] = {}
        descriptors = packets.descriptors
        for start, stop in zip(descriptors.start.tolist(), descriptors.stop.tolist(), strict=True):
            if len(self.by_number) >= MAX_TRACKS:
                packets.buffer.dropped[f"tracks after {MAX_TRACKS}"] = 1
                break
            self._add(start, stop)

    def lane(self, number: int) -> tuple[str, str]:
        """(process, thread or row) of a track."""
        track = self.by_number.get(number, Track())
        above = track
        # Bound the walk: hostile parents may form a circle.
        for _ in range(MAX_PARENTS):
            if above.pid or above.parent not in self.by_number:
                break
            above = self.by_number[above.parent]
        thread = track.name or (str(track.tid) if track.tid else str(number))
        return str(above.pid) if above.pid else above.process or "trace", thread

    def of(self, number: int) -> Track:
        """A track; one without facts where the file does not describe it."""
        return self.by_number.get(number, Track())

    def _add(self, start: int, stop: int) -> None:
        buffer = self.packets.buffer
        # Field 1 is the track's uuid, field 5 its parent's.
        numbers = {1: 0, 5: 0}
        name, process, pid, tid, counter = "", "", 0, 0, False
        for number, wire, value, end in walk(buffer, start, stop):
            if number in numbers and wire == 0:
                # Numbers of tracks are unsigned; columns hold them signed.
                numbers[number] = value if value < 1 << 63 else value - (1 << 64)
            elif wire != BYTES:
                continue
            elif number in (2, 10):
                name = buffer.text(value, end, MAX_TEXT)
            elif number == 3:
                inside = _last_fields(buffer, value, end, (1, 6))
                pid, _ = inside.get(1, (pid, 0))
                if 6 in inside:
                    process = buffer.text(*inside[6], MAX_NAME)
            elif number == 4:
                inside = _last_fields(buffer, value, end, (1, 2, 5))
                pid, _ = inside.get(1, (pid, 0))
                tid, _ = inside.get(2, (tid, 0))
                if 5 in inside:
                    name = buffer.text(*inside[5], MAX_NAME)
            elif number == 8:
                counter = True
        self.by_number[numbers[1]] = Track(name, numbers[5], pid, tid, process, counter)


def _last_fields(
    buffer: Buffer, start: int, stop: int, numbers: Collection[int]
) -> dict[int, tuple[int, int]]:
    """Of a message, the last value and end of the fields with these numbers."""
    fields = {}
    for number, _, value, end in walk(buffer, start, stop):
        if number in numbers:
            fields[number] = (value, end)
    return fields


FORMAT = "Perfetto trace"
ROCPROF = "rocprofv3's Perfetto trace"
MAX_EVENTS = 20_000_000
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
_TYPE, _NAME_ID, _TRACK, _NAME, _CATEGORY_ID, _CATEGORY, _ANNOTATION = 9, 10, 11, 23, 3, 22, 4
_OF_ROCPROF = {
    "kernel_dispatch": "kernel",
    "memory_copy": "gpu_memcpy",
    "hip_api": "cuda_runtime",
    "hsa_api": "cuda_driver",
    "marker_api": "user_annotation",
    "rccl_api": "cpu_op",
}
"""Categories of rocprofv3 (`generatePerfetto.cpp`) by those of Kineto."""
_ARGUMENTS = {
    "begin_ns": "begin_ns",
    "end_ns": "end_ns",
    "corr_id": "correlation",
    "correlation": "correlation",
    "copy_bytes": "bytes",
    "bytes": "bytes",
    "stream": "stream",
    "device": "device",
}


def read_pftrace(path: Path) -> list[TraceColumns]:
    """The trace of a file, in a list. Raises EvidenceError, one line, when the file is no Perfetto
    trace or has no slices."""
    buffer = read_file(path)
    packets = packets_of(buffer)
    if packets.count > MAX_EVENTS:
        raise EvidenceError(buffer.name, f"has over {MAX_EVENTS:,} track events")
    trace = _Slices(packets).trace()
    rank = rank_in_name(path)
    return [trace if rank is None else replace(trace, rank=rank, rank_source="file name")]


class _Slices:
    """Beginnings and ends of slices, matched."""

    def __init__(self, packets: Packets) -> None:
        self.packets, self.tracks = packets, Tracks(packets)
        self.names = Names()
        self.skipped: Counter[str] = Counter()
        self.exact: dict[str, Int64] = {}
        """Times among the annotations, which a float would round."""
        count = packets.count
        event = packets.event
        self.kind = event.of(_TYPE).column(count)
        self.track = packets.track.copy()
        track_fields = event.of(_TRACK)
        self.track[track_fields.owner] = track_fields.signed
        self.name = self._texts(_NAME_ID, _NAME, packed.EVENT_NAMES)
        self.category = self._texts(_CATEGORY_ID, _CATEGORY, packed.CATEGORIES)
        self.arguments = self._annotations(event.of(_ANNOTATION, BYTES))

    def trace(self) -> TraceColumns:
        """All slices as columns."""
        begin, start, end = self._matched()
        for kind, word in ((INSTANT, "instants"), (COUNTER, "counters")):
            self.skipped[word] += int((self.kind == kind).sum())
        if not len(begin):
            raise EvidenceError(self.packets.buffer.name, "holds no slices of a training job")
        categories = [self.category[i] for i in begin.tolist()]
        parts = self._parts(begin, start, end, categories)
        base = self.packets.since_1970
        # A hostile base would overflow the times.
        base = base if 0 <= base < 1 << 61 else 0
        return assembled(
            parts,
            self.names,
            file=self.packets.buffer.name,
            rank=0,
            base=base,
            header={"baseTimeNanoseconds": base} if base else {},
            dropped=self.packets.buffer.dropped,
            skipped={word: number for word, number in self.skipped.items() if number},
            format=ROCPROF if set(categories) & set(_OF_ROCPROF) else FORMAT,
        )

    def _matched(self) -> tuple[Int64, Int64, Int64]:
        """Events that begin slices, and when these start and end. A slice ends with the innermost
        one of its track that is open; one that never ends is dropped."""
        time = self.packets.time
        dropped = self.packets.buffer.dropped
        # rocprofv3 writes both ends beside the beginning, in the order of its own records.
        unknown = np.full(len(time), -1, dtype=np.int64)
        starts, ends = self.exact.get("begin_ns", unknown), self.exact.get("end_ns", unknown)
        whole = np.flatnonzero((self.kind == BEGIN) & (starts >= 0) & (ends >= 0))
        # Tracks whose slices carry both ends need no pairing.
        finished = np.isin(self.track, np.unique(self.track[whole]))
        by_pairs = (time >= 0) & ((self.kind == BEGIN) | (self.kind == END)) & ~finished
        rows = np.flatnonzero(by_pairs)
        rows = rows[np.lexsort((time[rows], self.track[rows]))]
        begun: list[int] = []
        closed: list[int] = []
        open_rows: list[int] = []
        at = None
        unended = 0
        for row, track, is_begin in zip(
            rows.tolist(),
            self.track[rows].tolist(),
            (self.kind[rows] == BEGIN).tolist(),
            strict=True,
        ):
            if track != at:
                at, unended, open_rows = track, unended + len(open_rows), []
            if is_begin:
                open_rows.append(row)
            elif open_rows:
                begun.append(open_rows.pop())
                closed.append(row)
        unended += len(open_rows)
        if unended:
            dropped["slices without an end"] += unended
        without_time = int(((self.kind == BEGIN) & (time < 0) & ~finished).sum())
        if without_time:
            dropped["events with no readable time"] += without_time
        opened = np.asarray(begun, dtype=np.int64)
        start = np.concatenate((time[opened], starts[whole]))
        stop = np.concatenate((time[np.asarray(closed, dtype=np.int64)], ends[whole]))
        begin = np.concatenate((opened, whole))
        order = np.argsort(start, kind="stable")
        return begin[order], start[order], stop[order]

    def _parts(
        self, begin: Int64, start: Int64, end: Int64, categories: Sequence[str]
    ) -> list[EventPart]:
        """One part per track and category."""
        tracks, of_track = np.unique(self.track[begin], return_inverse=True)
        kinds = sorted(set(categories))
        place = {kind: i for i, kind in enumerate(kinds)}
        of_kind = np.asarray([place[c] for c in categories], dtype=np.int64)
        group = of_track * len(kinds) + of_kind
        order = np.argsort(group, kind="stable")
        edges = np.flatnonzero(np.diff(group[order], prepend=-1, append=-1))
        parts = []
        for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            rows = order[first:last]
            number, kind = divmod(int(group[rows[0]]), len(kinds))
            parts.append(
                self._part(int(tracks[number]), kinds[kind], begin[rows], start[rows], end[rows])
            )
        return parts

    def _part(
        self, number: int, category: str, begin: Int64, start: Int64, end: Int64
    ) -> EventPart:
        track = self.tracks.of(number)
        kind = _OF_ROCPROF.get(category, category or "cpu_op")
        numbers = {}
        for key, values in self.arguments.items():
            part_values = values[begin]
            if key in NUMBERS and not np.isnan(part_values).all():
                numbers[key] = part_values
        on_device = kind.lower() in DEVICE_CATEGORIES
        if on_device and track.device >= 0 and "device" not in numbers:
            numbers["device"] = np.full(len(begin), float(track.device))
        if kind == "gpu_memcpy" and "bytes" in numbers:
            # Bytes per ns are GB/s.
            numbers["memory bandwidth (GB/s)"] = numbers["bytes"] / np.maximum(end - start, 1)
        correlation = self.arguments.get("correlation")
        linked = None
        if correlation is not None:
            linked = np.nan_to_num(correlation[begin], nan=-1).astype(np.int64)
        return EventPart(
            category=kind,
            lane=self.tracks.lane(number),
            start=start,
            end=end,
            name=self.names.numbers([self.name[i] for i in begin.tolist()]),
            stream=self._stream(track, begin) if on_device else -1,
            correlation=linked,
            numbers=numbers,
        )

    def _stream(self, track: Track, begin: Int64) -> int:
        """The stream that the first event names, else the one of its track; -1 for none."""
        streams = self.arguments.get("stream")
        if streams is not None and len(begin) and 0 <= streams[begin[0]] < 1 << 30:
            return int(streams[begin[0]])
        return track.stream

    def _texts(self, by_number: int, itself: int, kind: int) -> list[str]:
        """A text of each event: interned, or as it stands; the first of several."""
        packets = self.packets
        text_by_owner = [""] * packets.count
        text_fields = packets.event.of(itself, BYTES)
        for owner, text in zip(
            text_fields.owner.tolist(), texts_at(packets.buffer, text_fields), strict=True
        ):
            text_by_owner[owner] = text_by_owner[owner] or text
        numbers = packets.event.of(by_number)
        scopes = packets.scope[numbers.owner].tolist()
        for owner, scope, key in zip(
            numbers.owner.tolist(), scopes, numbers.value.tolist(), strict=True
        ):
            text_by_owner[owner] = text_by_owner[owner] or packets.interned.get(
                (scope, kind, key), ""
            )
        return text_by_owner

    def _annotations(self, outer: Fields) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
        """Numeric annotations that are kept, by name: one value per event."""
        packets = self.packets
        content = inner(packets.buffer, outer)
        labels = [""] * len(outer)
        # A name stands in full in field 10, or as the id of an interned one in field 1.
        label_fields = content.of(10, BYTES)
        for owner, text in zip(
            label_fields.owner.tolist(), texts_at(packets.buffer, label_fields), strict=True
        ):
            labels[owner] = text
        numbers = content.of(1)
        scopes = packets.scope[outer.owner[numbers.owner]].tolist()
        for owner, scope, key in zip(
            numbers.owner.tolist(), scopes, numbers.value.tolist(), strict=True
        ):
            labels[owner] = packets.interned.get((scope, packed.ANNOTATION_NAMES, key), "")
        arguments = sorted({_argument(label) for label in set(labels)} - {""})
        kinds = {name: i for i, name in enumerate(arguments)}
        of_label = {label: kinds.get(_argument(label), -1) for label in set(labels)}
        which = np.asarray([of_label[label] for label in labels], dtype=np.int64)
        values_by_name = {name: np.full(packets.count, np.nan) for name in arguments}
        # Values: 3 is unsigned, 4 signed, 5 a double.
        for number, wire in ((3, 0), (4, 0), (5, FIXED64)):
            values = content.of(number, wire)
            doubles = values.doubles if wire == FIXED64 else values.signed.astype(np.float64)
            for name, i in kinds.items():
                mine = which[values.owner] == i
                events = outer.owner[values.owner[mine]]
                values_by_name[name][events] = doubles[mine]
                if name in ("begin_ns", "end_ns") and wire != FIXED64:
                    column = self.exact.setdefault(name, np.full(packets.count, -1, dtype=np.int64))
                    column[events] = values.signed[mine]
        return values_by_name


def _argument(label: str) -> str:
    return _ARGUMENTS.get(label, label if label in NUMBERS else "")
