"""Where the boxes of a map stand and how its lines run: callers left and callees right on a wide
picture, callers above and callees below on a narrow one.

The order comes from `map_order`. What no library for layouts knows is the width of the picture:
ranks that are too long for it are broken here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from faultline.bot.answer.pictures.map_alignment import BESIDE, Span, aligned, moved_within
from faultline.bot.answer.pictures.map_lines import (
    BoxRow,
    PlacedBox,
    PlacedBoxes,
    PlacedLine,
    Point,
    Ways,
    placed_lines,
    ways_past,
)
from faultline.bot.answer.pictures.map_order import MapOrder, Place, ordered
from faultline.bot.answer.pictures.service_map import IncidentMap, MapBox
from faultline.bot.answer.pictures.svg import wrapped

WIDE = 500
"""From here on a picture has room for a chain of calls from left to right."""
MOST_COLUMNS, MOST_IN_A_COLUMN = 5, 8
"""Of a wide picture: more would leave no room for the names, or be taller than a screen."""
MOST_WITHOUT_COLUMN = 12
"""Services of a map; with more of them the arrows get a column for themselves."""
MARGIN = 2.0
WIDEST_BOX, NARROWEST_BOX = 160.0, 98.0
"""In the narrowest one "nothing found" has room."""
COLUMN_GAP, ROW_GAP = 34.0, 32.0
"""From one rank to the next at least, where the lines run."""
LANE = 18.0
"""Between two boxes of a row that lines of other rows pass."""
BEND = -4.0
"""The room of a line that passes a rank, beside the space that every place has around it: a line
needs less of that than a box."""
LINE = 16.0
PADDING = 10.0
INSIDE = 5.0
"""Between a box's edge and its words."""
NAME, STATE = 13.0, 12.0
"""Sizes of the type, as in pictures.css."""
ARROW_WEIGHT = 300.0
"""How much more than a call an arrow pulls its two boxes into one line."""

Pair = tuple[Point, Point]


@dataclass(frozen=True)
class MapLayout:
    """The map with places."""

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    lines: tuple[PlacedLine, ...]


def laid_out(incident: IncidentMap, width: int) -> MapLayout:
    """The map in a picture of that width."""
    pairs = [(call.caller, call.callee) for call in incident.calls]
    order = ordered(_from_users_on(incident), pairs)
    count = len(order.ranks)
    # Boxes without calls stand side by side.
    across = width >= WIDE and 1 < count <= MOST_COLUMNS and order.longest <= MOST_IN_A_COLUMN
    # How much each pair of neighbours wants to stand in one line.
    arrows = {frozenset((arrow.start, arrow.end)) for arrow in incident.arrows}
    weights: dict[tuple[Place, Place], float] = {}
    for place, other in order.links():
        weight = ARROW_WEIGHT if frozenset((place, other)) in arrows else 1.0
        weights[place, other] = weights[other, place] = weight
    if across:
        placed = _columns(incident, order, weights, width)
    elif max(_length(rank) for rank in order.ranks) <= width - 2 * MARGIN:
        placed = _rows(incident, order, weights, width)
    else:
        placed = _broken_rows(incident, order, width)
    lines = placed_lines(incident, placed, across)
    height = max(box.y + box.height for box in placed.boxes.values())
    for line in lines:
        height = max([height, *(y for _, y in line.points)])
    height += MARGIN
    return MapLayout(width, height, tuple(placed.boxes.values()), tuple(lines))


def _from_users_on(incident: IncidentMap) -> list[str]:
    """The services, those farthest from the cause first: where calls go in a circle, the order
    begins with them."""
    ends = [arrow.end for arrow in reversed(incident.arrows)]
    return list(dict.fromkeys([*ends, *(box.service for box in incident.boxes)]))


def _columns(
    incident: IncidentMap,
    order: MapOrder,
    weights: Mapping[tuple[Place, Place], float],
    width: int,
) -> PlacedBoxes:
    """One column for each rank, spread over the width."""
    count = len(order.ranks)
    room = width - 2 * MARGIN
    wide = min(WIDEST_BOX, (room - COLUMN_GAP * (count - 1)) / count)
    step = (room - wide) / max(1, count - 1)
    # Few ranks do not need the whole width.
    step = min(step, wide + 3 * COLUMN_GAP)
    left = (width - wide - step * (count - 1)) / 2
    boxes = {box.service: _sized(box, wide) for box in incident.boxes}

    def tall(place: Place) -> float:
        return boxes[place].height if isinstance(place, str) else BEND

    spans = aligned(order.ranks, tall, weights)
    top = min(span.centre - max(0.0, span.size) / 2 for span in spans.values()) - MARGIN
    bends: dict[int, Pair] = {}
    for number, rank in enumerate(order.ranks):
        for place in rank:
            x, y = left + number * step, spans[place].centre - top
            if isinstance(place, str):
                boxes[place] = replace(boxes[place], x=x, y=y - tall(place) / 2)
            else:
                bends[place] = (x, y), (x + wide, y)
    return PlacedBoxes(boxes, _by_bends(order, bends), {})


def _by_bends(order: MapOrder, bends: Mapping[int, Pair]) -> Ways:
    ways = {}
    for pair, numbers in order.bends.items():
        ways[pair] = tuple(point for number in numbers for point in bends[number])
    return ways


def _rows(
    incident: IncidentMap,
    order: MapOrder,
    weights: Mapping[tuple[Place, Place], float],
    width: int,
) -> PlacedBoxes:
    """One row for each rank."""
    sizes = _sizes(order.ranks, width - 2 * MARGIN)
    spans = aligned(order.ranks, lambda place: sizes[place], weights)
    spans = moved_within(order.ranks, spans, MARGIN, width - MARGIN)
    stack = _stacked(incident, order.ranks, range(len(order.ranks)), spans)
    return stack.with_ways(_by_bends(order, stack.bends))


def _broken_rows(incident: IncidentMap, order: MapOrder, width: int) -> PlacedBoxes:
    """Several rows for a rank that is too long for the width: lines pass them in lanes."""
    fit = max(1, int((width - 2 * MARGIN + LANE) // (NARROWEST_BOX + LANE)))
    story = frozenset(box.service for box in incident.boxes if box.role != "other")
    broken = _broken(order, fit, story)
    spans = broken.spans(width)
    rows = [[name for name in row if name] for row in broken.rows]
    stack = _stacked(incident, rows, broken.ends, spans)
    pairs = [(call.caller, call.callee) for call in incident.calls]
    box_spans = {name: spans[name] for name in stack.boxes}
    return stack.with_ways(ways_past(stack.rows, box_spans, pairs, MARGIN, width - MARGIN))


@dataclass(frozen=True)
class _Stack:
    """Rows from top to bottom, with their boxes. `bends` are the points at which lines enter and
    leave the rows that they pass."""

    rows: Sequence[BoxRow]
    boxes: dict[str, PlacedBox]
    bends: Mapping[int, Pair]

    def with_ways(self, ways: Ways) -> PlacedBoxes:
        edges = {name: (row.top, row.bottom) for row in self.rows for name in row.names}
        return PlacedBoxes(self.boxes, ways, edges)


def _stacked(
    incident: IncidentMap,
    rows: Sequence[Sequence[Place]],
    ends: Container[int],
    spans: Mapping[Place, Span],
) -> _Stack:
    """These rows, each as tall as its tallest box. `ends` are the numbers of those that end a
    rank: more room follows them."""
    boxes = {box.service: _sized(box, spans[box.service].size) for box in incident.boxes}
    bends: dict[int, Pair] = {}
    placed: list[BoxRow] = []
    y = MARGIN
    for number, row in enumerate(rows):
        names = tuple(place for place in row if isinstance(place, str))
        tall = max((boxes[name].height for name in names), default=0.0)
        for place in row:
            if isinstance(place, str):
                x = spans[place].centre - spans[place].size / 2
                top = y + (tall - boxes[place].height) / 2
                boxes[place] = replace(boxes[place], x=x, y=top)
            else:
                x = spans[place].centre
                bends[place] = (x, y), (x, y + tall)
        placed.append(BoxRow(names, y, y + tall))
        y += tall + (ROW_GAP if number in ends else LANE)
    return _Stack(placed, boxes, bends)


def _sizes(ranks: Sequence[Sequence[Place]], room: float) -> Mapping[Place, float]:
    """How wide each place is: the boxes of a row share what is left of it."""
    sizes: dict[Place, float] = {}
    for rank in ranks:
        boxes = [place for place in rank if isinstance(place, str)]
        spare = (room - _length(rank)) / max(1, len(boxes))
        for place in rank:
            sizes[place] = BEND
            if isinstance(place, str):
                sizes[place] = min(WIDEST_BOX, NARROWEST_BOX + spare)
    return sizes


def _length(rank: Sequence[Place]) -> float:
    """Of a row with boxes as narrow as they may be."""
    length = -BESIDE
    for place in rank:
        length += BESIDE + (NARROWEST_BOX if isinstance(place, str) else BEND)
    return length


@dataclass(frozen=True)
class _BrokenRows:
    """Rows of boxes. `ends` are the numbers of those that end a rank. In `reserved` columns on the
    left stand only services of the story, so that arrows from rank to rank run free of boxes."""

    rows: tuple[tuple[str, ...], ...]
    ends: frozenset[int]
    fit: int
    reserved: int

    def spans(self, width: float) -> dict[Place, Span]:
        """Each row about the middle, its boxes as wide as it has room for; in columns where the
        first column is reserved."""
        spans: dict[Place, Span] = {}
        for row in self.rows:
            count = self.fit if self.reserved else len(row)
            wide = min(WIDEST_BOX, (width - 2 * MARGIN - LANE * (count - 1)) / count)
            left = (width - count * (wide + LANE) + LANE) / 2
            for number, place in enumerate(row):
                if place:
                    spans[place] = Span(left + number * (wide + LANE) + wide / 2, wide)
        return spans


def _broken(order: MapOrder, fit: int, story: frozenset[str]) -> _BrokenRows:
    """Ranks in rows of about the same length, none longer than what fits."""
    large = sum(len(order.services(n)) for n in range(len(order.ranks))) > MOST_WITHOUT_COLUMN
    reserved = 1 if large and story else 0
    rows: list[tuple[str, ...]] = []
    ends = set()
    for number in range(len(order.ranks)):
        names = sorted(order.services(number), key=lambda name: name not in story)
        first = names[:reserved] if names and names[0] in story else []
        rest = names[len(first) :]
        # Round up twice: as few rows as possible, all of about the same length.
        count = max(1, -(-len(rest) // (fit - reserved)))
        length = -(-len(rest) // count)
        for row in range(count):
            chunk = rest[row * length : (row + 1) * length]
            head = first if row == 0 else []
            # An empty name keeps the reserved column free.
            empty = [""] * (reserved - len(head))
            rows.append((*head, *empty, *chunk))
        ends.add(len(rows) - 1)
    return _BrokenRows(tuple(rows), frozenset(ends), fit, reserved)


def _sized(box: MapBox, wide: float) -> PlacedBox:
    """A box of that width, as tall as its words: name, state, place and change."""
    name = wrapped(box.name, wide - 2 * INSIDE, NAME, bold=True)
    lines = len(name) + 1 + bool(box.place)
    tall = lines * LINE + PADDING + (22 if box.change else 0)
    return PlacedBox(box, name, 0.0, 0.0, wide, tall)
