"""Maps of all sizes: no box covers another, and none leaves the picture."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.case.calls import ServiceCall
from faultline.bot.answer.pictures.map_layout import laid_out
from faultline.bot.answer.pictures.map_lines import PlacedBox
from faultline.bot.answer.pictures.map_svg import map_svg
from faultline.bot.answer.pictures.service_map import FaultArrow, IncidentMap, MapBox, MapCall

WIDTHS = (334, 366, 640)
ROUNDING = 1e-6
"""Of sums of coordinates."""
STEPS = 24
"""Points of a curve that are looked at."""
SVG = "{http://www.w3.org/2000/svg}"


def a_map(pairs: set[tuple[int, int]], count: int, chain: int = 2) -> IncidentMap:
    """Services of that number, and a fault that spreads along the first calls."""
    boxes = []
    for n in range(count):
        role = "culprit" if n == 0 else "affected" if n < chain else "other"
        change = "v2.3.1" if n % 7 == 0 else None
        name = "service-" * (n % 6) + f"x{n}"
        boxes.append(MapBox(name, role, "3x slower", change=change, place="zone eu-1a"))  # type: ignore[arg-type]
    names = [box.service for box in boxes]
    calls = []
    for a, b in sorted(pairs):
        calls.append(MapCall(ServiceCall(caller=names[a], callee=names[b], sources=("spans",))))
    arrows = [FaultArrow(call.callee, call.caller, True) for call in calls[:chain]]
    return IncidentMap(tuple(boxes), tuple(calls), tuple(arrows))


@st.composite
def maps(draw: st.DrawFn, least: int = 1) -> IncidentMap:
    count = draw(st.integers(least, 60))
    service = st.integers(0, count - 1)
    pairs = draw(st.sets(st.tuples(service, service), max_size=2 * count))
    return a_map({(a, b) for a, b in pairs if a != b}, count)


def overlap(one: PlacedBox, other: PlacedBox) -> bool:
    apart = (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )
    return not apart


def at_edge(point: tuple[float, float], box: PlacedBox) -> bool:
    x, y = point
    beside = abs(x - box.x) < 0.01 or abs(x - box.x - box.width) < 0.01
    above = abs(y - box.y) < 0.01 or abs(y - box.y - box.height) < 0.01
    within_x = box.x - 0.01 <= x <= box.x + box.width + 0.01
    within_y = box.y - 0.01 <= y <= box.y + box.height + 0.01
    return within_x and within_y and (beside or above)


@settings(max_examples=60, deadline=None)
@given(maps(), st.sampled_from(WIDTHS))
def test_no_box_covers_another_and_each_line_ends_at_its_boxes(
    incident: IncidentMap, width: int
) -> None:
    layout = laid_out(incident, width)
    assert len(layout.boxes) == len(incident.boxes)
    for one, other in combinations(layout.boxes, 2):
        assert not overlap(one, other), (one, other)
    placed = {one.box.service: one for one in layout.boxes}
    for box in layout.boxes:
        assert box.x >= 0
        assert box.y >= 0
        assert box.x + box.width <= width
        assert box.y + box.height <= layout.height
    drawn = set()
    for line in layout.lines:
        of = line.of
        ends = (of.start, of.end) if isinstance(of, FaultArrow) else (of.caller, of.callee)
        drawn.add(frozenset(ends))
        for x, y in line.points:
            assert -ROUNDING <= x <= width + ROUNDING
            assert -ROUNDING <= y <= layout.height + ROUNDING
        assert at_edge(line.points[0], placed[ends[0]])
        assert at_edge(line.points[-1], placed[ends[1]])
    assert drawn == {frozenset((call.caller, call.callee)) for call in incident.calls}


def drawn_points(incident: IncidentMap, width: int) -> list[list[tuple[float, float]]]:
    """Points along each line as it is drawn, in the order of the layout's lines."""
    lines = []
    for path in ET.fromstring(map_svg(incident, width)).iter(f"{SVG}path"):
        if not path.get("class", "").startswith(("call", "body")):
            continue
        numbers = [float(n) for n in re.findall(r"-?[0-9.]+", path.get("d", ""))]
        corners = list(zip(numbers[::2], numbers[1::2], strict=True))
        points = corners[:1]
        for a, b, c, d in zip(*(corners[k::3] for k in range(3)), corners[3::3], strict=False):
            for step in range(1, STEPS + 1):
                t = step / STEPS
                weights = ((1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3)
                xy = [
                    sum(w * p[k] for w, p in zip(weights, (a, b, c, d), strict=True))
                    for k in (0, 1)
                ]
                points.append((xy[0], xy[1]))
        lines.append(points)
    return lines


@settings(max_examples=120, deadline=None)
@given(maps(3), st.sampled_from((334, 640)))
def test_no_line_passes_behind_a_box_that_is_not_its_end(incident: IncidentMap, width: int) -> None:
    layout = laid_out(incident, width)
    for line, points in zip(layout.lines, drawn_points(incident, width), strict=True):
        of = line.of
        ends = (of.start, of.end) if isinstance(of, FaultArrow) else (of.caller, of.callee)
        for one in layout.boxes:
            if one.box.service not in ends:
                for x, y in points:
                    beside = x <= one.x or x >= one.x + one.width
                    above = y <= one.y or y >= one.y + one.height
                    assert beside or above, (ends, one.box.service, (x, y))


def test_a_small_map_runs_from_left_to_right_or_from_top_to_bottom() -> None:
    chain = a_map({(3, 2), (2, 1), (1, 0), (3, 4)}, 5)
    names = [box.service for box in chain.boxes]
    way = [names[n] for n in (3, 2, 1, 0)]
    wide = {one.box.service: one for one in laid_out(chain, 640).boxes}
    narrow = {one.box.service: one for one in laid_out(chain, 334).boxes}
    for caller, callee in pairwise(way):
        assert wide[caller].x < wide[callee].x
        assert narrow[caller].y < narrow[callee].y


def test_in_a_circle_of_calls_the_fault_still_runs_towards_the_callers() -> None:
    circle = a_map({(2, 1), (1, 0), (0, 2)}, 3, chain=0)
    names = [box.service for box in circle.boxes]
    arrows = (FaultArrow(names[0], names[1], True), FaultArrow(names[1], names[2], True))
    placed = laid_out(replace(circle, arrows=arrows), 640).boxes
    assert [one.box.service for one in sorted(placed, key=lambda one: one.x)] == names[::-1]


def test_a_line_that_passes_a_rank_runs_beside_its_boxes() -> None:
    # 0 calls 1, 1 calls 2, and 0 calls 2 as well.
    layout = laid_out(a_map({(0, 1), (1, 2), (0, 2)}, 3, chain=0), 640)
    boxes = {one.box.service: one for one in layout.boxes}
    middle = boxes["service-x1"]
    [past] = [line for line in layout.lines if len(line.points) > 2]
    for x, y in past.points[1:-1]:
        assert middle.x - 0.1 <= x <= middle.x + middle.width + 0.1
        assert not middle.y < y < middle.y + middle.height


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_are_text_and_nothing_else(width: int) -> None:
    name = '"><script>alert(1)</script>\u202e\x00&' + "x" * 300
    box = MapBox(name, "culprit", "<b>", change="'\"onload=x", place="</svg>", finding='"x')
    drawn = map_svg(IncidentMap((box,), (), ()), width, lambda finding: f"#{finding}")
    root = ET.fromstring(drawn)
    assert not root.findall(f".//{SVG}script")
    for one in root.iter():
        assert not [key for key in one.attrib if key.startswith("on") or key == "style"]
    assert len(drawn) < 6000
    assert not re.search("[\x00\u202e]", drawn)


@pytest.mark.parametrize(
    ("count", "width", "across"),
    [(2, 640, True), (5, 640, True), (6, 640, False), (2, 500, True), (2, 499, False)],
)
def test_a_short_chain_of_calls_runs_from_left_to_right_in_a_wide_picture(
    count: int, width: int, *, across: bool
) -> None:
    layout = laid_out(a_map({(n, n + 1) for n in range(count - 1)}, count), width)
    by_place = sorted(layout.boxes, key=lambda placed: placed.x)
    assert all(one.x + one.width <= other.x for one, other in pairwise(by_place)) is across


@pytest.mark.parametrize(("callees", "across"), [(8, True), (9, False)])
def test_a_column_holds_no_more_boxes_than_a_screen(callees: int, *, across: bool) -> None:
    layout = laid_out(a_map({(0, n + 1) for n in range(callees)}, callees + 1), 640)
    caller = next(placed for placed in layout.boxes if placed.box.service == "x0")
    others = [placed for placed in layout.boxes if placed is not caller]
    assert all(placed.x >= caller.x + caller.width for placed in others) is across


def test_boxes_without_calls_stand_side_by_side() -> None:
    boxes = sorted(laid_out(a_map(set(), 3), 640).boxes, key=lambda placed: placed.x)
    assert all(one.x + one.width <= other.x for one, other in pairwise(boxes))
