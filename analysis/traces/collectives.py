"""Collectives: where each rank entered and left them, and which ones are the same across ranks.

Matched is the k-th collective of the same (operation, process group, elements) by start. Gloo runs them on two threads
in an order that differs between ranks, so threads are not compared; where shapes were not recorded the size is 0 for
all. Where counts differ between ranks (a profile that began one step earlier), only steps that all ranks recorded are
matched, each step on its own.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.traces.columns import Int64, TraceColumns
from analysis.traces.steps import Steps

SYNCHRONISING = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Operations that no rank can leave before every rank has entered; broadcast, send and gather are not."""

_OPERATION = re.compile(
    r"(?P<all_reduce>all_?reduce)|(?P<all_gather>all_?gather)|(?P<reduce_scatter>reduce_?scatter)"
    r"|(?P<all_to_all>all_?to_?all)|(?P<barrier>barrier)",
    re.IGNORECASE,
)
_EVENT = re.compile(r"^(?:gloo:|mpi:|(?:void )?(?:nccl|rccl)[A-Za-z]*)", re.IGNORECASE)

Key = tuple[int, str, str, int]


@dataclass(frozen=True)
class Collectives:
    """Matched collectives: rows are collectives in order of the last arrival, columns are ranks. Times in ns."""

    ranks: tuple[int, ...]
    operations: tuple[str, ...]
    start: Int64
    end: Int64
    unmatched: int
    """Collectives of any rank that have no counterpart on every other."""

    def __len__(self) -> int:
        return len(self.operations)


def matched_collectives(traces: Sequence[TraceColumns], steps: Sequence[Steps]) -> Collectives:
    """Match the collectives of one trace per rank (same order as `steps`)."""
    by_key = [_occurrences(trace, None) for trace in traces]
    seen = sum(len(rows) for own in by_key for rows in own.values())
    if any({k: len(v) for k, v in own.items()} != {k: len(v) for k, v in by_key[0].items()} for own in by_key[1:]):
        by_key = [_occurrences(trace, own) for trace, own in zip(traces, steps, strict=True)]
    pairs: list[tuple[str, list[int]]] = []
    for key, first in by_key[0].items() if by_key else ():
        others = [own.get(key, []) for own in by_key]
        if all(len(rows) == len(first) for rows in others):
            pairs += [(key[1], list(rows)) for rows in zip(*others, strict=True)]
    return _in_order(traces, pairs, seen)


def operation_of(name: str, collective: str = "") -> str | None:
    """The synchronising operation behind an event's name ("gloo:all_reduce", "ncclDevKernel_AllGather_RING_LL")."""
    if not _EVENT.match(name):
        return None
    found = _OPERATION.search(collective) or _OPERATION.search(name)
    return found.lastgroup if found else None


def is_communication(name: str) -> bool:
    """Whether the event is one of a communication library's."""
    return _EVENT.match(name) is not None


def _occurrences(trace: TraceColumns, steps: Steps | None) -> dict[Key, list[int]]:
    """Rows by key and start. Without steps all are in step 0; with steps, those outside any step are left out."""
    rows = trace.rows_named(is_communication)
    on_device = trace.in_category("kernel")
    if on_device[rows].any():
        rows = rows[on_device[rows]]
    found: dict[Key, list[int]] = defaultdict(list)
    collective = trace.arguments.text("Collective name").at(rows)
    group = trace.arguments.text("Process Group Name").at(rows)
    elements = trace.arguments.number("In msg nelems").at(rows, 0)
    dims = trace.arguments.text("Input Dims").at(rows)
    for i, row in enumerate(rows.tolist()):
        operation = operation_of(trace.name_of(row), collective[i])
        step = 0 if steps is None else steps.at(int(trace.ts[row]))
        if operation is not None and step is not None:
            found[(step, operation, group[i], int(elements[i]) or elements_of(dims[i]))].append(row)
    return found


def elements_of(dims: str) -> int:
    """Elements over all inputs, from shapes like [[65792]]; 0 where there are none."""
    try:
        shapes = json.loads(dims or "[]")
    except (ValueError, RecursionError):
        return 0
    total = 0
    for shape in shapes if isinstance(shapes, list) else ():
        if isinstance(shape, list) and shape and all(isinstance(n, int) for n in shape):
            total += math.prod(shape[:16])
    return total


def _in_order(traces: Sequence[TraceColumns], pairs: list[tuple[str, list[int]]], seen: int) -> Collectives:
    shape = (len(pairs), len(traces))
    start, end = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    for column, trace in enumerate(traces):
        rows = np.asarray([p[1][column] for p in pairs], dtype=np.int64)
        start[:, column], end[:, column] = trace.ts[rows], trace.end[rows]
    order = np.argsort(start.max(axis=1), kind="stable") if pairs else np.empty(0, dtype=np.int64)
    return Collectives(
        ranks=tuple(t.rank for t in traces),
        operations=tuple(pairs[i][0] for i in order),
        start=start[order],
        end=end[order],
        unmatched=seen - len(pairs) * len(traces),
    )


def clock_offsets(collectives: Collectives, hosts: Sequence[str | None]) -> Int64:
    """How far each rank's clock is ahead of the first host's, ns: ranks leave a collective together.

    Zero for all where every rank ran on one host. Ranks of one host share the median difference of their ends.
    """
    offsets = np.zeros(len(hosts), dtype=np.int64)
    if len(set(hosts)) < 2 or not len(collectives):
        return offsets
    first = [i for i, host in enumerate(hosts) if host == hosts[0]]
    reference = collectives.end[:, first].mean(axis=1)
    for host in set(hosts) - {hosts[0]}:
        mine = [i for i, own in enumerate(hosts) if own == host]
        offsets[mine] = int(np.median(collectives.end[:, mine] - reference[:, None]))
    return offsets


def impossible_share(collectives: Collectives, tolerance_ns: int) -> float:
    """Share of collectives that some rank left before another had entered: clocks or matching are wrong there."""
    if not len(collectives):
        return 0.0
    early = collectives.end.min(axis=1) + tolerance_ns < collectives.start.max(axis=1)
    return float(early.mean())
