"""The order of a map: callers before the services that they call, and beside each other so that few
lines cross. fast-sugiyama finds it.

A call that spans several ranks passes each rank between by a bend, so that its line runs around the
boxes there and not behind them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fast_sugiyama import from_edges

Place = str | int
"""A service by its name, or a bend by its number."""


@dataclass(frozen=True)
class MapOrder:
    """The ranks, callers first, each in its order; and the bends of each call that has some."""

    ranks: tuple[tuple[Place, ...], ...]
    bends: Mapping[tuple[str, str], tuple[int, ...]]

    @property
    def longest(self) -> int:
        """How many services the longest rank has."""
        return max(len(self.services(number)) for number in range(len(self.ranks)))

    def services(self, rank: int) -> list[str]:
        """Those of one rank."""
        return [place for place in self.ranks[rank] if isinstance(place, str)]

    def links(self) -> list[tuple[Place, Place]]:
        """Each pair of places of neighbouring ranks between which a line with bends runs."""
        pairs: list[tuple[Place, Place]] = []
        for (caller, callee), bends in self.bends.items():
            way: list[Place] = [caller, *bends, callee]
            pairs += pairwise(way)
        return pairs


def ordered(services: Sequence[str], calls: Sequence[tuple[str, str]]) -> MapOrder:
    """The order of these services. A service without calls stands in the first rank."""
    number = {name: n for n, name in enumerate(services)}
    edges = without_cycles([(number[caller], number[callee]) for caller, callee in calls])
    ranks: dict[int, list[tuple[float, Place]]] = {}
    bends: dict[tuple[str, str], tuple[int, ...]] = {}
    right = 0.0
    bend = 0
    for positions, _, _, lines in from_edges(edges, vertex_spacing=1, dummy_vertices=True):
        names: dict[int, Place] = {}
        for n, _ in positions:
            # Numbers beyond the services are bends; the library counts them anew in each part.
            bend += 1
            names[int(n)] = services[int(n)] if int(n) < len(services) else bend
        top = max(y for _, (_, y) in positions)
        left = min(x for _, (x, _) in positions)
        for n, (x, y) in positions:
            ranks.setdefault(round(top - y), []).append((right + x - left, names[int(n)]))
        right += 1 + max(x for _, (x, _) in positions) - left
        links = [(int(a), int(b)) for a, b in lines or ()]
        bends |= _bends(links, names, len(services))
    known = {place for rank in ranks.values() for _, place in rank}
    for name in services:
        if name not in known:
            ranks.setdefault(0, []).append((right, name))
            right += 1
    in_order = []
    for rank in sorted(ranks):
        row = sorted(ranks[rank], key=lambda one: one[0])
        in_order.append(tuple(place for _, place in row))
    return MapOrder(tuple(in_order), bends)


def _bends(
    links: Sequence[tuple[int, int]], names: Mapping[int, Place], services: int
) -> dict[tuple[str, str], tuple[int, ...]]:
    """The bends of each call, followed from its caller to its callee."""
    following = {start: end for start, end in links if start >= services}
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    for start, end in links:
        if start >= services:
            continue
        way = []
        at = end
        while at >= services:
            way.append(int(names[at]))
            at = following[at]
        found[str(names[start]), str(names[at])] = tuple(way)
    return found


def without_cycles(edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The calls, those that lead back to a caller the other way round, and none of a service to
    itself: at that the library ends the process."""
    callees: dict[int, list[int]] = {}
    for caller, callee in sorted(edges):
        callees.setdefault(caller, []).append(callee)
    called = {callee for _, callee in edges}
    kept: list[tuple[int, int]] = []
    done: set[int] = set()
    # From those whom nobody calls: so a way back is told from a way on.
    for start in sorted(callees, key=lambda one: (one in called, one)):
        if start not in done:
            _walk(start, callees, done, kept)
    return list(dict.fromkeys(kept))


def _walk(
    start: int, callees: Mapping[int, Sequence[int]], done: set[int], kept: list[tuple[int, int]]
) -> None:
    """Depth first from `start`, turning each call that leads back to where we come from."""
    path = [start]
    left = {start: list(callees.get(start, ()))}
    while path:
        at = path[-1]
        if not left[at]:
            done.add(path.pop())
            continue
        callee = left[at].pop(0)
        if callee in path:
            if callee != at:
                kept.append((callee, at))
            continue
        kept.append((at, callee))
        if callee not in done:
            path.append(callee)
            left[callee] = list(callees.get(callee, ()))
