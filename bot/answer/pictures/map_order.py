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
    ranks: dict[int, list[tuple[float, Place]]] = {}
    bends: dict[tuple[str, str], tuple[int, ...]] = {}
    right = 0.0
    bend = 0
    for part in _parts(services, calls):
        placed = _placed(part, calls, bend)
        for place, rank, along in placed.places:
            ranks.setdefault(rank, []).append((right + along, place))
        right += 1 + max(along for _, _, along in placed.places)
        bends |= placed.bends
        bend += len(placed.places)
    in_order = []
    for rank in sorted(ranks):
        row = sorted(ranks[rank], key=lambda position: position[0])
        in_order.append(tuple(place for _, place in row))
    return MapOrder(tuple(in_order), bends)


def _parts(services: Sequence[str], calls: Sequence[tuple[str, str]]) -> list[list[str]]:
    """The services in parts between which there are no calls."""
    beside: dict[str, set[str]] = {name: set() for name in services}
    for caller, callee in calls:
        beside[caller].add(callee)
        beside[callee].add(caller)
    parts: list[list[str]] = []
    visited_names: set[str] = set()
    for name in services:
        if name in visited_names:
            continue
        part = {name}
        waiting = [name]
        while waiting:
            new = beside[waiting.pop()] - part
            part |= new
            waiting += new
        visited_names |= part
        parts.append([service for service in services if service in part])
    return parts


@dataclass(frozen=True)
class _Placed:
    """The places of one part: each with its rank and how far along it stands."""

    places: tuple[tuple[Place, int, float], ...]
    bends: Mapping[tuple[str, str], tuple[int, ...]]


def _placed(part: Sequence[str], calls: Sequence[tuple[str, str]], bend: int) -> _Placed:
    """One part as the library lays it out. Its own bends are numbered from `bend` on."""
    # Numbered without a gap: the library gives its bends the numbers after the last service, and
    # mixes them up where it is given several parts at once.
    number = {name: n for n, name in enumerate(part)}
    edges = []
    for caller, callee in calls:
        if caller in number and caller != callee:
            edges.append((number[caller], number[callee]))
    if not edges:
        return _Placed(((part[0], 0, 0.0),), {})
    layout = from_edges(without_cycles(edges), vertex_spacing=1, dummy_vertices=True)
    # One connected part has one layout.
    [(positions, _, _, lines)] = layout
    # The library's y grows upwards, and callers come first.
    top = max(y for _, (_, y) in positions)
    left = min(x for _, (x, _) in positions)
    names: dict[int, Place] = {}
    places = []
    for n, (x, y) in positions:
        place: Place = part[int(n)] if int(n) < len(part) else bend + len(names)
        names[int(n)] = place
        places.append((place, round(top - y), x - left))
    links = [(int(start), int(end)) for start, end in lines or ()]
    return _Placed(tuple(places), _bends(links, names, len(part)))


def _bends(
    links: Sequence[tuple[int, int]], names: Mapping[int, Place], services: int
) -> dict[tuple[str, str], tuple[int, ...]]:
    """The bends of each call, followed from its caller to its callee."""
    following = {start: end for start, end in links if start >= services}
    ways: dict[tuple[str, str], tuple[int, ...]] = {}
    for start, end in links:
        if start >= services:
            continue
        way = []
        at = end
        while at >= services:
            way.append(int(names[at]))
            at = following[at]
        ways[str(names[start]), str(names[at])] = tuple(way)
    return ways


def without_cycles(edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The calls, those that lead back to a caller the other way round. The library could turn them
    itself, but not so that the users stay first."""
    callees: dict[int, list[int]] = {}
    # Sorted: the same calls give the same map.
    for caller, callee in sorted(edges):
        callees.setdefault(caller, []).append(callee)
    called = {callee for _, callee in edges}
    acyclic: list[tuple[int, int]] = []
    done: set[int] = set()
    # Starting at services that nobody calls shows which call closes a cycle.
    for start in sorted(callees, key=lambda callee: (callee in called, callee)):
        if start not in done:
            _walk(start, callees, done, acyclic)
    return list(dict.fromkeys(acyclic))


def _walk(
    start: int, callees: Mapping[int, Sequence[int]], done: set[int], acyclic: list[tuple[int, int]]
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
            acyclic.append((callee, at))
            continue
        acyclic.append((at, callee))
        if callee not in done:
            path.append(callee)
            left[callee] = list(callees.get(callee, ()))
