"""The lanes between boxes in which lines pass: which one, and how far apart."""

from __future__ import annotations

import pytest

from faultline.bot.answer.pictures.map_lines import (
    APART,
    CLEAR,
    CROWD,
    Lane,
    Span,
    _lanes,
    _nearest,
    _side_by_side,
)

LEFT, RIGHT = (0.0, 10.0), (30.0, 40.0)


@pytest.mark.parametrize(
    ("counts", "x", "lane"),
    [
        ((0, 0), 5.0, LEFT),
        ((0, 0), 19.0, LEFT),
        ((0, 0), 21.0, RIGHT),
        # As far from both: the first.
        ((0, 0), 20.0, LEFT),
        # A line less is worth that way aside.
        ((1, 0), 20.0 - CROWD / 2 + 0.1, RIGHT),
        ((1, 0), 20.0 - CROWD / 2 - 0.1, LEFT),
        ((0, 1), 20.0 + CROWD / 2 - 0.1, LEFT),
    ],
)
def test_a_line_takes_the_near_lane_and_avoids_crowds(
    counts: tuple[int, int], x: float, lane: Lane
) -> None:
    assert _nearest([LEFT, RIGHT], counts, x) == lane


@pytest.mark.parametrize(
    ("lane", "wanted", "placed"),
    [
        (LEFT, [5.0], [5.0]),
        (LEFT, [-3.0], [0.0]),
        (LEFT, [13.0], [10.0]),
        # Apart where there is room, and in the order of their ends.
        (RIGHT, [35.0, 35.0], [35.0, 35.0 + APART]),
        (RIGHT, [39.0, 39.0], [35.0, 40.0]),
        # Where there is little, as far as it allows.
        ((0.0, 4.0), [2.0, 2.0, 2.0], [0.0, 2.0, 4.0]),
        ((2.0, 2.0), [0.0, 9.0], [2.0, 2.0]),
    ],
)
def test_lines_of_one_lane_keep_apart(lane: Lane, wanted: list[float], placed: list[float]) -> None:
    lines = [(x, number) for number, x in enumerate(wanted)]
    ways = _side_by_side(lane, lines)
    assert [number for _, number in ways] == [number for _, number in lines]
    assert [x for x, _ in ways] == pytest.approx(placed)


def test_lanes_are_beside_and_between_boxes_that_do_not_touch() -> None:
    boxes = [Span(20.0, 10.0), Span(20.0 + 10.0 + 2 * CLEAR - 0.1, 10.0), Span(60.0, 10.0)]
    second = boxes[1].centre + 5.0 + CLEAR
    assert _lanes(boxes, 0.0, 100.0) == [
        (0.0, 15.0 - CLEAR),
        (second, 55.0 - CLEAR),
        (65.0 + CLEAR, 100.0),
    ]
    assert _lanes([], 0.0, 9.0) == [(0.0, 9.0)]
