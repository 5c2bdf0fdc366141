"""A trace with more drawn into it: counter tracks, or its critical path. Perfetto and
chrome://tracing show both.

The file is read and written block by block; blocks without a change are copied as they are. Added
events stand at the end of the list, so the numbers of the trace's own events stay what they are. A
file that ends early is closed properly; the result is valid JSON.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec
import numpy as np
from isal import isal_zlib

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Bool, Int64, TraceColumns
from faultline.analysis.traces.per_rank.critical_path import CriticalPath
from faultline.analysis.traces.per_rank.critical_path_events import HTA_NAMES, EdgeKind
from faultline.analysis.traces.perfetto.augmented_counters import CounterTrack, counter_tracks
from faultline.analysis.traces.reading.raw_events import EventBlock, RawEvents

SEPARATOR = b",\n  "
BASE_CATEGORIES = ("user_annotation", "python_function")
"""Intervals that stay where only the critical ones are shown, as with HTA."""
DRAWN_KINDS = (EdgeKind.DEPENDENCY, EdgeKind.LAUNCH_DELAY, EdgeKind.SYNC_DEPENDENCY)
"""Edges of the path that are drawn as arrows; the others run inside the slices."""
Changed = Sequence[bytes | msgspec.Raw] | None
"""A block's events as they are to be written; None: as they are."""
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


Lane = tuple[bytes, bytes]
"""pid and tid, as the file writes them."""


@dataclass(frozen=True, eq=False)
class Notes:
    """Events to add that need to know where some of the trace's own are drawn."""

    rows: Int64
    """Rows of the trace whose lanes are asked for."""
    texts: Callable[[Mapping[int, Lane]], Iterable[bytes]]
    """From lanes by number of event to events as JSON."""


@dataclass(frozen=True)
class Written:
    """What a new file holds."""

    path: Path
    events: int
    """The trace's own events in it."""
    added: int
    left_out: int
    """The trace's own events that were not to be shown."""
    dropped: dict[str, int] = field(default_factory=dict)
    """What could not be read of the source."""


def write_with_counters(source: Path, target: Path, trace: TraceColumns) -> Written:
    """The trace with tracks for queue length per stream, copy bandwidth, GPU busy and allocated
    memory.

    `trace` is what the reader gave for `source`. A target that ends in .gz is packed. Raises
    EvidenceError when the source cannot be read, or the target cannot be written or is the source.
    """
    base = time_base(trace)
    added = (text for track in counter_tracks(trace) for text in _counter_events(track, base))
    return _rewrite(source, target, lambda block: (None, 0), lambda: added)


def write_overlay(
    source: Path,
    target: Path,
    trace: TraceColumns,
    path: CriticalPath,
    *,
    only_critical: bool = True,
    all_edges: bool = False,
    notes: Notes | None = None,
) -> Written:
    """The trace with `critical: 1` in the arguments of the events on the path, and arrows for its
    dependencies.

    `only_critical` leaves out all other intervals but annotations and python functions; `all_edges`
    (only without it) draws every edge of the graph but those of launches that take no time. Names
    are HTA's. `notes` are added at the end. Errors as above.
    """
    critical = _flags(trace, path.rows())
    left_out = (
        _flags(trace, np.flatnonzero(~trace.in_category(*BASE_CATEGORIES))) & ~critical
        if only_critical
        else None
    )
    edges = _drawn(path, all_edges and not only_critical)
    ends = np.concatenate((path.edges.source[edges], path.edges.target[edges]))
    rows = path.events.row[path.events.node_event[ends]]
    if notes is not None:
        rows = np.concatenate((rows, notes.rows))
    rows = np.unique(rows)
    tracks = _Tracks(_flags(trace, rows))

    def change(block: EventBlock) -> tuple[Changed, int]:
        tracks.see(block)
        # The block's events as they are to be written (None: as they are), and how many are left
        # out.
        first, last = block.first, block.first + len(block)
        mark = critical[first:last]
        drop = left_out[first:last] if left_out is not None else mark[:0]
        if not mark.any() and not drop.any():
            return None, 0
        marks, drops = mark.tolist(), drop.tolist()
        # The masks end with the last row of the trace; later events have no mark.
        marks += [False] * (len(block) - len(marks))
        drops += [False] * (len(block) - len(drops))
        criticals = [
            _critical(event) if marked else event
            for event, marked, dropped in zip(block.events, marks, drops, strict=True)
            if not dropped
        ]
        return criticals, len(block) - len(criticals)

    def added() -> Iterator[bytes]:
        yield from _arrows(trace, path, edges, tracks)
        if notes is not None:
            yield from notes.texts(tracks.of)

    return _rewrite(source, target, change, added)


def time_base(trace: TraceColumns) -> int:
    """ns since the epoch at which the file's own times are zero."""
    base = trace.header.get("baseTimeNanoseconds", 0)
    usable = isinstance(base, int) and not isinstance(base, bool) and 0 <= base < 2**62
    return int(base) if usable else 0


def microseconds(ns: int) -> str:
    """ns as the file writes times: microseconds without loss."""
    whole, part = divmod(ns, 1000)
    return f"{whole}.{part:03d}" if part else str(whole)


def _flags(trace: TraceColumns, rows: Int64) -> Bool:
    """Mask by number of event."""
    numbers = trace.event[rows]
    flags = np.zeros(int(trace.event.max()) + 1 if len(trace) else 0, dtype=np.bool_)
    flags[numbers] = True
    return flags


def _critical(event: bytes | msgspec.Raw) -> bytes | msgspec.Raw:
    """The event with `critical: 1` as its first argument; every other value keeps its bytes."""
    try:
        members = _MEMBERS.decode(event)
    except (msgspec.DecodeError, RecursionError):
        return event
    arguments = bytes(members.get("args", msgspec.Raw(b"{}"))).strip()
    inner = arguments[1:].lstrip() if arguments.startswith(b"{") else b"}"
    # An empty object takes no comma.
    members["args"] = msgspec.Raw(b'{"critical": 1' + (b", " if inner != b"}" else b"") + inner)
    return msgspec.json.encode(members)


class _Tracks:
    """The pid and tid of some events as the file writes them: numbers or text."""

    def __init__(self, mask: Bool) -> None:
        self._mask = mask
        self.of: dict[int, Lane] = {}

    def see(self, block: EventBlock) -> None:
        for place in np.flatnonzero(self._mask[block.first : block.first + len(block)]).tolist():
            try:
                members = _MEMBERS.decode(block.events[place])
            except (msgspec.DecodeError, RecursionError):
                continue
            track = [bytes(members.get(key, msgspec.Raw(b"0"))) for key in ("pid", "tid")]
            self.of[block.first + place] = (track[0], track[1])


def _drawn(path: CriticalPath, all_edges: bool) -> Int64:
    kind = path.edges.kind
    if all_edges:
        idle = (kind == EdgeKind.LAUNCH_DELAY) & (path.edges.weight == 0)
        return np.flatnonzero(~idle)
    return path.path[np.isin(kind[path.path], DRAWN_KINDS)]


def _arrows(
    trace: TraceColumns, path: CriticalPath, edges: Int64, tracks: _Tracks
) -> Iterator[bytes]:
    base, events = time_base(trace), path.events
    on_path = np.zeros(len(path.edges), dtype=np.bool_)
    on_path[path.path] = True
    for number, edge in enumerate(edges.tolist()):
        kind = HTA_NAMES[EdgeKind(int(path.edges.kind[edge]))]
        weight = microseconds(int(path.edges.weight[edge]))
        critical = "true" if on_path[edge] else "false"
        arguments = f'{{"weight": {weight}, "critical": {critical}, "type": "{kind}"}}'
        ends = []
        for phase, node in (
            ("s", int(path.edges.source[edge])),
            ("f", int(path.edges.target[edge])),
        ):
            row = int(events.row[events.node_event[node]])
            track = tracks.of.get(int(trace.event[row]))
            if track is None:
                break
            # A nanosecond before the end: at the end itself the slice is over.
            inside = 0 if events.node_is_start[node] or not trace.dur[row] else 1
            ts = microseconds(int(events.node_time[node]) - inside - base)
            ends.append(
                f'{{"ph": "{phase}", "id": {number}, "ts": {ts}, "cat": "critical_path", "name": '
                f'"critical_path", '
                f'"args": {arguments}{"" if phase == "s" else _ENCLOSING}, "pid": '.encode()
                + track[0]
                + b', "tid": '
                + track[1]
                + b"}"
            )
        if len(ends) == 2:
            yield from ends


_ENCLOSING = ', "bp": "e"'


def _counter_events(track: CounterTrack, base: int) -> Iterator[bytes]:
    process = (
        track.process
        if track.process.isdecimal() and len(track.process) < 16
        else json.dumps(track.process)
    )
    start = f'{{"ph": "C", "name": {json.dumps(track.name)}, "pid": {process}, "ts": '
    unit = json.dumps(track.unit)
    for ts, value in zip(track.ts.tolist(), track.value.tolist(), strict=True):
        shown = int(value) if value == int(value) else value
        yield f'{start}{microseconds(ts - base)}, "args": {{{unit}: {shown}}}}}'.encode()


class _Sink(Protocol):
    def write(self, data: bytes) -> object: ...


class _Packed:
    """A gzip file under construction; quick rather than small."""

    def __init__(self, file: BinaryIO) -> None:
        # wbits=31 writes gzip's header and trailer.
        self._file, self._packer = file, isal_zlib.compressobj(1, wbits=31)

    def write(self, data: bytes) -> None:
        self._file.write(self._packer.compress(data))

    def close(self) -> None:
        self._file.write(self._packer.flush())


def _rewrite(
    source: Path,
    target: Path,
    change: Callable[[EventBlock], tuple[Changed, int]],
    added: Callable[[], Iterable[bytes]],
) -> Written:
    if target.exists() and source.exists() and target.samefile(source):
        raise EvidenceError(
            target.name, "is the trace itself; choose another name for the new file"
        )
    handle = None
    try:
        # Write beside the target, then rename: no reader sees half a file.
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        with os.fdopen(handle, "wb") as file:
            written = _copy(source, target, file, change, added)
        # mkstemp gives the file to its owner alone.
        Path(name).chmod(0o644)
        Path(name).replace(target)
    except OSError as error:
        if handle is not None:
            _remove(name)
        raise EvidenceError(
            target.name, f"cannot be written ({error.strerror or type(error).__name__})"
        ) from error
    except BaseException:
        # Also on Ctrl-C: leave no half-written file behind.
        if handle is not None:
            _remove(name)
        raise
    return written


def _remove(name: str) -> None:
    with suppress(OSError):
        Path(name).unlink()


def _copy(
    source: Path,
    target: Path,
    file: BinaryIO,
    change: Callable[[EventBlock], tuple[Changed, int]],
    added: Callable[[], Iterable[bytes]],
) -> Written:
    raw = RawEvents(source)
    out: _Sink = file
    packed = None
    if target.suffix == ".gz":
        out = packed = _Packed(file)
    copy_count = left_out = count = 0
    opened = False
    separator = b""
    for block in raw.blocks():
        if not opened:
            opened = True
            out.write(raw.header + b"\n  ")
        changed, gone = change(block)
        left_out, block_count = left_out + gone, len(block) - gone
        if block_count:
            text = block.text if changed is None else SEPARATOR.join(changed)
            out.write(separator + text)
            separator = SEPARATOR
        copy_count += block_count
    if not opened:
        out.write(raw.header + b"\n  ")
    for text in added():
        out.write(separator + text)
        separator = SEPARATOR
        count += 1
    if raw.closed:
        out.write(b"\n  ")
        for text in raw.trailer():
            out.write(text)
    else:
        # Close what the source left open: the list, and the object around it.
        out.write(b"\n]" + (b"}\n" if b'"traceEvents"' in raw.header else b"\n"))
    if packed:
        packed.close()
    return Written(
        target, copy_count, count, left_out, {reason: n for reason, n in raw.dropped.items() if n}
    )
