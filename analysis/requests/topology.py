"""Who calls whom: the topology table, the service catalogue and spans together; without any of
them, labels of metrics.

A span whose parent belongs to another service is a call. Labels are those of service-graph and
service-mesh metrics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from analysis.case.folder import Case
from analysis.metrics.labels import labels_of
from analysis.requests.peers import peer_calls
from analysis.requests.visits import visits_of


@dataclass(frozen=True)
class Topology:
    """A directed graph of services; an edge leads from caller to callee. Edges are unique and
    sorted."""

    edges: tuple[tuple[str, str], ...]

    @cached_property
    def _callees(self) -> dict[str, tuple[str, ...]]:
        return _adjacency(self.edges)

    @cached_property
    def _callers(self) -> dict[str, tuple[str, ...]]:
        return _adjacency((b, a) for a, b in self.edges)

    def callees(self, service: str) -> tuple[str, ...]:
        """Services it calls directly."""
        return self._callees.get(service, ())

    def callers(self, service: str) -> tuple[str, ...]:
        """Services that call it directly."""
        return self._callers.get(service, ())

    def downstream(self, service: str, within: int | None = None) -> dict[str, int]:
        """All services it reaches by calls, `within` this many if given, with the number of hops
        (itself at 0)."""
        return self._reached(service, within, down=True)

    def upstream(self, service: str, within: int | None = None) -> dict[str, int]:
        """All services that reach it by calls, `within` this many if given, with the number of hops
        (itself at 0)."""
        return self._reached(service, within, down=False)

    def _reached(self, service: str, within: int | None, *, down: bool) -> dict[str, int]:
        """What a walk from the service reaches; the last walks are kept, since callers ask from the
        same service."""
        key = (service, within, down)
        if key not in self._walks:
            if len(self._walks) >= MAX_WALKS:
                self._walks.clear()
            self._walks[key] = _hops(service, self._callees if down else self._callers, within)
        return self._walks[key]

    @cached_property
    def _walks(self) -> dict[tuple[str, int | None, bool], dict[str, int]]:
        return {}

    @cached_property
    def services(self) -> frozenset[str]:
        """All services on an edge."""
        return frozenset(s for edge in self.edges for s in edge)


MAX_WALKS = 16
LABELS = (
    ("client", "server"),
    ("source_workload", "destination_workload"),
    ("source_app", "destination_app"),
    ("source_service_name", "destination_service_name"),
    ("client_service", "server_service"),
)
"""Caller and callee among a metric's labels: Tempo's service graphs, Istio's standard metrics."""


def read_topology(case: Case) -> Topology:
    """The case's graph. Self-calls and edges without a name are left out."""
    known = topology_of(
        (
            *case.topology.select("caller", "callee").iter_rows(),
            *case.scope.calls,
            *call_edges(case.spans).select("caller", "callee").unique().iter_rows(),
            *_peer_edges(case),
        )
    )
    return known if known.edges else topology_of(labelled_edges(case.metrics))


def _peer_edges(case: Case) -> list[tuple[str, str]]:
    if not case.spans.height:
        return []
    return sorted(peer_calls(visits_of(case)).select("caller", "callee").unique().iter_rows())


def labelled_edges(metrics: pl.DataFrame) -> list[tuple[str, str]]:
    """(caller, callee) of every series whose labels name both."""
    found = set()
    for text in metrics["labels"].drop_nulls().unique().to_list():
        labels = labels_of(text)
        for caller, callee in LABELS:
            a, b = labels.get(caller), labels.get(callee)
            if a is not None and b is not None:
                found.add((a, b))
                break
    return sorted(found)


def topology_of(pairs: Iterable[tuple[str | None, str | None]]) -> Topology:
    """A topology of the given (caller, callee) pairs."""
    return Topology(tuple(sorted({(a, b) for a, b in pairs if a and b and a != b})))


def call_edges(spans: pl.DataFrame) -> pl.DataFrame:
    """One row per call between services: caller, callee, operation of the callee, start, and both
    durations (us)."""
    parents = spans.select(
        "trace_id",
        pl.col("span_id").alias("parent_id"),
        pl.col("service").alias("caller"),
        pl.col("duration_us").alias("caller_us"),
    ).unique(["trace_id", "parent_id"], keep="first", maintain_order=True)
    calls = spans.join(parents, on=["trace_id", "parent_id"], how="inner")
    return calls.filter(pl.col("caller") != pl.col("service")).select(
        "caller",
        pl.col("service").alias("callee"),
        "operation",
        "start",
        "caller_us",
        pl.col("duration_us").alias("callee_us"),
    )


def _adjacency(edges: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    out: dict[str, list[str]] = {}
    for a, b in edges:
        out.setdefault(a, []).append(b)
    return {a: tuple(sorted(bs)) for a, bs in out.items()}


def _hops(start: str, neighbours: dict[str, tuple[str, ...]], within: int | None) -> dict[str, int]:
    seen = {start: 0}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        if seen[at] == within:
            continue
        for other in neighbours.get(at, ()):
            if other not in seen:
                seen[other] = seen[at] + 1
                queue.append(other)
    return seen
