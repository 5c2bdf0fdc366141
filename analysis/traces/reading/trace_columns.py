"""The last step of reading a trace: what was scanned, its text decoded and its times made absolute,
as columns.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from faultline.analysis.traces.columns.events import (
    ALIASES,
    DEVICE_CATEGORIES,
    NUMBERS,
    TEXTS,
    ArgumentColumns,
    Bool,
    Int32,
    Int64,
    MemoryEvents,
    RankSource,
    SparseNumbers,
    SparseTexts,
    TraceColumns,
    nothing,
)
from faultline.analysis.traces.reading.event_scanner import LINK_KEYS, LINKS, LaneLabel, Scanned
from faultline.analysis.traces.reading.json_tokens import (
    HANDLES,
    INT64,
    compact,
    json_object,
    merged,
    stream_number,
    text_of,
)

LONE_ZERO_NS = 60_000_000_000
"""An event at time 0 that lies further than this before all others has lost its time (kineto #109,
pytorch #188481)."""
MAX_TEXT = 4096
"""Characters kept of an argument's text."""
MAX_LABEL = 256
LANES_ARE_STREAMS = tuple(name for name in DEVICE_CATEGORIES if not name.startswith("mtia"))
"""Categories whose thread id is the stream's; on MTIA it is another number."""
_CHUNK = 1 << 16


def columns_of(
    scanned: Scanned,
    *,
    file: str,
    rank: int,
    source: RankSource,
    header: dict[str, Any],
    dropped: Counter[str],
) -> TraceColumns:
    """Columns in absolute time, without events that have lost their time. Takes over the memory of
    `scanned`."""
    base = _base(header)
    keep = _has_its_time(scanned, base)
    names, name = _decoded(scanned.names, scanned.name)
    categories, category = _decoded(scanned.categories, scanned.category)
    lanes, lane = _decoded_lanes(scanned)
    links = {link: scanned.links.get(link, nothing(len(name))) for link in LINKS}
    links["stream"] = _streams(scanned, links["stream"], category, lane, categories, lanes)
    lane_names, process_labels, process_names = _labels(scanned.labels, lanes)
    losses = dropped + Counter(scanned.dropped)
    losses["events with a time outside the trace"] += 0 if keep is None else int((~keep).sum())
    info = header.get("distributedInfo")
    world = info.get("world_size") if isinstance(info, dict) else None
    host = header.get("host_name")
    trace = TraceColumns(
        file=file,
        rank=rank,
        rank_source=source,
        world_size=world if isinstance(world, int) and not isinstance(world, bool) else None,
        host=host[:MAX_LABEL] if isinstance(host, str) else None,
        ts=_moved(scanned.ts, base),
        dur=scanned.dur,
        event=scanned.event,
        offset=scanned.offset,
        stream=links["stream"],
        correlation=links["correlation"],
        external_id=links["external_id"],
        python_id=links["python_id"],
        python_parent_id=links["python_parent_id"],
        name=name,
        category=category,
        lane=lane,
        names=names,
        categories=categories,
        lanes=lanes,
        arguments=_arguments(scanned),
        memory=_memory(scanned.memory, base),
        header=header,
        lane_names=lane_names,
        process_labels=process_labels,
        process_names=process_names,
        dropped={reason: count for reason, count in losses.items() if count},
        skipped=scanned.skipped,
    )
    return trace if keep is None else trace.select(keep)


def _base(header: Mapping[str, Any]) -> int:
    base = header.get("baseTimeNanoseconds", 0)
    usable = isinstance(base, int) and not isinstance(base, bool) and 0 <= base < INT64 // 2
    return int(base) if usable else 0


def _has_its_time(scanned: Scanned, base: int) -> Bool | None:
    """Rows to keep; None for all."""
    ts, dur = scanned.ts, scanned.dur
    if not len(ts):
        return None
    lone_zero = int(ts.min()) <= 0 and _lowest_above_zero(ts) > LONE_ZERO_NS
    if not lone_zero and int(ts.max()) + int(dur.max()) + base < INT64 - 1:
        return None
    keep = ts < INT64 - 1 - base - dur
    return keep & (ts > 0) if lone_zero else keep


def _lowest_above_zero(ts: Int64) -> int:
    """0 where there is none."""
    # In chunks, so that the masks stay small.
    parts = (ts[at : at + _CHUNK] for at in range(0, len(ts), _CHUNK))
    return min((int(part[part > 0].min()) for part in parts if (part > 0).any()), default=0)


def _moved(ts: Int64, base: int) -> Int64:
    if base and len(ts):
        # In place: the column may be large, and nobody else holds it.
        np.add(ts, base, out=ts)
    return ts


def _decoded(tokens: list[bytes], ids: Int32) -> tuple[tuple[str, ...], Int32]:
    texts, renumbered = merged([text_of(token) for token in tokens])
    return texts, ids if renumbered is None else np.asarray(renumbered, dtype=np.int32)[ids]


def _decoded_lanes(scanned: Scanned) -> tuple[tuple[tuple[str, str], ...], Int32]:
    numbers: dict[tuple[str, str], int] = {}
    renumbered = [
        numbers.setdefault((text_of(pid), text_of(tid)), len(numbers)) for pid, tid in scanned.lanes
    ]
    same = len(numbers) == len(renumbered)
    return tuple(numbers), scanned.lane if same else np.asarray(renumbered, dtype=np.int32)[
        scanned.lane
    ]


def _streams(
    scanned: Scanned,
    streams: Int64,
    category: Int32,
    lane: Int32,
    categories: tuple[str, ...],
    lanes: tuple[tuple[str, str], ...],
) -> Int64:
    """Equal handles as one; work on a GPU without a stream gets that of its lane, where the lane
    says one."""
    # A file may write one handle in several ways.
    _, renumbered = merged([text_of(token) for token in scanned.handles])
    if renumbered is not None:
        handles = np.flatnonzero(streams >= HANDLES)
        streams[handles] = (
            HANDLES + np.asarray(renumbered, dtype=np.int64)[streams[handles] - HANDLES]
        )
    on_device = np.asarray(
        [name.lower() in LANES_ARE_STREAMS for name in categories], dtype=np.bool_
    )
    if not on_device.any():
        return streams
    rows = np.flatnonzero(on_device[category] & (streams == -1))
    of_lane = np.asarray([_stream_of_lane(tid) for _, tid in lanes], dtype=np.int64)
    rows = rows[of_lane[lane[rows]] != -1]
    if len(rows):
        # A column that no event fills is a read-only constant.
        streams = streams if streams.flags.writeable else streams.copy()
        streams[rows] = of_lane[lane[rows]]
    return streams


def _stream_of_lane(tid: str) -> int:
    """The stream where a tid is a number or "stream 7", else -1."""
    digits = tid.removeprefix("stream ")
    number = stream_number(digits.encode()) if digits.isascii() and digits.isdigit() else None
    return -1 if number is None else number


def _last_per_row(rows: Int32) -> Bool:
    return np.append(rows[1:] != rows[:-1], True) if len(rows) else np.zeros(0, dtype=np.bool_)


def _arguments(scanned: Scanned) -> ArgumentColumns:
    numbers = {
        name: SparseNumbers(rows, values) for name, (rows, values) in scanned.numbers.items()
    }
    for name, counter in _counters(scanned).items():
        numbers.setdefault(name, counter)
    texts = {}
    for name, (rows, ids, tokens) in scanned.texts.items():
        decoded, renumbered = merged([compact(token)[:MAX_TEXT] for token in tokens])
        texts[name] = SparseTexts(
            rows,
            ids if renumbered is None else np.asarray(renumbered, dtype=np.int32)[ids],
            decoded,
        )
    return ArgumentColumns(numbers, texts)


def _counters(scanned: Scanned) -> dict[str, SparseNumbers]:
    """Arguments of counter events by name, without those that are kept of all events."""
    rows, ids, values, tokens = scanned.counters
    numbers = {*NUMBERS, *TEXTS, *ALIASES, *LINK_KEYS}
    texts, renumbered = merged([text_of(token) for token in tokens])
    if renumbered is not None:
        ids = np.asarray(renumbered, dtype=np.int32)[ids]
    order = np.argsort(ids, kind="stable")
    edges = np.searchsorted(ids[order], np.arange(len(texts) + 1))
    sparse_numbers = {}
    for number, name in enumerate(texts):
        counter_places = order[edges[number] : edges[number + 1]]
        counter_places = counter_places[_last_per_row(rows[counter_places])]
        counter_places = counter_places[~np.isnan(values[counter_places])]
        if name not in numbers and len(counter_places):
            sparse_numbers[name] = SparseNumbers(rows[counter_places], values[counter_places])
    return sparse_numbers


def _memory(table: Int64, base: int) -> MemoryEvents:
    ts, address, size, allocated, reserved, kind, device = (
        np.ascontiguousarray(column) for column in table.T
    )
    # Clip: a hostile number must not wrap around.
    fits = np.iinfo(np.int32)
    small = [np.clip(column, fits.min, fits.max).astype(np.int32) for column in (kind, device)]
    return MemoryEvents(
        (np.minimum(ts, INT64 - 1 - base) + base),
        address,
        size,
        allocated,
        reserved,
        small[0],
        small[1],
    )


def _labels(
    labels: list[LaneLabel], lanes: tuple[tuple[str, str], ...]
) -> tuple[dict[int, str], dict[str, str], dict[str, str]]:
    """Names of lanes, labels and names of processes; where one has several, the one that was first
    given last."""
    numbers = {lane: number for number, lane in enumerate(lanes)}
    lane_names: dict[int, str] = {}
    process_labels: dict[str, str] = {}
    process_names: dict[str, str] = {}
    for label in labels:
        args = json_object(label.args)
        pid, tid = text_of(label.pid), text_of(label.tid)
        if label.kind == "p":
            process_labels[pid] = str(args.get("labels", ""))[:MAX_LABEL]
        elif label.kind == "n":
            process_names[pid] = str(args.get("name", ""))[:MAX_LABEL]
        elif (pid, tid) in numbers:
            lane_names[numbers[pid, tid]] = str(args.get("name", ""))[:MAX_LABEL]
    return lane_names, process_labels, process_names


# Which rank wrote a trace: what the trace says of itself, then the file's name, then the order of
# the files.

MAX_RANK = 10_000_000

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])rank[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
"""torchtitan: rank3_trace.json.gz; HTA's data: rank-3.Jul_15_10_52_41.1074.pt.trace.json.gz;
tensorboard_trace_handler with the rank in the worker's name: vm_rank0.1795229.pt.trace.json.gz;
vLLM: dp0_pp0_tp3_dcp0_ep3_rank3.1774.pt.trace. json.gz and
graph_capture_rank_0.1774.pt.trace.json.gz."""
_RANK_IN_FOLDER = re.compile(r"rank[-_.]?(\d{1,6})", re.IGNORECASE)
_TENSOR_PARALLEL = re.compile(r"(?:^|[-_.])TP-?(\d{1,5})(?=[-_.])", re.IGNORECASE)
"""1774.3-TP-0.trace.json.gz (SGLang): the rank where tensor parallelism is the only kind."""


def rank_of(header: Mapping[str, Any], name: str, order: int) -> tuple[int, RankSource]:
    """The rank and where it was found; `order` is the rank where neither the trace nor its name (a
    path) has one."""
    info = header.get("distributedInfo")
    if isinstance(info, dict) and _is_rank(info.get("rank")):
        return info["rank"], "distributedInfo"
    path = PurePath(name)
    match = _RANK_IN_NAME.search(path.name)
    if match is None:
        match = _TENSOR_PARALLEL.search(path.name)
    if match is None:
        match = _RANK_IN_FOLDER.fullmatch(path.parent.name)
    if match is None:
        return order, "order"
    return int(match[1]), "file name"


def _is_rank(value: object) -> bool:
    # JSON's true is an int in Python, and no rank.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_RANK


def with_distinct_ranks(traces: Sequence[TraceColumns]) -> list[TraceColumns]:
    """The traces by rank. Those that do not say their rank get the lowest free ones, in their
    order. Each of several traces of the same rank gets a note that says so.
    """
    ranked = _with_free_ranks(traces)
    count = Counter(trace.rank for trace in ranked)
    for index, trace in enumerate(ranked):
        same = count[trace.rank]
        if same > 1:
            note = f"{same} files say they are rank {trace.rank}"
            ranked[index] = replace(trace, notes=(*trace.notes, note))
    ranked.sort(key=lambda trace: (trace.rank, trace.file))
    return ranked


def _with_free_ranks(traces: Sequence[TraceColumns]) -> list[TraceColumns]:
    taken = {trace.rank for trace in traces if trace.rank_source != "order"}
    ranked = []
    free = 0
    for trace in traces:
        if trace.rank_source != "order":
            ranked.append(trace)
            continue
        while free in taken:
            free += 1
        ranked.append(replace(trace, rank=free))
        free += 1
    return ranked
