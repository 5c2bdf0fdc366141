"""What a scan of a trace file gives, before its text is decoded: the meeting point of the compiled
and the Python lane.

Text is kept as the bytes of JSON values; equal texts may stand twice where the file writes them
differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.arguments import ALIASES, NUMBERS, TEXTS

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
