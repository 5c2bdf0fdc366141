"""PyTorch Profiler (Kineto) traces in Chrome JSON: one file to `TraceColumns`.

Read is what can be read; `dropped` says what was not. See analysis/traces/event_scanner.py for the repairs.
"""

from __future__ import annotations

import json
import math
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
from analysis.traces.arguments import (
    ALIASES,
    COUNTER_CATEGORY,
    NUMBERS,
    TEXTS,
    Arguments,
    SparseNumbers,
    SparseTexts,
)
from analysis.traces.columns import Int64, MemoryEvents, RankSource, TraceColumns, nothing
from analysis.traces.event_scanner import Event, EventScanner
from analysis.traces.trace_bytes import MAX_TRACE_BYTES, unpacked_blocks

MAX_EVENTS = 30_000_000
"""Most intervals kept of one trace: 28 bytes each."""
LONE_ZERO_NS = 60_000_000_000
"""An event at time 0 that lies further than this before all others has lost its time (kineto #109, pytorch #188481)."""
INT64 = 2**63
HANDLES = 2**30
"""Streams that are handles or text are numbered from here."""
NO_STREAM = 2**32 - 1
LINKS = ("stream", "correlation", "external_id", "python_id", "python_parent_id")
LINK_KEYS = {
    "correlation": "correlation",
    "External id": "external_id",
    "external id": "external_id",
    "Python id": "python_id",
    "Python parent id": "python_parent_id",
}
MEMORY_KEYS = (
    ("Addr", 0),
    ("Bytes", 0),
    ("Total Allocated", -1),
    ("Total Reserved", -1),
    ("Device Type", -1),
    ("Device Id", -1),
)
MAX_LABELS = 100_000
MAX_TEXT = 4096
"""Characters kept of an argument's text."""

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
    event: array[int] = field(default_factory=lambda: array("q"))
    links: dict[str, array[int]] = field(default_factory=lambda: {name: array("q") for name in LINKS})
    names: dict[str, int] = field(default_factory=dict)
    categories: dict[str, int] = field(default_factory=dict)
    lanes: dict[tuple[str, str], int] = field(default_factory=dict)
    handles: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, tuple[array[int], array[float]]] = field(default_factory=dict)
    texts: dict[str, tuple[array[int], array[int], dict[str, int]]] = field(default_factory=dict)
    memory: array[int] = field(default_factory=lambda: array("q"))
    lane_names: dict[tuple[str, str], str] = field(default_factory=dict)
    process_labels: dict[str, str] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    position: int = -1

    def add(self, event: Event) -> None:
        """Keep an interval or an allocator event; count anything else."""
        self.position += 1
        if event.ph != "X":
            self.skipped[event.ph[:1] or "no phase"] += 1
            if event.ph == "i" and event.name == "[memory]":
                self._add_memory(event)
            elif event.ph == "M":
                self._add_label(event)
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
        self._add_arguments(_decoded(event.args), event)
        self.ts.append(ts)
        self.dur.append(dur)
        self.event.append(self.position)
        self.name.append(self.names.setdefault(event.name, len(self.names)))
        self.category.append(self.categories.setdefault(event.cat, len(self.categories)))
        self.lane.append(self.lanes.setdefault((str(event.pid), str(event.tid)), len(self.lanes)))

    def _add_arguments(self, args: dict[str, Any], event: Event) -> None:
        row, counters = len(self.ts), event.cat == COUNTER_CATEGORY
        links = dict.fromkeys(LINKS, -1)
        for key, value in args.items():
            known = ALIASES.get(key, key)
            if key == "stream":
                links[key] = self._stream(value)
            elif key in LINK_KEYS:
                number = _number(value)
                links[LINK_KEYS[key]] = int(number) if number is not None and abs(number) < INT64 else -1
            elif known in NUMBERS or counters:
                number = _number(value)
                if number is not None:
                    rows, values = self.numbers.setdefault(known, (array("i"), array("d")))
                    rows.append(row)
                    values.append(number)
            elif known in TEXTS:
                rows, ids, texts = self.texts.setdefault(known, (array("i"), array("i"), {}))
                rows.append(row)
                ids.append(texts.setdefault(_compact(value), len(texts)))
        for name, column in self.links.items():
            column.append(links[name])

    def _stream(self, value: Any) -> int:
        number = _number(value)
        if number is not None and number == int(number) and number < HANDLES:
            return int(number) if number >= 0 else -1
        if number == NO_STREAM or value is None:
            return -1
        return HANDLES + self.handles.setdefault(str(value), len(self.handles))

    def _add_memory(self, event: Event) -> None:
        args, ts = _decoded(event.args), nanoseconds(bytes(event.ts))
        if ts is None:
            self.dropped["events with no readable time"] += 1
            return
        values = [_number(args.get(key)) for key, _ in MEMORY_KEYS]
        filled = [
            d if v is None or not abs(v) < INT64 else int(v) for v, (_, d) in zip(values, MEMORY_KEYS, strict=True)
        ]
        self.memory.extend([ts, *filled])

    def _add_label(self, event: Event) -> None:
        args = _decoded(event.args)
        if event.name == "thread_name" and len(self.lane_names) < MAX_LABELS:
            self.lane_names[(str(event.pid), str(event.tid))] = str(args.get("name", ""))[:256]
        elif event.name == "process_labels" and len(self.process_labels) < MAX_LABELS:
            self.process_labels[str(event.pid)] = str(args.get("labels", ""))[:256]

    def columns(self, file: str, rank: int, source: RankSource, header: dict[str, Any]) -> TraceColumns:
        """The finished columns, in absolute time, without events that have lost their time."""
        wide = {c: np.asarray(getattr(self, c), dtype=np.int64) for c in ("ts", "dur", "event")}
        wide |= {c: _column(values) for c, values in self.links.items()}
        ints = {c: np.asarray(getattr(self, c), dtype=np.int32) for c in ("name", "category", "lane")}
        base = _base(header)
        keep = _have_their_time(wide["ts"]) & (wide["ts"] < INT64 - 1 - base - wide["dur"])
        self.dropped["events with a time outside the trace"] += int((~keep).sum())
        info = header.get("distributedInfo")
        world = info.get("world_size") if isinstance(info, dict) else None
        host = header.get("host_name")
        trace = TraceColumns(
            file=file,
            rank=rank,
            rank_source=source,
            world_size=world if isinstance(world, int) and not isinstance(world, bool) else None,
            host=host[:256] if isinstance(host, str) else None,
            ts=wide["ts"] + base,
            dur=wide["dur"],
            event=wide["event"],
            stream=wide["stream"],
            correlation=wide["correlation"],
            external_id=wide["external_id"],
            python_id=wide["python_id"],
            python_parent_id=wide["python_parent_id"],
            name=ints["name"],
            category=ints["category"],
            lane=ints["lane"],
            offset=nothing(len(self.ts)),
            names=tuple(self.names),
            categories=tuple(self.categories),
            lanes=tuple(self.lanes),
            arguments=self._arguments(),
            memory=self._memory(base),
            header=header,
            lane_names={self.lanes[k]: v for k, v in self.lane_names.items() if k in self.lanes},
            process_labels=self.process_labels,
            dropped={reason: count for reason, count in self.dropped.items() if count},
            skipped=dict(self.skipped),
        )
        return trace if keep.all() else trace.select(keep)

    def _arguments(self) -> Arguments:
        return Arguments(
            {
                name: SparseNumbers(np.asarray(rows, dtype=np.int32), np.asarray(values, dtype=np.float64))
                for name, (rows, values) in self.numbers.items()
            },
            {
                name: SparseTexts(np.asarray(rows, dtype=np.int32), np.asarray(ids, dtype=np.int32), tuple(texts))
                for name, (rows, ids, texts) in self.texts.items()
            },
        )

    def _memory(self, base: int) -> MemoryEvents:
        table = np.asarray(self.memory, dtype=np.int64).reshape(-1, 1 + len(MEMORY_KEYS)).T
        wide = [np.ascontiguousarray(column) for column in table]
        ts, address, size, allocated, reserved, kind, device = wide
        return MemoryEvents(
            ts + base, address, size, allocated, reserved, kind.astype(np.int32), device.astype(np.int32)
        )


def _column(values: array[int]) -> Int64:
    column = np.asarray(values, dtype=np.int64)
    return column if (column != -1).any() else nothing(len(column))


def _decoded(text: msgspec.Raw) -> dict[str, Any]:
    try:
        return _ARGS.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}


def _number(value: Any) -> float | int | None:
    """A finite JSON number, or one written as a string (AMD writes "0x10" too)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        try:
            value = int(value, 16) if value.startswith(("0x", "0X")) else float(value)
        except ValueError:
            return None
    if isinstance(value, int):
        return value
    return value if isinstance(value, float) and math.isfinite(value) else None


def _compact(value: Any) -> str:
    return (value if isinstance(value, str) else msgspec.json.encode(value).decode())[:MAX_TEXT]


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
