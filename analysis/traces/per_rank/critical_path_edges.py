"""Edges of the critical path's graph: their kinds, and a place to gather them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property

import numpy as np

from faultline.analysis.traces.columns.events import Int64
from faultline.analysis.traces.per_rank.critical_path_events import Events

Int8 = np.ndarray[tuple[int], np.dtype[np.int8]]


class EdgeKind(IntEnum):
    """What an edge stands for."""

    OPERATOR = 0
    """Time inside an operator, a runtime call or a kernel."""
    DEPENDENCY = 1
    """One thing after another on a thread, or a kernel after its launch."""
    SYNC_DEPENDENCY = 2
    """The end of work on the device that a call of the host, or work on another stream, waited
    for."""
    LAUNCH_DELAY = 3
    """From a launch to the start of its kernel on an idle stream."""
    KERNEL_KERNEL_DELAY = 4
    """Between two kernels of one stream."""


HTA_NAMES = {
    EdgeKind.OPERATOR: "critical_path_operator",
    EdgeKind.DEPENDENCY: "critical_path_dependency",
    EdgeKind.SYNC_DEPENDENCY: "critical_path_sync_dependency",
    EdgeKind.LAUNCH_DELAY: "critical_path_kernel_launch_delay",
    EdgeKind.KERNEL_KERNEL_DELAY: "critical_path_kernel_kernel_delay",
}
"""The names of the kinds in traces with the path drawn in."""


@dataclass(frozen=True)
class Edges:
    """All edges of a graph: node to node, time in ns, and the trace's row that the time belongs to
    (-1: none)."""

    source: Int64
    target: Int64
    kind: Int8
    weight: Int64
    row: Int64

    def __len__(self) -> int:
        return len(self.source)

    @cached_property
    def order(self) -> Int64:
        """The edges by source: a topological order."""
        return np.argsort(self.source, kind="stable")


@dataclass
class EdgeList:
    """Edges as they are found. What would lead back in time is left out and counted in `lost`."""

    events: Events
    parts: list[tuple[Int64, Int64, Int8, Int64, Int64]] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)

    def add(
        self, kind: EdgeKind, source: Int64, target: Int64, weight: Int64 | int, row: Int64 | int
    ) -> None:
        """Nodes, ns and rows of edges of one kind; one number stands for a whole column."""
        # Nodes are numbered in order of time: a lower target would lead back.
        forward = source < target
        self.lost["edges against time"] += int((~forward).sum())
        count = int(forward.sum())
        self.parts.append(
            (
                source[forward],
                target[forward],
                np.full(count, kind, dtype=np.int8),
                _column(weight, len(forward))[forward],
                _column(row, len(forward))[forward],
            )
        )

    def add_time(self, kind: EdgeKind, source: Int64, target: Int64, row: Int64 | int) -> None:
        """Edges that weigh the time between their nodes."""
        time = self.events.node_time
        self.add(kind, source, target, time[target] - time[source], row)

    def edges(self) -> Edges:
        """All of them."""
        if not self.parts:
            empty = np.empty(0, dtype=np.int64)
            return Edges(empty, empty, np.empty(0, dtype=np.int8), empty, empty)
        return Edges(*(np.concatenate(column) for column in zip(*self.parts, strict=True)))


def _column(values: Int64 | int, length: int) -> Int64:
    return np.broadcast_to(np.asarray(values, dtype=np.int64), length)


def count_up_to(
    keys: Int64, times: Int64, query_keys: Int64, query_times: Int64
) -> tuple[Int64, Int64]:
    """As-of lookup: an order of the entries by (key, time), and for each question how many of them
    lie up to it.

    The entry before a question is `order[place - 1]`, the one after it `order[place]`, where their
    key is the asked one. O(n log n).
    """
    count = len(keys)
    # At one time entries sort before questions, so that "up to" includes them.
    kind = np.repeat(np.asarray([0, 1]), [count, len(query_keys)])
    together = np.lexsort(
        (kind, np.concatenate((times, query_times)), np.concatenate((keys, query_keys)))
    )
    entry = together < count
    place = np.empty(len(together), dtype=np.int64)
    place[together] = np.cumsum(entry)
    return together[entry], place[count:]


def entry_before(keys: Int64, times: Int64, query_keys: Int64, query_times: Int64) -> Int64:
    """For each question the last entry of its key with a time up to it; -1 where there is none."""
    order, place = count_up_to(keys, times, query_keys, query_times)
    return _entries(keys, order, place - 1, query_keys)


def entry_after(keys: Int64, times: Int64, query_keys: Int64, query_times: Int64) -> Int64:
    """For each question the first entry of its key with a later time; -1 where there is none."""
    order, place = count_up_to(keys, times, query_keys, query_times)
    return _entries(keys, order, place, query_keys)


def _entries(keys: Int64, order: Int64, place: Int64, query_keys: Int64) -> Int64:
    if not len(order):
        return np.full(len(query_keys), -1, dtype=np.int64)
    # Clip for a safe look-up; `fits` rejects the places outside.
    entries = order[np.clip(place, 0, len(order) - 1)]
    fits = (place >= 0) & (place < len(order)) & (keys[entries] == query_keys)
    return np.asarray(np.where(fits, entries, -1), dtype=np.int64)
