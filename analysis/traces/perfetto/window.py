"""A cropped trace: the events of a window as a document small enough for a page to hand to
Perfetto.

Everything that overlaps the window is in it as the file has it, with all names of processes and
threads. Where that is too large the shortest events go first, python functions before all others,
and the document says how many.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.perfetto.augmented import SEPARATOR, time_base
from faultline.analysis.traces.reading.kineto import nanoseconds
from faultline.analysis.traces.reading.raw_events import RawEvents

MAX_DOCUMENT_BYTES = 20_000_000
"""Perfetto opens it within seconds; a page of the same size can be sent."""
EXTRAS_SHARE = 0.25
"""Most of the document that may go to names of processes and threads, and as much to arrows,
instants, counters."""
MAX_METADATA_BYTES = 100_000
"""Longest value beside the list of events that is taken along."""
FIRST_TO_GO = "python_function"


class _Other(msgspec.Struct):
    ph: str = ""
    ts: msgspec.Raw = msgspec.Raw()


_OTHER = msgspec.json.Decoder(_Other)


@dataclass(frozen=True)
class WindowDocument:
    """A trace document in Chrome JSON."""

    content: bytes
    events: int
    cut: dict[str, int]
    """Events of the window that are not in it, by category ("" for others than intervals)."""

    @property
    def note(self) -> str:
        """What is not in it, in words; "" where all is."""
        if not self.cut:
            return ""
        parts = [
            f"{count:,} of {category or 'marks and arrows'}"
            for category, count in sorted(self.cut.items())
        ]
        return f"left out to keep the document small: {', '.join(parts)}"


def perfetto_window(
    source: Path, trace: TraceColumns, begin: int, end: int, max_bytes: int = MAX_DOCUMENT_BYTES
) -> WindowDocument:
    """The raw events that overlap [begin, end) (ns since the epoch) of the file that `trace` was
    read from.

    Reads the file once, twice where the window is larger than the document may be; never holds more
    than the document. Raises EvidenceError when the file cannot be read.
    """
    # An event without length counts where it starts.
    inside = (trace.ts < end) & ((trace.end > begin) | ((trace.dur == 0) & (trace.ts >= begin)))
    head, tail = _around(trace)
    # 512 bytes are for the note, which is known only at the end.
    room = max(max_bytes - len(head) - len(tail) - 512, 0)
    rows = np.flatnonzero(inside)
    chosen = _Choice(trace, rows, begin, end, room)
    sizes = chosen.read(source)
    if sizes is not None:
        rows = _fitting(trace, rows, sizes, room - chosen.other_bytes)
        chosen = _Choice(trace, rows, begin, end, room)
        chosen.read(source)
    lost = np.setdiff1d(np.flatnonzero(inside), rows)
    cut = Counter(trace.category_of(row) for row in lost.tolist())
    cut[""] += chosen.extras_lost
    counts = {category: count for category, count in cut.items() if count}
    note = WindowDocument(b"", 0, counts).note
    text = head + SEPARATOR.join(chosen.texts) + tail.replace(b'"NOTE"', json.dumps(note).encode())
    return WindowDocument(text, len(chosen.texts), counts)


def _around(trace: TraceColumns) -> tuple[bytes, bytes]:
    """What stands before and after the events: the file's own short values beside its list."""
    values: dict[str, Any] = {}
    for key, value in trace.header.items():
        try:
            if (
                key != "traceEvents"
                and len(json.dumps(value)) <= MAX_METADATA_BYTES
                and len(values) < 100
            ):
                values[str(key)] = value
        except (ValueError, RecursionError):
            continue
    values |= {"croppedBy": "Faultline", "cropped": "NOTE"}
    text = json.dumps(values).encode()
    return b'{"traceEvents": [\n  ', b"\n]," + text[1:]


class _Choice:
    """The raw events of some rows, and of all in the window that are no intervals."""

    def __init__(self, trace: TraceColumns, rows: Int64, begin: int, end: int, room: int) -> None:
        self._room, self._base = room, time_base(trace)
        self._begin, self._end = begin, end
        last = int(trace.event.max()) + 1 if len(trace) else 0
        self._interval: Bool = np.zeros(last, dtype=np.bool_)
        self._interval[trace.event] = True
        self._place = np.full(last, -1, dtype=np.int64)
        self._place[trace.event[rows]] = np.arange(len(rows))
        self._count = len(rows)
        self.texts: list[bytes] = []
        self._extra_bytes = {True: 0, False: 0}
        self.extras_lost = 0

    def read(self, source: Path) -> Int64 | None:
        """Fill `texts`; where they would be larger than the room, give the size of every row's
        event instead."""
        sizes = np.zeros(self._count, dtype=np.int64)
        used, too_large = 0, False
        for block in RawEvents(source).blocks():
            first, last = block.first, block.first + len(block)
            place = self._place[first:last]
            interval = np.zeros(len(block), dtype=np.bool_)
            interval[: len(place)] = self._interval[first:last]
            indexes = np.flatnonzero(~interval)
            indexes = np.union1d(indexes, np.flatnonzero(place >= 0))
            for i in indexes.tolist():
                raw = bytes(block.events[i])
                size = len(raw) + len(SEPARATOR)
                if interval[i]:
                    sizes[place[i]] = size
                elif not self._takes(raw, size):
                    continue
                used += size
                too_large |= used > self._room
                if too_large:
                    # Too large already: read on only to learn the sizes.
                    self.texts.clear()
                else:
                    self.texts.append(raw)
        return sizes if too_large else None

    @property
    def other_bytes(self) -> int:
        """Size of all that are no intervals."""
        return sum(self._extra_bytes.values())

    def _takes(self, raw: bytes, size: int) -> bool:
        """Whether an event that is no interval is to be in the document, and there is room for
        it."""
        try:
            other = _OTHER.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return False
        names = other.ph == "M"
        if not names:
            # An interval without a row could not be read.
            time = nanoseconds(bytes(other.ts)) if other.ph != "X" else None
            if time is None or not self._begin <= time + self._base < self._end:
                return False
        if self._extra_bytes[names] + size > self._room * EXTRAS_SHARE:
            self.extras_lost += 1
            return False
        self._extra_bytes[names] += size
        return True


def _fitting(trace: TraceColumns, rows: Int64, sizes: Int64, room: int) -> Int64:
    """The rows that fit: the longest events first, python functions last."""
    python = trace.in_category(FIRST_TO_GO)[rows]
    order = np.lexsort((-trace.dur[rows], python))
    fits = np.cumsum(sizes[order]) <= max(room, 0)
    return np.sort(rows[order[fits]])
