"""Memory snapshots from files: the allocator's segments and blocks, and the history of what it did.

Source: torch/cuda/memory.py (_snapshot) and torch/csrc/cuda/memory_snapshot.cpp. The documentation
calls freed blocks that a stream still uses "active_awaiting_free", the code writes
"active_pending_free": both are known here.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.plain_pickle import CutOff, NotPlainData, load_plain_pickle
from faultline.analysis.traces.reading.trace_bytes import unpacked_blocks

MAX_BYTES = 128 << 20
MAX_EVENTS = 2_000_000
MAX_BLOCKS = 2_000_000
MAX_FRAMES = 200
MAX_FRAME_VISITS = 10_000_000
"""Frames of all stacks together; later stacks give no line. Files can refer to one frame a million
times."""
LARGEST = 1 << 41
"""Bytes that a size can be; anything else is no size, so that no sum of MAX_EVENTS overflows."""
ALLOC, FREE, FREED, SEGMENT, SEGMENT_FREED, OOM, OTHER = range(7)
ACTIONS = {
    "alloc": ALLOC,
    "free_requested": FREE,
    "free_completed": FREED,
    "segment_alloc": SEGMENT,
    "segment_map": SEGMENT,
    "segment_free": SEGMENT_FREED,
    "segment_unmap": SEGMENT_FREED,
    "oom": OOM,
}
PENDING = ("active_pending_free", "active_awaiting_free")
_LIBRARY = re.compile(
    r"(?:site|dist)-packages/(?:torch|triton)/|/lib/python3\.\d+/(?!(?:site|dist)-packages/)|^<"
    r"|/torch/(?:nn|optim|autograd|utils|distributed|cuda|amp|fx|compiler|_)"
)
"""Files of torch and of Python itself: the line that asked them is the one to name."""
_OPTIMIZER = re.compile(r"/torch/optim/")


@dataclass(frozen=True)
class MemoryBlock:
    """A piece of a segment."""

    address: int
    size: int
    """Bytes, rounded up by the allocator."""
    requested: int
    state: str
    """"allocated", "pending" (freed, a stream still uses it) or "inactive"."""
    site: str
    """The innermost line of the user's code that allocated it; "" where it was not recorded."""


@dataclass(frozen=True)
class AllocatorEvent:
    """One entry of the allocator's history."""

    action: int
    address: int
    """For OOM: bytes that the device still had free."""
    size: int
    time_us: int
    """0 where it was not recorded."""
    site: str
    in_optimizer: bool


@dataclass(frozen=True)
class Snapshot:
    """One device's memory."""

    file: str
    reserved: int
    """Bytes of all segments."""
    blocks: tuple[MemoryBlock, ...]
    events: tuple[AllocatorEvent, ...]
    """In order of time; the oldest are lost when the ring was full."""
    cut_off: bool
    """The file ends too early: its history is not used."""

    def bytes_in(self, *states: str) -> int:
        """Bytes asked for, in blocks of these states."""
        return sum(b.requested for b in self.blocks if b.state in states)

    @property
    def largest_free(self) -> int:
        """Bytes of the largest block that is free."""
        return max((b.size for b in self.blocks if b.state == "inactive"), default=0)

    def actions(self) -> NDArray[np.int64]:
        """The events' actions."""
        return np.fromiter((e.action for e in self.events), dtype=np.int64, count=len(self.events))

    def sizes(self) -> NDArray[np.int64]:
        """The events' bytes."""
        return np.fromiter((e.size for e in self.events), dtype=np.int64, count=len(self.events))


def read_snapshot(path: Path) -> Snapshot:
    """The snapshot of the device that holds most. Raises EvidenceError when the file is none, or
    too large."""
    data = _content(path)
    cut = False
    try:
        value = load_plain_pickle(data)
    except NotPlainData as problem:
        raise EvidenceError(path.name, f"is refused: {problem}") from problem
    except CutOff as error:
        value, cut = {"segments": _pieces(error.pieces)}, True
    if not isinstance(value, dict) or not isinstance(value.get("segments"), list):
        raise EvidenceError(path.name, "is no memory snapshot")
    by_device: dict[int, list[dict[str, Any]]] = {}
    for segment in value["segments"]:
        if isinstance(segment, dict):
            by_device.setdefault(_size(segment.get("device")), []).append(segment)
    device = max(
        by_device, key=lambda d: sum(_size(s.get("total_size")) for s in by_device[d]), default=None
    )
    sites = _Sites()
    # A cut-off file lacks the end of its history, from which levels are counted back.
    events = () if cut else _events(_history(value.get("device_traces"), device), sites)
    segments = by_device.get(device, []) if device is not None else []
    return Snapshot(
        file=str(path),
        reserved=sum(_size(s.get("total_size")) for s in segments),
        blocks=_blocks(segments, sites),
        events=events,
        cut_off=cut,
    )


def _content(path: Path) -> bytes:
    parts: list[bytes] = []
    # Read one byte too many, to notice a file that is too large.
    for block in unpacked_blocks(path, Counter(), MAX_BYTES + 1):
        parts.append(block)
    data = b"".join(parts)
    if len(data) > MAX_BYTES:
        raise EvidenceError(path.name, f"is larger than {MAX_BYTES >> 20} MiB")
    return data


def _pieces(stack: list[Any]) -> list[Any]:
    """Segments of a file that was cut off."""
    pieces = [v for v in stack if isinstance(v, dict) and "blocks" in v]
    for value in stack:
        if (
            isinstance(value, list)
            and value
            and isinstance(value[0], dict)
            and "blocks" in value[0]
        ):
            pieces += value
    return pieces


def _history(traces: Any, device: int | None) -> list[Any]:
    """The device's list; where it has none, the longest."""
    lists = [t for t in traces if isinstance(t, list)] if isinstance(traces, list) else []
    if device is not None and device < len(lists) and lists[device]:
        return lists[device]
    return max(lists, key=len, default=[])


def _events(entries: list[Any], sites: _Sites) -> tuple[AllocatorEvent, ...]:
    """The latest events."""
    events = []
    for entry in entries[-MAX_EVENTS:]:
        if not isinstance(entry, dict) or not isinstance(entry.get("action"), str):
            continue
        site, in_optimizer = sites.of(entry.get("frames"))
        action = ACTIONS.get(entry["action"], OTHER)
        at = _size(entry.get("device_free")) if action == OOM else _address(entry.get("addr"))
        events.append(
            AllocatorEvent(
                action,
                at,
                _size(entry.get("size")),
                _address(entry.get("time_us")),
                site,
                in_optimizer,
            )
        )
    return tuple(events)


def _blocks(segments: list[dict[str, Any]], sites: _Sites) -> tuple[MemoryBlock, ...]:
    memory_blocks: list[MemoryBlock] = []
    visits = 0
    for segment in segments:
        blocks = segment.get("blocks")
        at = _address(segment.get("address"))
        for block in blocks if isinstance(blocks, list) else ():
            visits += 1
            if visits > MAX_BLOCKS:
                return tuple(memory_blocks)
            if not isinstance(block, dict):
                continue
            size = _size(block.get("size"))
            state = block.get("state")
            kind = (
                "allocated"
                if state == "active_allocated"
                else "pending"
                if state in PENDING
                else "inactive"
            )
            # Where a snapshot lacks these fields, blocks lie one behind the other.
            requested = _size(block["requested_size"]) if "requested_size" in block else size
            address = _address(block["address"]) if "address" in block else at
            memory_blocks.append(
                MemoryBlock(address, size, requested, kind, sites.of(_frames(block))[0])
            )
            at = address + size
    return tuple(memory_blocks)


def _frames(block: dict[str, Any]) -> Any:
    """Snapshots before torch 2.1 have them in a history."""
    history = block.get("history")
    if (
        "frames" not in block
        and isinstance(history, list)
        and history
        and isinstance(history[0], dict)
    ):
        return history[0].get("frames")
    return block.get("frames")


class _Sites:
    """Stacks to lines of the user's code; a stack or frame that is shared is looked at once."""

    def __init__(self) -> None:
        self._site_by_stack: dict[int, tuple[str, bool]] = {}
        self._frames: dict[int, _Frame | None] = {}
        self._visits = 0

    def of(self, frames: Any) -> tuple[str, bool]:
        """(line, whether an optimizer of torch's is on the stack). Frames stand with the innermost
        first."""
        if not isinstance(frames, list) or not frames:
            return "", False
        # Compare by identity: a pickle shares its stacks, and there may be millions of frames.
        key = id(frames)
        if key not in self._site_by_stack:
            self._site_by_stack[key] = self._site(frames)
        return self._site_by_stack[key]

    def _site(self, frames: list[Any]) -> tuple[str, bool]:
        if self._visits >= MAX_FRAME_VISITS:
            return "", False
        self._visits += min(len(frames), MAX_FRAMES)
        python = [f for frame in frames[:MAX_FRAMES] if (f := self._frame(frame)) is not None]
        site = next((f.site for f in python if not f.library), python[0].site if python else "")
        return site, any(f.optimizer for f in python)

    def _frame(self, frame: Any) -> _Frame | None:
        key = id(frame)
        if key not in self._frames:
            self._frames[key] = _frame(frame)
        return self._frames[key]


@dataclass(frozen=True)
class _Frame:
    site: str
    library: bool
    optimizer: bool


def _frame(frame: Any) -> _Frame | None:
    """A frame of Python; None for one of C++."""
    name = frame.get("filename") if isinstance(frame, dict) else None
    if not isinstance(name, str) or not name.endswith(".py"):
        return None
    # Bound what the patterns search: the name is foreign text.
    name = name[-1000:]
    line, function = frame.get("line"), frame.get("name")
    file = "/".join(name[-300:].split("/")[-2:])
    has_line = type(line) is int and 0 <= line < 10**8
    where = f"{file}:{line if has_line else '?'}"
    called = f" ({function[:60]})" if isinstance(function, str) else ""
    return _Frame(
        readable(where + called, 120),
        _LIBRARY.search(name) is not None,
        _OPTIMIZER.search(name) is not None,
    )


def _size(value: Any) -> int:
    """Bytes; 0 for anything that is no size."""
    # `type`, not isinstance: True is no size.
    return value if type(value) is int and 0 <= value <= LARGEST else 0


def _address(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**63 else 0
