"""Where lines pass rows of boxes that are not theirs: through the lanes that are free there.

Between two rows a line may run as it likes; through a row it runs straight, beside the boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.bot.answer.pictures.map_alignment import Span

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
