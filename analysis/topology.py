"""Who calls whom: from the topology table, else from spans whose parent belongs to another service."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from analysis.case_folder import Case


@dataclass(frozen=True)
class Topology:
    """A directed graph of services; an edge leads from caller to callee. Edges are unique and sorted."""

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

    def downstream(self, service: str) -> dict[str, int]:
        """All services it reaches by calls, with the number of hops (itself at 0)."""
        return _hops(service, self._callees)

    def upstream(self, service: str) -> dict[str, int]:
        """All services that reach it by calls, with the number of hops (itself at 0)."""
        return _hops(service, self._callers)

    @property
    def services(self) -> frozenset[str]:
        """All services on an edge."""
        return frozenset(s for edge in self.edges for s in edge)


def read_topology(case: Case) -> Topology:
    """The case's graph. Self-calls and edges without a name are left out."""
    if case.topology.height:
        return topology_of(case.topology.select("caller", "callee").iter_rows())
    return topology_of(call_edges(case.spans).select("caller", "callee").unique().iter_rows())


def topology_of(pairs: Iterable[tuple[str | None, str | None]]) -> Topology:
    """A topology of the given (caller, callee) pairs."""
    return Topology(tuple(sorted({(a, b) for a, b in pairs if a and b and a != b})))


def call_edges(spans: pl.DataFrame) -> pl.DataFrame:
    """One row per call between services: caller, callee, operation of the callee, start, and both durations (us)."""
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


def _hops(start: str, neighbours: dict[str, tuple[str, ...]]) -> dict[str, int]:
    seen = {start: 0}
    queue = deque([start])
    while queue:
        at = queue.popleft()
        for other in neighbours.get(at, ()):
            if other not in seen:
                seen[other] = seen[at] + 1
                queue.append(other)
    return seen
