"""Where the boxes of a map stand and how its lines run: callers left and callees right on a wide
picture, callers above and callees below on a narrow one.

fast-sugiyama ranks the services and orders those of one rank so that few lines cross. What it does
not know is the width of the picture: rows that are too long are broken here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fast_sugiyama import from_edges

from bot.answer.pictures.service_map import FaultArrow, IncidentMap, MapBox, MapCall

WIDE = 500
"""From here on a picture has room for a chain of calls from left to right."""
MOST_COLUMNS = 5
"""Of a wide picture: more would leave no room for the names."""
MARGIN = 2.0
WIDEST_BOX, NARROWEST_BOX = 128.0, 92.0
COLUMN_GAP, ROW_GAP = 36.0, 30.0
"""From one rank to the next, where the lines run."""
BESIDE = 12.0
"""Between two boxes of one rank."""
LINE = 16.0
PADDING = 9.0
UNIT = 10.0


@dataclass(frozen=True)
class PlacedBox:
    """A box; x and y are its upper left corner."""

    box: MapBox
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """Its centre."""
        return self.x + self.width / 2, self.y + self.height / 2


@dataclass(frozen=True)
class PlacedLine:
    """A line from the edge of one box to that of another. `across` says that it leaves and arrives
    horizontally."""

    of: MapCall | FaultArrow
    start: tuple[float, float]
    end: tuple[float, float]
    across: bool


@dataclass(frozen=True)
class MapLayout:
    """The map with places."""

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    lines: tuple[PlacedLine, ...]


@dataclass(frozen=True)
class _Ranked:
    """A service's rank among callers and callees, and its place along the rank."""

    rank: int
    along: float


def laid_out(incident: IncidentMap, width: int) -> MapLayout:
    """The map in a picture of that width."""
    places = _ranked(incident)
    ranks = _by_rank(places)
    boxes = {box.service: box for box in incident.boxes}
    if width >= WIDE and len(ranks) <= MOST_COLUMNS:
        placed = _columns(boxes, places, ranks, width)
        across = True
    else:
        placed = _rows(boxes, places, ranks, width)
        across = False
    lines = tuple(_lines(incident, placed, across))
    height = max(one.y + one.height for one in placed.values()) + MARGIN
    return MapLayout(width, height, tuple(placed.values()), lines)


def box_height(box: MapBox) -> float:
    """Name and state, and a line each for the change and for the place."""
    lines = 2 + bool(box.change) + bool(box.place)
    return lines * LINE + PADDING + (4 if box.change else 0)


def _ranked(incident: IncidentMap) -> Mapping[str, _Ranked]:
    names = [box.service for box in incident.boxes]
    number = {name: n for n, name in enumerate(names)}
    edges = _without_cycles([(number[c.caller], number[c.callee]) for c in incident.calls])
    places: dict[str, _Ranked] = {}
    right = 0.0
    for positions, *_ in from_edges(edges, vertex_spacing=UNIT, dummy_vertices=True):
        # Beyond the names are the dummies by which lines run around boxes.
        own = [(names[int(n)], x, y) for n, (x, y) in positions if int(n) < len(names)]
        top = max(y for _, _, y in own)
        left = min(x for _, x, _ in own)
        for name, x, y in own:
            places[name] = _Ranked(round((top - y) / UNIT), right + (x - left) / UNIT)
        right = 1 + max(places[name].along for name, _, _ in own)
    for name in names:
        if name not in places:
            places[name] = _Ranked(0, right)
            right += 1
    return places


def _without_cycles(edges: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The calls without those that lead back to a caller, for the library ends the process at some
    cycles. What is left out here is drawn all the same."""
    callees: dict[int, list[int]] = {}
    for caller, callee in sorted(edges):
        callees.setdefault(caller, []).append(callee)
    kept: list[tuple[int, int]] = []
    done: set[int] = set()
    for start in sorted(callees):
        _walk(start, callees, done, kept)
    return kept


def _walk(
    start: int, callees: Mapping[int, Sequence[int]], done: set[int], kept: list[tuple[int, int]]
) -> None:
    """Depth first from `start`, keeping each call that does not lead back to where we are."""
    if start in done:
        return
    path = [start]
    waiting = {start: list(callees.get(start, ()))}
    while path:
        at = path[-1]
        if not waiting[at]:
            done.add(path.pop())
            continue
        callee = waiting[at].pop(0)
        if callee in path:
            continue
        kept.append((at, callee))
        if callee not in done:
            path.append(callee)
            waiting[callee] = list(callees.get(callee, ()))


def _by_rank(places: Mapping[str, _Ranked]) -> list[list[str]]:
    """The services of each rank in their order, without empty ranks."""
    ranks: dict[int, list[str]] = {}
    for name in sorted(places, key=lambda one: places[one].along):
        ranks.setdefault(places[name].rank, []).append(name)
    return [ranks[rank] for rank in sorted(ranks)]


def _columns(
    boxes: Mapping[str, MapBox],
    places: Mapping[str, _Ranked],
    ranks: Sequence[Sequence[str]],
    width: int,
) -> dict[str, PlacedBox]:
    """One column for each rank, spread over the width."""
    across = width - 2 * MARGIN
    room = (across - COLUMN_GAP * (len(ranks) - 1)) / len(ranks)
    wide = min(WIDEST_BOX, room)
    step = wide
    if len(ranks) > 1:
        step = min((across - wide) / (len(ranks) - 1), wide + 3 * COLUMN_GAP)
    left = (width - wide - step * (len(ranks) - 1)) / 2
    high = max(box_height(box) for box in boxes.values()) + BESIDE
    placed: dict[str, PlacedBox] = {}
    for number, names in enumerate(ranks):
        bottom = -1e9
        for name in names:
            height = box_height(boxes[name])
            y = max(places[name].along * high - height / 2, bottom)
            placed[name] = PlacedBox(boxes[name], left + number * step, y, wide, height)
            bottom = y + height + BESIDE
    top = min(one.y for one in placed.values()) - MARGIN
    return {name: replace(one, y=one.y - top) for name, one in placed.items()}


def _rows(
    boxes: Mapping[str, MapBox],
    places: Mapping[str, _Ranked],
    ranks: Sequence[Sequence[str]],
    width: int,
) -> dict[str, PlacedBox]:
    """One row for each rank, or several where it is too long."""
    across = width - 2 * MARGIN
    fit = max(1, int((across + BESIDE) // (NARROWEST_BOX + BESIDE)))
    placed: dict[str, PlacedBox] = {}
    y = MARGIN
    for names in ranks:
        for row in _broken(names, fit):
            wide = min(WIDEST_BOX, (across - BESIDE * (len(row) - 1)) / len(row))
            for name, x in zip(row, _centred(row, places, wide, width), strict=True):
                placed[name] = PlacedBox(boxes[name], x, y, wide, box_height(boxes[name]))
            y += max(box_height(boxes[name]) for name in row) + BESIDE
        y += ROW_GAP - BESIDE
    return placed


def _broken(names: Sequence[str], fit: int) -> list[Sequence[str]]:
    """Rows of about the same length, none longer than what fits."""
    count = -(-len(names) // fit)
    length = -(-len(names) // count)
    return [names[start : start + length] for start in range(0, len(names), length)]


def _centred(
    row: Sequence[str], places: Mapping[str, _Ranked], wide: float, width: int
) -> list[float]:
    """The left edges of a row's boxes, evenly spread about the middle of the picture."""
    step = wide + BESIDE
    whole = step * len(row) - BESIDE
    left = (width - whole) / 2
    return [left + step * number for number in range(len(row))]


def _lines(
    incident: IncidentMap, placed: Mapping[str, PlacedBox], across: bool
) -> list[PlacedLine]:
    """Calls first and arrows after them, so that these are drawn on top."""
    carried = {(arrow.start, arrow.end) for arrow in incident.arrows}
    lines = []
    for call in incident.calls:
        if not {(call.caller, call.callee), (call.callee, call.caller)} & carried:
            lines.append(_line(call, placed[call.caller], placed[call.callee], across))
    for arrow in incident.arrows:
        lines.append(_line(arrow, placed[arrow.start], placed[arrow.end], across))
    return lines


def _line(of: MapCall | FaultArrow, start: PlacedBox, end: PlacedBox, across: bool) -> PlacedLine:
    """From the side of one box that faces the other to the side that faces it."""
    (sx, sy), (ex, ey) = start.middle, end.middle
    apart_x = abs(sx - ex) - (start.width + end.width) / 2
    apart_y = abs(sy - ey) - (start.height + end.height) / 2
    sideways = apart_x > 0 if across else apart_y <= 0
    if sideways:
        to_right = 1 if ex > sx else -1
        return PlacedLine(
            of,
            (sx + to_right * start.width / 2, sy),
            (ex - to_right * end.width / 2, ey),
            across=True,
        )
    down = 1 if ey > sy else -1
    return PlacedLine(
        of, (sx, sy + down * start.height / 2), (ex, ey - down * end.height / 2), across=False
    )
