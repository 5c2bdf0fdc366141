"""Prefill and decode of an inference server: time, tokens and kernels of each phase.

Passes are the ranges of `columns/serving.py`. Work on the device belongs to the pass that launched
it. Where a profile has no host, the ranges that the profiler copied to the device count.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.device import Kind, device_launches, device_work
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.columns.intervals import innermost_at, total
from faultline.analysis.traces.columns.row_table import INT, TEXT, Rows, RowTable, rounded
from faultline.analysis.traces.columns.serving import PHASES, ForwardPass, pass_of

MAX_NAME = 256


@dataclass(frozen=True)
class ServingPasses:
    """The forward passes of a trace, by start, and the work on the device that is theirs."""

    row: Int64
    passes: list[ForwardPass]
    of_work: Int64
    """For each entry of `device_work` the index of its pass; -1 for none."""


def serving_passes(trace: TraceColumns) -> ServingPasses:
    """All passes; none where the trace is no server's. O((passes + work) log)."""
    host = _rows(trace, ~trace.in_category("gpu_user_annotation"))
    work = device_work(trace)
    launch = device_launches(trace)
    if len(host):
        of_work = np.full(len(work), -1, dtype=np.int64)
        indexes = np.flatnonzero(launch >= 0)
        of_work[indexes] = innermost_at(
            trace.ts[host],
            trace.end[host],
            trace.lane[host],
            trace.ts[launch[indexes]],
            trace.lane[launch[indexes]],
        )
        return ServingPasses(host, _passes(trace, host), of_work)
    device = _rows(trace, trace.in_category("gpu_user_annotation"))
    # Streams beside the one with the range do work for the same pass.
    single_lane = np.zeros(len(device), dtype=np.int64)
    of_work = innermost_at(
        trace.ts[device],
        trace.end[device],
        single_lane,
        work.start,
        np.zeros(len(work), dtype=np.int64),
    )
    return ServingPasses(device, _passes(trace, device), of_work)


TABLE = RowTable(
    TEXT("server", "phase"),
    INT("passes", "pass_total_ns"),
    rounded(0, "pass_median_ns"),
    INT("pass_max_ns", "device_ns", "communication_ns", "copy_ns", "kernels"),
    rounded(1, "kernels_per_pass"),
    INT("prefill_requests", "prefill_tokens", "decode_requests", "decode_tokens"),
    rounded(1, "device_ns_per_token"),
    TEXT("top_kernel"),
    INT("top_kernel_ns"),
)


def rows(trace: TraceColumns) -> Rows:
    """One row per server and phase; [] for other traces."""
    serving = serving_passes(trace)
    if not len(serving.row):
        return []
    kinds = [(forward_pass.server, forward_pass.phase) for forward_pass in serving.passes]
    rows = []
    # Each server once, in the order of its first pass.
    for server in dict.fromkeys(server for server, _ in kinds):
        for phase in PHASES:
            which = np.asarray([kind == (server, phase) for kind in kinds], dtype=np.bool_)
            if which.any():
                rows.append({"server": server, "phase": phase, **_phase(trace, serving, which)})
    return rows


def _phase(trace: TraceColumns, serving: ServingPasses, which: NDArray[np.bool_]) -> dict[str, Any]:
    passes = [
        forward_pass
        for forward_pass, mine in zip(serving.passes, which.tolist(), strict=True)
        if mine
    ]
    lengths = trace.dur[serving.row[which]]
    work = device_work(trace)
    # -1 has no pass: clamp it for the look-up, the first condition leaves it out.
    phase_work = work.only((serving.of_work >= 0) & which[np.maximum(serving.of_work, 0)])
    on_device = total(phase_work.start, phase_work.end)
    prefilled, made = _sum(passes, "prefill_tokens"), _sum(passes, "decode_tokens")
    tokens = None if prefilled is None or made is None else prefilled + made
    kernels = phase_work.only(phase_work.kind != Kind.MEMORY)
    names: Counter[str] = Counter()
    for row, length in zip(
        kernels.row.tolist(), (kernels.end - kernels.start).tolist(), strict=True
    ):
        names[trace.name_of(row)[:MAX_NAME]] += length
    top = names.most_common(1)
    return TABLE.row(
        passes=len(passes),
        pass_total_ns=lengths.sum(),
        pass_median_ns=float(np.median(lengths)),
        pass_max_ns=lengths.max(),
        device_ns=on_device,
        communication_ns=total(*phase_work.of(Kind.COMMUNICATION)),
        copy_ns=total(*phase_work.of(Kind.MEMORY)),
        kernels=len(kernels),
        kernels_per_pass=len(kernels) / len(passes),
        prefill_requests=_sum(passes, "prefill_requests"),
        prefill_tokens=prefilled,
        decode_requests=_sum(passes, "decode_requests"),
        decode_tokens=made,
        device_ns_per_token=on_device / tokens if tokens and on_device else None,
        top_kernel=top[0][0] if top else None,
        top_kernel_ns=top[0][1] if top else None,
    )


def _rows(trace: TraceColumns, mask: NDArray[np.bool_]) -> Int64:
    pass_rows = trace.rows_named(lambda name: pass_of(name) is not None)
    return pass_rows[mask[pass_rows]]


def _passes(trace: TraceColumns, rows: Int64) -> list[ForwardPass]:
    passes = [pass_of(trace.name_of(row)) for row in rows.tolist()]
    return [forward_pass for forward_pass in passes if forward_pass is not None]


def _sum(passes: list[ForwardPass], what: str) -> int | None:
    """None where one pass does not say."""
    whole = 0
    for forward_pass in passes:
        number = getattr(forward_pass, what)
        if number is None:
            return None
        whole += number
    return whole
