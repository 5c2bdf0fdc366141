"""The lines of a map, from the side of one box to the side of another: where each begins and ends
there, so that they stand side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.bot.answer.pictures.map_alignment import Span
from faultline.bot.answer.pictures.service_map import FaultArrow, IncidentMap, MapBox, MapCall

# Where lines pass rows of boxes that are not theirs: through the lanes that are free there.
#
# Between two rows a line may run as it likes; through a row it runs straight, beside the boxes.

Point = tuple[float, float]

CLEAR = 3.0
"""Between a line and a box that it passes."""
APART = 5.0
"""Between two lines in one lane, where it has room for that."""
CROWD = 6.0
"""How far aside a line goes for a lane with one line less."""


@dataclass(frozen=True)
class BoxRow:
    """A row of boxes: their names, and where the row begins and ends from top to bottom."""

    names: tuple[str, ...]
    top: float
    bottom: float


Lane = tuple[float, float]
"""From where to where a row has no box."""


def ways_past(
    rows: Sequence[BoxRow],
    spans: Mapping[str, Span],
    calls: Sequence[tuple[str, str]],
    low: float,
    high: float,
) -> dict[tuple[str, str], tuple[Point, ...]]:
    """For each call the points at which its line enters and leaves the rows between its ends, from
    caller to callee. The calls that come first have the straightest ways."""
    row_of = {name: number for number, row in enumerate(rows) for name in row.names}
    lanes = [_lanes([spans[name] for name in row.names], low, high) for row in rows]
    crossings: dict[tuple[int, Lane], list[tuple[float, int]]] = {}
    for number, (caller, callee) in enumerate(calls):
        upper, lower = sorted((caller, callee), key=lambda name: row_of[name])
        x, end = spans[upper].centre, spans[lower].centre
        last = row_of[lower]
        for row in range(row_of[upper] + 1, last):
            # Aim at the end from where the line is now: earlier rows may have pushed it aside.
            straight = x + (end - x) / (last - row + 1)
            counts = [len(crossings.get((row, lane), ())) for lane in lanes[row]]
            lane = _nearest(lanes[row], counts, straight)
            x = _within(lane, straight)
            crossings.setdefault((row, lane), []).append((x, number))
    ways: dict[int, list[Point]] = {}
    # From top to bottom, so that the points of each line come in order.
    for (row, lane), lines in sorted(crossings.items()):
        for x, number in _side_by_side(lane, sorted(lines)):
            ways.setdefault(number, []).extend([(x, rows[row].top), (x, rows[row].bottom)])
    ways_pasts = {}
    for number, pair in enumerate(calls):
        points = ways.get(number, [])
        upwards = row_of[pair[0]] > row_of[pair[1]]
        ways_pasts[pair] = tuple(reversed(points) if upwards else points)
    return ways_pasts


def _lanes(boxes: Sequence[Span], low: float, high: float) -> list[Lane]:
    """The room beside and between the boxes of a row, from left to right."""
    edges = [low]
    for box in boxes:
        edges += [box.centre - box.size / 2 - CLEAR, box.centre + box.size / 2 + CLEAR]
    edges.append(high)
    # Boxes that nearly touch leave no lane between them.
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a <= b]


def _nearest(lanes: Sequence[Lane], counts: Sequence[int], x: float) -> Lane:
    """The lane that takes a line least aside, those with few lines before crowded ones."""
    aside = [abs(_within(lane, x) - x) for lane in lanes]
    costs = [way + CROWD * count for way, count in zip(aside, counts, strict=True)]
    return lanes[costs.index(min(costs))]


def _within(lane: Lane, x: float) -> float:
    return min(max(x, lane[0]), lane[1])


def _side_by_side(lane: Lane, lines: Sequence[tuple[float, int]]) -> list[tuple[float, int]]:
    """The lines of one lane in their order, apart from each other where there is room."""
    low, high = lane
    step = min(APART, (high - low) / max(1, len(lines) - 1))
    placed: list[tuple[float, int]] = []
    for place, (x, number) in enumerate(lines):
        least = placed[-1][0] + step if placed else low
        most = high - step * (len(lines) - 1 - place)
        placed.append((min(max(x, least), most), number))
    return placed


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
