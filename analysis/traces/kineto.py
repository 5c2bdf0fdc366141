"""PyTorch Profiler (Kineto) traces in Chrome JSON: one file to `TraceColumns`.

Read is what can be read; `dropped` says what was not. See analysis/traces/event_scanner.py for the repairs.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.errors import EvidenceError
from analysis.traces.columns import CommunicationArgs, RankSource, TraceColumns
from analysis.traces.event_scanner import Event, EventScanner
from analysis.traces.trace_bytes import MAX_TRACE_BYTES, unpacked_blocks

MAX_EVENTS = 30_000_000
"""Most intervals kept of one trace: 28 bytes each."""
LONE_ZERO_NS = 60_000_000_000
"""An event at time 0 that lies further than this before all others has lost its time (kineto #109, pytorch #188481)."""
COMMUNICATION = re.compile(r"^(?:gloo:|mpi:|nccl|rccl|void nccl)", re.IGNORECASE)
INT64 = 2**63

_RANK_IN_NAME = re.compile(r"rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_ARGS = msgspec.json.Decoder(dict[str, Any])
_PLAIN = re.compile(rb"(-?\d{1,18})(?:\.(\d{0,3})0*)?")


def read_trace(path: Path, *, order: int = 0, max_bytes: int = MAX_TRACE_BYTES) -> TraceColumns:
    """Read a .json or .json.gz trace. `order` is the rank where neither the trace nor its name gives one.

    Raises EvidenceError, one line, when the file cannot be opened or holds no list of trace events.
    """
    dropped: Counter[str] = Counter()
    scanner = EventScanner(dropped)
    rows = _Rows(dropped)
    for event in scanner.events(unpacked_blocks(path, dropped, max_bytes)):
        rows.add(event)
        if len(rows.ts) >= MAX_EVENTS:
            dropped[f"rest of the file after {MAX_EVENTS} events"] += 1
            break
    if not scanner.found or (not rows.ts and set(rows.skipped) == {"no phase"}):
        raise EvidenceError(path.name, "is not a profiler trace (no list of trace events)")
    header = _metadata(scanner.header, scanner.trailer)
    rank, source = _rank(header, path.name, order)
    return rows.columns(path.name, rank, source, header)


@dataclass
class _Rows:
    """Columns under construction; times are relative to the trace's base until the end."""

    dropped: Counter[str]
    ts: array[int] = field(default_factory=lambda: array("q"))
    dur: array[int] = field(default_factory=lambda: array("q"))
    name: array[int] = field(default_factory=lambda: array("i"))
    category: array[int] = field(default_factory=lambda: array("i"))
    lane: array[int] = field(default_factory=lambda: array("i"))
    names: dict[str, int] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    communication: dict[int, CommunicationArgs] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, event: Event) -> None:
        """Keep an interval; count anything else."""
        if event.ph != "X":
            self.skipped[event.ph[:1] or "no phase"] += 1
            return
        ts, dur = nanoseconds(bytes(event.ts)), nanoseconds(bytes(event.dur))
        lost = (
            "no readable time"
            if ts is None
            else "no duration"
            if dur is None
            else "a negative duration"
            if dur < 0
            else ""
        )
        if lost or ts is None or dur is None:
            self.dropped[f"events with {lost}"] += 1
            return
        if COMMUNICATION.match(event.name):
            self.communication[len(self.ts)] = _communication_args(bytes(event.args))
        self.ts.append(ts)
        self.dur.append(dur)
        self.name.append(self.names.setdefault(event.name, len(self.names)))
        self.category.append(self.categories.setdefault(event.cat, len(self.categories)))
        self.lane.append(self.lanes.setdefault((str(event.pid), str(event.tid)), len(self.lanes)))

    def columns(self, file: str, rank: int, source: RankSource, header: dict[str, Any]) -> TraceColumns:
        """The finished columns, in absolute time, without events that have lost their time."""
        ts = np.frombuffer(self.ts, dtype=np.int64) if self.ts else np.empty(0, dtype=np.int64)
        dur = np.frombuffer(self.dur, dtype=np.int64) if self.dur else np.empty(0, dtype=np.int64)
        ints = [np.asarray(c, dtype=np.int32) for c in (self.name, self.category, self.lane)]
        base = _base(header)
        keep = _have_their_time(ts) & (ts < INT64 - 1 - base - dur)
        self.dropped["events with a time outside the trace"] += int((~keep).sum())
        where = np.cumsum(keep) - 1
        info = header.get("distributedInfo")
        world = info.get("world_size") if isinstance(info, dict) else None
        host = header.get("host_name")
        return TraceColumns(
            file=file,
            rank=rank,
            rank_source=source,
            world_size=world if isinstance(world, int) and not isinstance(world, bool) else None,
            host=host[:256] if isinstance(host, str) else None,
            ts=ts[keep] + base,
            dur=dur[keep],
            name=ints[0][keep],
            category=ints[1][keep],
            lane=ints[2][keep],
            names=tuple(self.names),
            categories=tuple(self.categories),
            lanes=tuple(self.lanes),
            communication={int(where[row]): args for row, args in self.communication.items() if keep[row]},
            dropped={reason: count for reason, count in self.dropped.items() if count},
            skipped=dict(self.skipped),
        )


def nanoseconds(microseconds: bytes) -> int | None:
    """Microseconds as JSON text (a number, or a number in quotes) in whole ns; None when it is no finite time."""
    text = microseconds.strip(b'" ')
    plain = _PLAIN.fullmatch(text)
    if plain and len(plain[1]) <= 16:
        whole, decimals = plain[1], plain[2] or b""
        part = int(decimals.ljust(3, b"0"))
        return int(whole) * 1000 + (-part if whole.startswith(b"-") else part)
    if not text or len(text) > 64:
        return None
    try:
        exact = Decimal(text.decode("ascii", "replace"))
        if not exact.is_finite() or exact.adjusted() > 15:
            return None
        return int((exact * 1000).to_integral_value())
    except (InvalidOperation, ValueError):
        return None


def _have_their_time(ts: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    others = ts[ts > 0]
    if len(others) and int(others.min()) > LONE_ZERO_NS:
        return np.asarray(ts > 0)
    return np.ones(len(ts), dtype=np.bool_)


def _communication_args(text: bytes) -> CommunicationArgs:
    try:
        args = _ARGS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return CommunicationArgs()
    elements = args.get("In msg nelems", _elements(args.get("Input Dims")))
    group = args.get("Process Group Name", "")
    return CommunicationArgs(
        elements=elements if isinstance(elements, int) else 0,
        group=group[:256] if isinstance(group, str) else "",
        collective=str(args.get("Collective name", ""))[:64],
    )


def _elements(dims: Any) -> int:
    """Elements over all inputs, from shapes like [[65792]]; 0 where there are none."""
    if not isinstance(dims, list):
        return 0
    total = 0
    for shape in dims:
        if isinstance(shape, list) and shape and all(isinstance(n, int) for n in shape):
            size = 1
            for n in shape[:16]:
                size *= n
            total += size
    return total


def _metadata(header: bytes, trailer: str) -> dict[str, Any]:
    """What stands beside the list of events, from before it or after it."""
    before = header.decode("utf-8", "replace").strip().lstrip("\ufeff").rstrip(", \t\r\n")
    after = trailer.strip().lstrip(", \t\r\n")
    found: dict[str, Any] = {}
    for text in (before + "}", "{" + after):
        try:
            value = json.JSONDecoder(strict=False).raw_decode(text)[0]
        except (ValueError, RecursionError):
            continue
        found |= value if isinstance(value, dict) else {}
    return _by_pattern(before + after) | found


def _by_pattern(text: str) -> dict[str, Any]:
    """The three values that matter, where the header as a whole is not valid JSON."""
    found: dict[str, Any] = {}
    base = re.search(r'"baseTimeNanoseconds"\s*:\s*(\d{1,19})(?!\d)', text)
    if base:
        found["baseTimeNanoseconds"] = int(base[1])
    info = re.search(r'"distributedInfo"\s*:\s*\{[^{}\[\]]*?"rank"\s*:\s*(\d{1,6})(?!\d)', text)
    if info:
        found["distributedInfo"] = {"rank": int(info[1])}
    return found


def _base(header: dict[str, Any]) -> int:
    base = header.get("baseTimeNanoseconds", 0)
    usable = isinstance(base, int) and not isinstance(base, bool) and 0 <= base < INT64 // 2
    return int(base) if usable else 0


def _rank(header: dict[str, Any], name: str, order: int) -> tuple[int, RankSource]:
    info = header.get("distributedInfo")
    rank = info.get("rank") if isinstance(info, dict) else None
    if isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 10_000_000:
        return rank, "distributedInfo"
    named = _RANK_IN_NAME.search(name)
    return (int(named[1]), "file name") if named else (order, "order")


def read_traces(paths: Iterable[Path]) -> tuple[list[TraceColumns], list[EvidenceError]]:
    """All traces that can be read, by rank, and the errors of those that cannot."""
    traces: list[TraceColumns] = []
    errors: list[EvidenceError] = []
    for order, path in enumerate(paths):
        try:
            traces.append(read_trace(path, order=order))
        except EvidenceError as error:
            errors.append(error)
    return sorted(traces, key=lambda t: (t.rank, t.file)), errors
