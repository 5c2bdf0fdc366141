"""The critical path of one rank in a window: the longest chain of work on host and device, one
waiting for the other.

Making anything else faster does not make the window shorter. Nodes are starts and ends of events,
edges are time inside operators and kernels, delays and dependencies, all as arrays; the longest
path is one sweep in order of time. Source: HTA's critical path analysis
(github.com/facebookresearch/HolisticTraceAnalysis); differences are documented.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import Int64, TraceColumns
from faultline.analysis.traces.native.device_work import longest_path
from faultline.analysis.traces.per_rank.critical_path_device import (
    Kernels,
    kernels_of,
    stream_edges,
    stream_keys,
)
from faultline.analysis.traces.per_rank.critical_path_events import (
    DEFAULT_RULES,
    EdgeKind,
    EdgeList,
    Edges,
    Events,
    PathWindow,
    Rules,
    events_of,
    whole_trace,
)
from faultline.analysis.traces.per_rank.critical_path_host import host_edges
from faultline.analysis.traces.per_rank.critical_path_syncs import sync_edges, syncs_of


@dataclass(frozen=True)
class CriticalPath:
    """The graph of a window and the longest path in it."""

    window: PathWindow
    events: Events
    edges: Edges
    path: Int64
    """Edges of the path, in order of time."""
    unblocked: Int64
    """Per event when what a blocking call waited for was done; see critical_path_syncs."""
    missing: tuple[str, ...]
    """What the trace does not tell, one line each."""
    lost: Mapping[str, int]
    """Edges that were left out, by reason."""

    @property
    def length_ns(self) -> int:
        """Sum of the weights on the path."""
        return int(self.edges.weight[self.path].sum())

    def nodes(self) -> Int64:
        """The path's nodes in order of time."""
        if not len(self.path):
            return np.empty(0, dtype=np.int64)
        # A path of n edges has n + 1 nodes: the first source, then every target.
        return np.concatenate((self.edges.source[self.path[:1]], self.edges.target[self.path]))

    def rows(self) -> Int64:
        """Rows of the trace whose start or end is on the path, ascending."""
        return np.unique(self.events.row[self.events.node_event[self.nodes()]])

    def length_without(self, rows: Int64) -> int:
        """How long the longest path would be if these events, and the delays before kernels of
        theirs, took no time; what they waited for stays. In ns."""
        removed = np.isin(self.edges.row, rows) & (self.edges.kind != EdgeKind.DEPENDENCY)
        weight = np.where(removed, 0, self.edges.weight)
        distance, _ = longest_path(
            self.events.node_count, self.edges.source, self.edges.target, weight, self.edges.order
        )
        return int(distance.max()) if len(distance) else 0


def critical_path(
    trace: TraceColumns, window: PathWindow | None = None, rules: Rules = DEFAULT_RULES
) -> CriticalPath:
    """The critical path of a window; of the whole trace where none is given. O(events log events).

    Traces without work on a device, without operators or without events give the path of what there
    is.
    """
    window = window or whole_trace(trace)
    events = events_of(trace, window, rules)
    launch, keys = launched_by(trace), stream_keys(trace)
    kernels = kernels_of(trace, events, keys, launch)
    syncs = syncs_of(trace, events, kernels, keys, launch, rules)
    edge_list = EdgeList(events)
    host_edges(trace, events, rules, edge_list, syncs.unblocked)
    stream_edges(trace, events, kernels, syncs.between, rules, edge_list)
    sync_edges(events, kernels, syncs, rules, edge_list)
    edges = edge_list.edges()
    path = _path(events.node_count, edges)
    missing = (*syncs.missing, *_unlaunched(events, kernels))
    lost = {reason: count for reason, count in edge_list.lost.items() if count}
    return CriticalPath(window, events, edges, path, syncs.unblocked, missing, lost)


def _unlaunched(events: Events, kernels: Kernels) -> list[str]:
    count = int((events.launch[kernels.event] < 0).sum())
    return [f"{count} kernels and copies without a launch in the trace"] if count else []


def _path(node_count: int, edges: Edges) -> Int64:
    """Edges of the longest path, first to last. Of equal ones the one with the earliest last
    edge."""
    if not len(edges):
        return np.empty(0, dtype=np.int64)
    distance, incoming = longest_path(
        node_count, edges.source, edges.target, edges.weight, edges.order
    )
    node, path_edges, sources = int(np.argmax(distance)), [], edges.source
    # Walk back from the farthest node to where its path began.
    while (edge := int(incoming[node])) >= 0:
        path_edges.append(edge)
        node = int(sources[edge])
    return np.asarray(path_edges[::-1], dtype=np.int64)
