"""The lines of a map, from the side of one box to the side of another: where each begins and ends
there, so that they stand side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.bot.answer.pictures.map_lanes import Point
from faultline.bot.answer.pictures.service_map import FaultArrow, IncidentMap, MapBox, MapCall

PORT = 9.0
"""Between the ends of two lines at one side of a box."""

Side = Literal["left", "right", "top", "bottom"]
Ways = dict[tuple[str, str], tuple[Point, ...]]
"""By caller and callee: where their line enters the ranks between them and leaves them again."""


@dataclass(frozen=True)
class PlacedBox:
    """A box; x and y are its upper left corner. `name` has one line or two."""

    box: MapBox
    name: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> Point:
        """Its centre."""
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True)
class PlacedLine:
    """A line from one box to another by way of its bends. `across` says that it runs from left to
    right, or back, rather than up or down."""

    of: MapCall | FaultArrow
    points: tuple[Point, ...]
    across: bool


@dataclass(frozen=True)
class PlacedBoxes:
    """The boxes, the ways of the lines between them, and for each box the edges of its row: a line
    turns aside only beyond them, as a neighbour may be taller."""

    boxes: dict[str, PlacedBox]
    ways: Ways
    rows: Mapping[str, tuple[float, float]]


def placed_lines(incident: IncidentMap, placed: PlacedBoxes, across: bool) -> list[PlacedLine]:
    """Calls first and arrows after them, so that these are drawn on top."""
    carried = {frozenset((arrow.start, arrow.end)) for arrow in incident.arrows}
    drawn: list[tuple[MapCall | FaultArrow, str, str]] = []
    for call in incident.calls:
        pair = frozenset((call.caller, call.callee))
        if pair not in carried:
            drawn.append((call, call.caller, call.callee))
            # Two services that call each other have one line.
            carried.add(pair)
    for arrow in incident.arrows:
        drawn.append((arrow, arrow.start, arrow.end))
    ways = [_way(start, end, placed, across) for _, start, end in drawn]
    arrows = {n for n, (of, *_) in enumerate(drawn) if isinstance(of, FaultArrow)}
    ports = _ports(ways, placed.boxes, arrows)
    lines = []
    for number, (of, start, end) in enumerate(drawn):
        way, first, last = ways[number], ports[number, 0], ports[number, 1]
        leaves = _at_row_edge(first, way.leaves, placed.rows.get(start))
        arrives = _at_row_edge(last, way.arrives, placed.rows.get(end))
        points = dict.fromkeys((first, leaves, *way.bends, arrives, last))
        lines.append(PlacedLine(of, tuple(points), way.across))
    return lines


def _at_row_edge(port: Point, side: Side, row: tuple[float, float] | None) -> Point:
    """Where a line from that side of a box leaves the box's row, straight on."""
    if row is None or side in ("left", "right"):
        return port
    return port[0], row[0] if side == "top" else row[1]


@dataclass(frozen=True)
class _Way:
    """A line before its ends have their places along the sides of the boxes."""

    start: str
    end: str
    leaves: Side
    arrives: Side
    bends: tuple[Point, ...]

    @property
    def across(self) -> bool:
        return self.leaves in ("left", "right")


def _way(start: str, end: str, placed: PlacedBoxes, across: bool) -> _Way:
    """From the side of one box that faces the other to the side that faces it."""
    # An arrow may run against its call: then its way is walked backwards.
    on_the_way = placed.ways.get((start, end)) or placed.ways.get((end, start), ())[::-1]
    a, b = placed.boxes[start], placed.boxes[end]
    (sx, sy), (ex, ey) = a.middle, b.middle
    beside = abs(sx - ex) >= (a.width + b.width) / 2
    apart = abs(sy - ey) >= (a.height + b.height) / 2
    if beside if across else not apart:
        sides: tuple[Side, Side] = ("right", "left") if ex > sx else ("left", "right")
    else:
        sides = ("bottom", "top") if ey > sy else ("top", "bottom")
    return _Way(start, end, *sides, on_the_way)


def _ports(
    ways: Sequence[_Way], placed: Mapping[str, PlacedBox], arrows: set[int]
) -> dict[tuple[int, int], Point]:
    """Where each line leaves (0) and arrives (1): side by side, in the order in which the lines
    come. An arrow that is alone at its side has the middle, and so runs straight."""
    sides: dict[tuple[str, Side], list[tuple[float, int, int]]] = {}
    for number, way in enumerate(ways):
        after = way.bends[0] if way.bends else placed[way.end].middle
        before = way.bends[-1] if way.bends else placed[way.start].middle
        axis = 1 if way.across else 0
        sides.setdefault((way.start, way.leaves), []).append((after[axis], number, 0))
        sides.setdefault((way.end, way.arrives), []).append((before[axis], number, 1))
    ports: dict[tuple[int, int], Point] = {}
    for (service, side), unsorted in sides.items():
        box = placed[service]
        ends = sorted(unsorted)
        middle = (len(ends) - 1) / 2
        places = [place for place, (_, number, _) in enumerate(ends) if number in arrows]
        if len(places) == 1:
            middle = places[0]
        # Keep off the rounded corners.
        room = (box.height if side in ("left", "right") else box.width) / 2 - 10
        step = min(PORT, room / max(1.0, middle, len(ends) - 1 - middle))
        for place, (_, number, which) in enumerate(ends):
            ports[number, which] = _port(box, side, (place - middle) * step)
    return ports


def _port(box: PlacedBox, side: Side, off: float) -> Point:
    x, y = box.middle
    match side:
        case "left":
            return box.x, y + off
        case "right":
            return box.x + box.width, y + off
        case "top":
            return x + off, box.y
        case "bottom":
            return x + off, box.y + box.height
