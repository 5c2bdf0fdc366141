"""Events of a Chrome JSON trace from blocks of bytes: finds the list of events and hands it to a
lane.

A lane reads whole events from a buffer that is used again and again. What it cannot read is looked
at here, one event at a time: where only a bare NaN or N/A makes it invalid it is given back to the
lane, otherwise it is dropped and counted, and reading goes on where the next event seems to begin.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import ALIASES, NUMBERS, TEXTS
from faultline.analysis.traces.reading.json_tokens import (
    MAX_DEPTH,
    STRICT,
    depth,
    looks_cut,
    without_bare_words,
)

# What a scan of a trace file gives, before its text is decoded: the meeting point of the compiled
# and the Python lane.
#
# Text is kept as the bytes of JSON values; equal texts may stand twice where the file writes them
# differently.

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]

LINKS = ("stream", "correlation", "external_id", "python_id", "python_parent_id")
LINK_KEYS = {
    "stream": "stream",
    "correlation": "correlation",
    "correlation_id": "correlation",
    "connection_id": "correlation",
    "External id": "external_id",
    "external id": "external_id",
    "Python id": "python_id",
    "Python parent id": "python_parent_id",
}
MEMORY_KEYS = ("Addr", "Bytes", "Total Allocated", "Total Reserved", "Device Type", "Device Id")
# 0 is no address and no change of size; -1 stands for unknown.
MEMORY_UNKNOWN = (0, 0, -1, -1, -1, -1)


@dataclass(frozen=True)
class ScanLimits:
    """How much of a trace is kept. What goes beyond is counted in `dropped`."""

    events: int = 20_000_000
    """Intervals and allocator events: 52 to 92 bytes each."""
    arguments: int = 60_000_000
    """Values of rare arguments: 8 to 12 bytes each."""
    text_bytes: int = 256 << 20
    """All distinct names, categories, lanes and texts of arguments together."""
    names: int = 1_000_000
    categories: int = 10_000
    lanes: int = 200_000
    handles: int = 100_000
    counters: int = 10_000
    texts: int = 1_000_000
    """Distinct texts of one argument."""
    labels: int = 200_000
    label_bytes: int = 32 << 20
    """Distinct names of threads and labels of processes."""


@dataclass(frozen=True)
class LaneLabel:
    """A metadata event that names a thread ("t"), labels a process ("p") or names it ("n"): the
    bytes of its pid, tid and arguments."""

    kind: Literal["t", "p", "n"]
    pid: bytes
    tid: bytes
    args: bytes


@dataclass(frozen=True)
class Scanned:
    """All that was kept. Rows of `numbers`, `texts` and `counters` ascend."""

    ts: Int64
    """ns, without the trace's base."""
    dur: Int64
    event: Int64
    offset: Int64
    name: Int32
    category: Int32
    lane: Int32
    links: Mapping[str, Int64]
    """By name in LINKS; without those that no event has. Streams that are handles: 2**30 + index
    into `handles`."""
    names: list[bytes]
    categories: list[bytes]
    lanes: list[tuple[bytes, bytes]]
    handles: list[bytes]
    numbers: Mapping[str, tuple[Int32, Float64]]
    texts: Mapping[str, tuple[Int32, Int32, list[bytes]]]
    counters: tuple[Int32, Int32, Float64, list[bytes]]
    """Rows, indices into the list of names, values (NaN for none) of all arguments of counter
    events; a row may hold a name twice, then the last counts."""
    memory: Int64
    """Shape (events, 7): ts and MEMORY_KEYS."""
    labels: list[LaneLabel]
    skipped: Mapping[str, int]
    dropped: Mapping[str, int]


Outcome = Literal["more", "end", "odd", "full"]
"""Why a lane stopped: it needs more text, the list ended, it cannot read the event at hand, enough
was kept."""


class ScanLane(Protocol):
    """Takes events from text."""

    def feed(self, buffer: bytearray, start: int, end: int, offset: int) -> tuple[Outcome, int]:
        """Read events from buffer[start:end], which begins between two events and at byte `offset`
        of the file.

        Returns why it stopped and how many bytes were read.
        """
        ...

    def finish(self) -> Scanned:
        """What was kept; the lane is used up."""
        ...


@dataclass(frozen=True)
class Spelling:
    """One spelling of an argument that is kept."""

    key: str
    argument: str
    kind: Literal["link", "number", "text", "memory"]


def spellings() -> list[Spelling]:
    """All arguments that are kept, in all spellings."""
    names = dict.fromkeys(NUMBERS, "number") | dict.fromkeys(TEXTS, "text")
    all_spellings = [Spelling(key, argument, "link") for key, argument in LINK_KEYS.items()]
    all_spellings += [Spelling(key, key, kind) for key, kind in names.items()]  # type: ignore[arg-type]
    all_spellings += [Spelling(key, name, names[name]) for key, name in ALIASES.items()]  # type: ignore[arg-type]
    return all_spellings + [Spelling(key, key, "memory") for key in MEMORY_KEYS]


def lost_reasons() -> tuple[str, ...]:
    """What events and arguments were dropped for, in the order of the compiled scanner's counts."""
    return (
        "events with no readable time",
        "events with no duration",
        "events with a negative duration",
        "events with a new name, category or lane after too many",
        "arguments after too many",
        "names of threads and processes after too many",
    )


def split_pair(lane: bytes) -> tuple[bytes, bytes]:
    """(pid, tid) of an interned lane: four bytes with the length of the pid, the pid, the tid."""
    pid = 4 + int.from_bytes(lane[:4], "little")
    return lane[4:pid], lane[pid:]


def split_label(label: bytes) -> LaneLabel:
    """An interned label: one byte with the kind, then each part after four bytes with its
    length."""
    parts, at = [], 1
    # The parts are pid, tid and arguments.
    for _ in range(3):
        stop = at + 4 + int.from_bytes(label[at : at + 4], "little")
        parts.append(label[at + 4 : stop])
        at = stop
    kinds: dict[bytes, Literal["t", "p", "n"]] = {b"t": "t", b"p": "p", b"n": "n"}
    return LaneLabel(kinds[label[:1]], *parts)


MAX_HEADER_BYTES = 16 << 20
"""How far to look for the list of events, and how much of what stands behind it is kept."""
MAX_EVENT_BYTES = 16 << 20
"""Longest event that is read."""
MAX_WASTED_BYTES, FAILURE_BYTES = 192 << 20, 256
"""How much text may be read without an event before a file is abandoned, a failure counting as
so much more: bounds the time a hostile file takes to some 10 s, and lets 300,000 damaged events
pass."""
FIRST_WINDOW = 1 << 10
"""How much of an odd event is looked at first; eight times as much each time that does not
suffice."""
FIRST_BUFFER = 1 << 16
INVALID = "events that are not valid JSON"

_LIST_OPENS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:ph|name|cat|args|pid|tid|ts|dur|id|bp|s)"\s*:)')


class EventScanner:
    """Feeds a lane from blocks; `header` and `trailer` hold what surrounds the list of events."""

    def __init__(self, lane: ScanLane, dropped: Counter[str]) -> None:
        self.header = b""
        self.trailer = b""
        self.has_events = False
        self.bare = False
        """Whether the file is a list of events and nothing else."""
        self.full = False
        self._lane = lane
        self._dropped = dropped
        self._buffer = bytearray(FIRST_BUFFER)
        self._start = self._end = 0
        self._offset = 0
        self._min_bytes = 1
        self._ended = False
        self._wasted = 0
        self._cut = False

    def read(self, blocks: Iterable[bytes | memoryview]) -> None:
        """Read all events that can be read. `has_events` tells afterwards whether there was a list
        of events."""
        for block in blocks:
            if self._ended:
                self._keep_trailer(block)
                continue
            self._append(block)
            if not self.has_events and not self._open_list():
                if self._end > MAX_HEADER_BYTES:
                    return
                continue
            if self._end - self._start >= self._min_bytes:
                self._take(final=False)
            if self.full:
                return
        if self.has_events and not self._ended:
            self._take(final=True)

    @property
    def beginning(self) -> bytes:
        """The file's first bytes, where no list of events was found in it."""
        return bytes(self._buffer[: min(self._end, FIRST_BUFFER)])

    def _append(self, block: bytes | memoryview) -> None:
        pending = self._end - self._start
        if self._start:
            self._buffer[:pending] = self._buffer[self._start : self._end]
            self._start, self._end = 0, pending
        if pending + len(block) > len(self._buffer):
            # At least double it: growing by single blocks would copy everything each time.
            self._buffer.extend(
                bytes(max(len(self._buffer), pending + len(block) - len(self._buffer)))
            )
        self._buffer[pending : pending + len(block)] = block
        self._end = pending + len(block)

    def _open_list(self) -> bool:
        head = bytes(self._buffer[: min(self._end, 4096)])
        # A file may begin with a byte order mark.
        text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
        opened = _LIST_OPENS.search(self._buffer, 0, self._end)
        if text.startswith(b"["):
            self._advance(len(head) - len(text) + 1)
            self.has_events = self.bare = True
        elif opened:
            self.header = bytes(self._buffer[: opened.start()])
            self._advance(opened.end())
            self.has_events = True
        return self.has_events

    def _advance(self, count: int) -> None:
        self._start += count
        self._offset += count

    def _take(self, *, final: bool) -> None:
        while True:
            outcome, used = self._lane.feed(self._buffer, self._start, self._end, self._offset)
            self._advance(used)
            left = self._end - self._start
            if outcome == "end":
                self._ended = True
                self._keep_trailer(bytes(self._buffer[self._start : self._end]))
                return
            if outcome == "full":
                self.full = self._ended = True
                return
            if left == 0 and final and not self._cut:
                self._dropped["end of the file: the list of events is not closed"] += 1
            if left == 0 or (outcome == "more" and not final and left < MAX_EVENT_BYTES):
                # Wait for twice as much: else a long event is scanned again with every block.
                self._min_bytes = max(1, 2 * left)
                return
            if not self._repair(final=final):
                self._min_bytes = 2 * left
                return
            if self._wasted > MAX_WASTED_BYTES:
                self._dropped["rest of the file: too many unreadable events"] += 1
                self._ended = True
                return

    def _repair(self, *, final: bool) -> bool:
        """Take or drop the event at hand; False where that needs more text."""
        limit = min(self._end, self._start + MAX_EVENT_BYTES)
        whole = limit < self._end or limit - self._start == MAX_EVENT_BYTES or final
        text, length = self._valid(limit, final=final and limit == self._end)
        if length is None and not whole:
            return False
        if text is not None and length:
            piece = bytearray(text + b",")
            outcome, used = self._lane.feed(piece, 0, len(piece), self._offset)
            self._dropped[INVALID] += int(outcome != "more" or used != len(piece))
            self._advance(length)
            return True
        if length:
            self._dropped[INVALID] += 1
            self._advance(length)
            return True
        boundary = _BOUNDARY.search(self._buffer, self._start, limit)
        if boundary is None and not whole:
            return False
        too_long = boundary is None and not final
        self._dropped[
            f"text of more than {MAX_EVENT_BYTES} bytes without an event" if too_long else INVALID
        ] += 1
        self._cut = boundary is None
        self._advance((boundary.end() if boundary else limit) - self._start)
        return True

    def _valid(self, limit: int, *, final: bool) -> tuple[bytes | None, int | None]:
        """The value at hand as valid JSON and its length in the file.

        No text where it is nested too deep; length 0 where it is no JSON, None where the text ends
        too early.
        """
        size = FIRST_WINDOW
        while True:
            stop = min(limit, self._start + size)
            # Latin-1 keeps one character per byte, so that positions are those of the file.
            text = without_bare_words(self._buffer[self._start : stop].decode("latin-1"))
            try:
                value, length = STRICT.raw_decode(text)
            except json.JSONDecodeError as error:
                cut, ended = looks_cut(error, len(text)), False
                self._wasted += min(len(text), error.pos + FIRST_WINDOW) + FAILURE_BYTES
            except (ValueError, RecursionError):
                cut = ended = False
                self._wasted += len(text) + FAILURE_BYTES
            else:
                cut = length == len(text) and isinstance(value, str) and text[0] != '"'
                ended = not cut or (final and stop == limit)
            if ended:
                return None if depth(text[:length]) > MAX_DEPTH else text[:length].encode(
                    "latin-1"
                ), length
            if not cut:
                return None, 0
            if stop == limit:
                return None, None
            size *= 8

    def _keep_trailer(self, block: bytes | memoryview) -> None:
        """The text after the list may hold the metadata; keep its beginning only."""
        room = MAX_HEADER_BYTES - len(self.trailer)
        if room > 0:
            self.trailer += bytes(block[:room])
