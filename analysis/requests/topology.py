"""The calls between services, as a graph."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from faultline.analysis.case.folder import Case
from faultline.analysis.requests.case_calls import case_calls


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
            # Drop all of them at once: only the latest service is asked again.
            if len(self._walks) >= MAX_WALKS:
                self._walks.clear()
            neighbours = self._callees if down else self._callers
            hops = {service: 0}
            queue = deque([service])
            while queue:
                at = queue.popleft()
                # The walk is breadth first, so beyond this distance nothing is nearer.
                if hops[at] == within:
                    continue
                for other in neighbours.get(at, ()):
                    if other not in hops:
                        hops[other] = hops[at] + 1
                        queue.append(other)
            self._walks[key] = hops
        return self._walks[key]

    @cached_property
    def _walks(self) -> dict[tuple[str, int | None, bool], dict[str, int]]:
        return {}

    @cached_property
    def services(self) -> frozenset[str]:
        """All services on an edge."""
        return frozenset(s for edge in self.edges for s in edge)


MAX_WALKS = 16


def read_topology(case: Case) -> Topology:
    """The case's graph. Self-calls and edges without a name are left out."""
    return topology_of(call.pair for call in case_calls(case))


def topology_of(pairs: Iterable[tuple[str | None, str | None]]) -> Topology:
    """A topology of the given (caller, callee) pairs."""
    return Topology(tuple(sorted({(a, b) for a, b in pairs if a and b and a != b})))


def _adjacency(edges: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    out: dict[str, list[str]] = {}
    for a, b in edges:
        out.setdefault(a, []).append(b)
    return {a: tuple(sorted(bs)) for a, bs in out.items()}
