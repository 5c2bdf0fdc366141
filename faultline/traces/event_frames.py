"""Events of one rank as frames: one row per event, built from columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import device_launches, device_work
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.per_rank.annotations import kernel_annotations
from faultline.analysis.traces.per_rank.bandwidth import bandwidth_series
from faultline.analysis.traces.per_rank.kernels import KINDS
from faultline.analysis.traces.per_rank.launch_queue import queue_length

CPU = 0
"""PyTorch's number of the host's memory."""


def events_frame(trace: TraceColumns, begin_ns: int) -> pl.DataFrame:
    """All intervals of the file, in its order; `begin_ns` is the job's first moment."""
    kinds = np.zeros(len(trace), dtype=np.int64)
    work = device_work(trace)
    kinds[work.row] = work.kind
    columns = {
        "index": trace.event,
        "name": _named(trace.names, trace.name),
        "category": _named(trace.categories, trace.category),
        "kind": _named(("", *KINDS.values()), kinds, empty=0),
        "start_ns": trace.ts,
        "start_us": (trace.ts - begin_ns) / 1e3,
        "duration_us": trace.dur / 1e3,
        "pid": _named([pid for pid, _ in trace.lanes], trace.lane),
        "tid": _named([tid for _, tid in trace.lanes], trace.lane),
        "step": _null_for_none(steps_of(trace).of(trace.ts)),
    }
    for name in ("stream", "correlation", "external_id", "python_id", "python_parent_id"):
        columns[name] = _null_for_none(getattr(trace, name))
    return pl.DataFrame(columns)


def argument_columns(trace: TraceColumns) -> pl.DataFrame:
    """The arguments that are kept of events, under the names that the trace gives them; null where
    an event has none."""
    columns = []
    for name, numbers in sorted(trace.arguments.numbers.items()):
        # NaN stands for an absent number, and becomes a null.
        dense = numbers.dense(len(trace), np.nan)
        columns.append(pl.Series(name, dense).fill_nan(None))
    for name, texts in sorted(trace.arguments.texts.items()):
        ids = np.full(len(trace), -1, dtype=np.int64)
        ids[texts.rows] = texts.ids
        columns.append(_named(texts.texts, ids, empty=-1).rename(name))
    return pl.DataFrame(columns)


def steps_frame(trace: TraceColumns) -> pl.DataFrame:
    """The steps of a rank, in order of start."""
    steps = steps_of(trace)
    return pl.DataFrame(
        {
            "step": steps.number,
            "start_ns": steps.start,
            "end_ns": steps.end,
            "duration_ns": steps.end - steps.start,
        }
    )


def device_work_frame(trace: TraceColumns) -> pl.DataFrame:
    """Every piece of work on a stream, by start, with the call that launched it."""
    work, launch = device_work(trace), device_launches(trace)
    there = launch >= 0
    # -1 stands for no launch: take any row for it, and mask it below.
    call = np.maximum(launch, 0)
    # A trace without events has no row to take.
    ended = trace.end[call] if len(trace) else call
    return pl.DataFrame(
        {
            **_of_work(trace, work.row),
            "kind": _named(("", *KINDS.values()), work.kind.astype(np.int64)),
            "launch": _where(there, trace.event, call),
            "launch_start_ns": _where(there, trace.ts, call),
            "launch_duration_ns": _where(there, trace.dur, call),
            "delay_ns": _masked(there, np.maximum(work.start - ended, 0)),
        }
    )


def kernels_with_annotations(trace: TraceColumns) -> pl.DataFrame:
    """Every piece of work on a stream, by start, with the innermost annotation around it."""
    linked = kernel_annotations(trace)
    there = linked.annotation >= 0
    mark = np.maximum(linked.annotation, 0)
    ids = np.where(there, trace.name[mark], -1) if len(trace) else mark
    return pl.DataFrame(
        {
            **_of_work(trace, linked.row),
            "annotation": _named(trace.names, ids.astype(np.int64), empty=-1),
            "annotation_index": _where(there, trace.event, mark),
        }
    )


def queue_changes(trace: TraceColumns) -> pl.DataFrame:
    """The lengths of launch queues, by stream, then by time."""
    queue = queue_length(trace)
    return pl.DataFrame(
        {
            "device": _named([stream.device for stream in queue.streams], queue.stream),
            "stream": np.asarray([s.stream for s in queue.streams], dtype=np.int64)[queue.stream],
            "time_ns": queue.time,
            "queue_length": queue.length,
            "index": trace.event[queue.row],
        }
    )


def bandwidth_changes(trace: TraceColumns) -> pl.DataFrame:
    """The bandwidth in use, by direction, then by time."""
    series = bandwidth_series(trace)
    return pl.DataFrame(
        {
            "direction": _named(series.directions, series.direction),
            "time_ns": series.time,
            "gbps": series.gbps,
        }
    )


def allocator_events(trace: TraceColumns) -> pl.DataFrame:
    """Allocations and frees, in the order of the file."""
    memory = trace.memory
    device = pl.when(pl.col("type") == CPU).then(pl.lit("CPU"))
    frame = pl.DataFrame(
        {
            "time_ns": memory.ts,
            "type": memory.device_type,
            "number": memory.device,
            "bytes": memory.bytes,
            "address": memory.address,
            "allocated_bytes": _null_for_none(memory.allocated),
            "reserved_bytes": _null_for_none(memory.reserved),
        }
    )
    named = device.otherwise(pl.format("GPU {}", "number")).alias("device")
    return frame.select("time_ns", named, pl.exclude("time_ns", "type", "number"))


def _of_work(trace: TraceColumns, row: Int64) -> dict[str, pl.Series | Int64]:
    return {
        "index": trace.event[row],
        "name": _named(trace.names, trace.name[row]),
        "stream": _null_for_none(trace.stream[row]),
        "start_ns": trace.ts[row],
        "duration_ns": trace.dur[row],
    }


def _named(texts: Sequence[str], ids: NDArray[np.integer], empty: int | None = None) -> pl.Series:
    """The text of each id; null for the id `empty`."""
    names = pl.Series(list(texts), dtype=pl.String)
    # Places are gathered as unsigned numbers, so that none of them counts from the end.
    places = pl.Series(ids.astype(np.int64))
    if empty is not None:
        places = places.replace(empty, None)
    return names.gather(places.cast(pl.UInt32))


def _null_for_none(values: Int64) -> pl.Series:
    """Null for -1, which stands for none."""
    return pl.Series(values).replace(-1, None)


def _where(there: NDArray[np.bool_], column: Int64, rows: Int64) -> pl.Series:
    return _masked(there, column[rows] if len(column) else rows)


def _masked(there: NDArray[np.bool_], values: Int64) -> pl.Series:
    return pl.select(pl.when(pl.Series(there)).then(pl.Series(values))).to_series()
