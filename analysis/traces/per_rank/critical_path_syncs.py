"""Who waited for which work on the accelerator: the host's calls, and kernels on other streams.

Synchronization events name the stream or the recorded event that was waited for. A recorded event
stands for the last work launched on its stream before it was recorded; a stream that waits for an
event holds back the next work launched on it. Where the trace has no such events, a blocking call
is taken to wait for the work that ended last before it returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import on_runtime
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.per_rank.critical_path_device import NEVER, Kernels, inferred_waits
from faultline.analysis.traces.per_rank.critical_path_events import (
    EdgeKind,
    EdgeList,
    Events,
    Rules,
    count_up_to,
    entry_after,
    entry_before,
)
from faultline.analysis.traces.per_rank.critical_path_host import (
    BLOCKING,
    NOT_BLOCKING,
    UNKNOWN,
    named,
)

STREAM_SYNC, CONTEXT_SYNC, EVENT_SYNC, STREAM_WAIT = (
    "Stream Sync",
    "Context Sync",
    "Event Sync",
    "Stream Wait Event",
)
MAX_PAIRS = 1_000_000
"""Most pairs of a stream and a synchronization of the whole device that are looked at."""


@dataclass(frozen=True)
class Syncs:
    """What was waited for in a window. Pairs may repeat a waiter."""

    source: Int64
    """Kernel that was waited for, per pair."""
    call: Int64
    """Event of the host's call that waited, per pair."""
    between: tuple[Int64, Int64]
    """Pairs (source, target) of kernels on different streams."""
    unblocked: Int64
    """Per event when what a blocking call waited for was done, ns; NOT_BLOCKING or UNKNOWN."""
    missing: tuple[str, ...]


def syncs_of(
    trace: TraceColumns, events: Events, kernels: Kernels, keys: Int64, launch: Int64, rules: Rules
) -> Syncs:
    """All waits of the window, written or inferred."""
    rows = np.flatnonzero(trace.in_category("cuda_sync"))
    missing: list[str] = []
    pairs = [_copies_of_calls(trace, events, kernels)] if rules.waits else []
    if len(rows):
        # The host's call of each synchronization, by correlation; -1 for none.
        calls = np.flatnonzero(on_runtime(trace) & (trace.correlation > 0))
        call = _picked(
            calls,
            entry_before(trace.correlation[calls], calls * 0, trace.correlation[rows], rows * 0),
        )
        pairs += _written(trace, events, kernels, keys, launch, rows, call, missing)
        between = _stream_waits(trace, events, kernels, keys, launch, rows, call, missing)
    else:
        missing.append(_without(rules))
        nothing = np.empty(0, dtype=np.int64)
        between = inferred_waits(kernels) if rules.inferred else (nothing, nothing)
        pairs += [_last_before_return(trace, events, kernels)] if rules.inferred else []
    empty = [np.empty(0, dtype=np.int64)]
    source = np.concatenate([s for s, _ in pairs] + empty)
    waiter = np.concatenate([c for _, c in pairs] + empty)
    # Work that ends after the call returned was not waited for.
    in_time = (kernels.end[source] <= events.end(waiter)) & (waiter >= 0)
    source, waiter = source[in_time], waiter[in_time]
    unblocked = np.full(len(events), NOT_BLOCKING, dtype=np.int64)
    # UNKNOWN first: any known end is later and replaces it.
    unblocked[named(trace, events, BLOCKING)] = UNKNOWN
    np.maximum.at(unblocked, waiter, kernels.end[source])
    return Syncs(source, waiter, between, unblocked, tuple(missing))


def sync_edges(
    events: Events, kernels: Kernels, syncs: Syncs, rules: Rules, edge_list: EdgeList
) -> None:
    """Add the edges from work on the device to the ends of the calls that waited for it. They weigh
    what the call still took when all that it waited for was done."""
    done = syncs.unblocked[syncs.call]
    waited = done > events.start(syncs.call)
    rest = np.where(waited & rules.waits, events.end(syncs.call) - done, 0)
    source, target = events.end_node[kernels.event[syncs.source]], events.end_node[syncs.call]
    edge_list.add(EdgeKind.SYNC_DEPENDENCY, source, target, rest, events.row[syncs.call])


def _without(rules: Rules) -> str:
    phrase = "inferred from times" if rules.inferred else "left out"
    return (
        f"no synchronization events in the trace: waits between streams and waits of the host "
        f"are {phrase}"
    )


def _picked(values: Int64, places: Int64) -> Int64:
    if not len(values):
        return np.full(len(places), -1, dtype=np.int64)
    return np.asarray(np.where(places >= 0, values[places], -1))


def _ids(trace: TraceColumns, name: str) -> Int64:
    return np.asarray(
        [i for i, trace_name in enumerate(trace.names) if trace_name == name], dtype=np.int64
    )


def _written(
    trace: TraceColumns,
    events: Events,
    kernels: Kernels,
    keys: Int64,
    launch: Int64,
    rows: Int64,
    call: Int64,
    missing: list[str],
) -> list[tuple[Int64, Int64]]:
    """Pairs (kernel, call) of stream, context and event synchronizations."""
    at = events.of_rows(len(trace))
    waiter = np.where(call >= 0, at[call], -1)
    pairs = []
    on = np.isin(trace.name[rows], _ids(trace, STREAM_SYNC)) & (waiter >= 0)
    source = entry_before(kernels.stream, kernels.start, keys[rows[on]], trace.end[rows[on]])
    pairs.append((source, waiter[on]))
    on = np.isin(trace.name[rows], _ids(trace, CONTEXT_SYNC)) & (waiter >= 0)
    pairs.append(_last_per_stream(kernels, trace.end[rows[on]], waiter[on]))
    on = np.isin(trace.name[rows], _ids(trace, EVENT_SYNC)) & (waiter >= 0)
    recorded = _recorded(trace, keys, launch, rows[on], missing)
    kernel = _kernel_of(events, kernels, len(trace), recorded)
    pairs.append((kernel, waiter[on]))
    return [(s[s >= 0], c[s >= 0]) for s, c in pairs]


def _last_per_stream(kernels: Kernels, ends: Int64, waiter: Int64) -> tuple[Int64, Int64]:
    """For each synchronization of a whole device the last kernel of each stream that had
    started."""
    streams = np.unique(kernels.stream)
    chosen = streams[: max(MAX_PAIRS // max(len(waiter), 1), 1)]
    query_streams = np.repeat(chosen, len(waiter))
    source = entry_before(kernels.stream, kernels.start, query_streams, np.tile(ends, len(chosen)))
    return source, np.tile(waiter, len(chosen))


def _recorded(
    trace: TraceColumns, keys: Int64, launch: Int64, rows: Int64, missing: list[str]
) -> Int64:
    """The row of the work that the event waited for stands for; -1 where it is not known."""
    correlations = (
        trace.arguments.number("wait_on_cuda_event_record_corr_id").at(rows, -1).astype(np.int64)
    )
    stream = trace.arguments.number("wait_on_stream").at(rows, -1).astype(np.int64)
    records = np.flatnonzero(on_runtime(trace) & (trace.correlation > 0))
    entry = entry_before(trace.correlation[records], records * 0, correlations, correlations * 0)
    record = _picked(records, entry)
    is_recorded = (record >= 0) & (correlations > 0) & (stream >= 0)
    if not is_recorded.all():
        missing.append(
            f"{int((~is_recorded).sum())} waits for events whose recording is not in the trace"
        )
    # Take the stream off the key: what remains is the device's part.
    device = keys[rows] - np.minimum(trace.stream[rows], (1 << 32) - 1) - 1
    work = np.flatnonzero(launch >= 0)
    if not len(work):
        return np.full(len(rows), -1, dtype=np.int64)
    work = work[np.argsort(trace.ts[work], kind="stable")]
    moment = np.where(is_recorded, trace.ts[record], NEVER)
    last = _picked(
        work, entry_before(keys[work], trace.ts[launch[work]], device + stream + 1, moment)
    )
    return np.where(is_recorded, last, -1)


def _kernel_of(events: Events, kernels: Kernels, length: int, rows: Int64) -> Int64:
    """Row of the trace -> kernel of the window; -1 for none."""
    table = np.full(length + 1, -1, dtype=np.int64)
    table[events.row[kernels.event]] = np.arange(len(kernels))
    return np.asarray(table[rows])


def _stream_waits(
    trace: TraceColumns,
    events: Events,
    kernels: Kernels,
    keys: Int64,
    launch: Int64,
    rows: Int64,
    call: Int64,
    missing: list[str],
) -> tuple[Int64, Int64]:
    """Pairs (source, target) of kernels: the target's stream waits for the source."""
    on = np.isin(trace.name[rows], _ids(trace, STREAM_WAIT)) & (call >= 0)
    waits, calls = rows[on], call[on]
    recorded = _recorded(trace, keys, launch, waits, missing)
    work = np.flatnonzero(launch >= 0)
    if not len(work) or not len(waits):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    work = work[np.argsort(trace.ts[work], kind="stable")]
    waiting_rows = _picked(
        work, entry_after(keys[work], trace.ts[launch[work]], keys[waits], trace.ts[calls])
    )
    source, target = (
        _kernel_of(events, kernels, len(trace), rows) for rows in (recorded, waiting_rows)
    )
    fits = (source >= 0) & (target >= 0)
    source, target = source[fits], target[fits]
    # Within one stream the order holds anyway.
    across = kernels.stream[source] != kernels.stream[target]
    return source[across], target[across]


def _copies_of_calls(trace: TraceColumns, events: Events, kernels: Kernels) -> tuple[Int64, Int64]:
    """Calls that copy and return when the copy is done, whatever their name says (pageable memory):
    the copy ran inside the call."""
    call = events.launch[kernels.event]
    memory = trace.in_category("gpu_memcpy", "memcpy")[events.row[kernels.event]] & (call >= 0)
    source = np.flatnonzero(memory)
    call = call[source]
    inside = kernels.end[source] <= events.end(call)
    return source[inside], call[inside]


def _last_before_return(
    trace: TraceColumns, events: Events, kernels: Kernels
) -> tuple[Int64, Int64]:
    """For each blocking call the work launched before it that ended last before it returned."""
    call = np.flatnonzero(named(trace, events, BLOCKING))
    zero_keys = np.zeros(len(kernels), dtype=np.int64)
    order, place = count_up_to(zero_keys, kernels.end, call * 0, events.end(call))
    if not len(order):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    source = order[np.maximum(place - 1, 0)]
    fits = (place > 0) & (kernels.launched[source] < events.start(call) + 1)
    return source[fits], call[fits]
