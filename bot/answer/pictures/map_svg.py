"""The map of an incident as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from faultline.bot.answer.pictures.map_layout import (
    INSIDE,
    LINE,
    STATE,
    laid_out,
)
from faultline.bot.answer.pictures.map_lines import PlacedBox, PlacedLine, Point
from faultline.bot.answer.pictures.service_map import FaultArrow, IncidentMap, MapCall
from faultline.bot.answer.pictures.svg import element, escaped, fitted, picture, text, words_width

HEAD = 11.0
"""Length of an arrow's head."""
BADGE = 17.0

Link = Callable[[str], str | None]
"""The address behind the box of a finding."""


def map_svg(incident: IncidentMap, width: int, link: Link | None = None) -> str:
    """The map in that width in pixels; as tall as it needs to be."""
    layout = laid_out(incident, width)
    began = {box.service for box in incident.boxes if box.role == "culprit"}
    lines = [_drawn(line, began) for line in layout.lines]
    boxes = [_box(box, link) for box in layout.boxes]
    return picture(
        width,
        layout.height,
        incident.words,
        *lines,
        *boxes,
        class_="pic pic-map",
        links=link is not None,
    )


def _drawn(line: PlacedLine, began: set[str]) -> str:
    if isinstance(line.of, MapCall):
        class_ = "call remembered" if line.of.remembered else "call"
        return element("path", d=_curve(line.points, across=line.across), class_=class_)
    return _arrow(line, line.of, began)


def _arrow(line: PlacedLine, arrow: FaultArrow, began: set[str]) -> str:
    """A thick line and its head; in the colour of the service from which it comes."""
    class_ = "fault from-culprit" if arrow.start in began else "fault"
    if not arrow.on_both_ends:
        class_ += " unseen"
    (bx, by), (ex, ey) = line.points[-2:]
    if line.across:
        back = HEAD if bx > ex else -HEAD
        neck = (ex + back, ey)
        head = f"M{ex:.1f} {ey:.1f}l{back:.1f} -6.5v13z"
    else:
        back = HEAD if by > ey else -HEAD
        neck = (ex, ey + back)
        head = f"M{ex:.1f} {ey:.1f}l-6.5 {back:.1f}h13z"
    # End the body at the head's base: at the tip its width would show.
    d = _curve((*line.points[:-1], neck), across=line.across)
    return element(
        "g",
        element("path", d=d, class_="body"),
        element("path", d=head, class_="head"),
        class_=class_,
    )


def _curve(points: Sequence[Point], *, across: bool) -> str:
    """A line that leaves, passes its bends and arrives at right angles to the ranks."""
    d = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (sx, sy), (ex, ey) in pairwise(points):
        if across:
            middle = (sx + ex) / 2
            turns = f"{middle:.1f} {sy:.1f} {middle:.1f} {ey:.1f}"
        else:
            middle = (sy + ey) / 2
            turns = f"{sx:.1f} {middle:.1f} {ex:.1f} {middle:.1f}"
        d += f"C{turns} {ex:.1f} {ey:.1f}"
    return d


def _box(placed: PlacedBox, link: Link | None) -> str:
    box = placed.box
    x, _ = placed.middle
    room = placed.width - 2 * INSIDE
    inside = [
        element("title", escaped(f"{box.name}: {box.state}")),
        element("rect", x=placed.x, y=placed.y, width=placed.width, height=placed.height, rx=8.0),
    ]
    y = placed.y + 1
    for line in placed.name:
        y += LINE
        inside.append(text(x, y, line, "name", "middle"))
    y += LINE
    state = fitted(box.state, room, STATE, bold=box.role != "other")
    inside.append(text(x, y, state, "state", "middle"))
    if box.place:
        y += LINE
        inside.append(text(x, y, fitted(box.place, room, STATE), "place", "middle"))
    if box.change:
        inside.append(_badge(x, y + 7, box.change, room))
    class_ = f"box {box.role}" if box.has_data else f"box {box.role} no-data"
    drawn = element("g", *inside, class_=class_)
    address = link(box.finding) if link and box.finding else None
    return element("a", drawn, href=address) if address else drawn


def _badge(x: float, top: float, change: str, room: float) -> str:
    """The change, dark, with the diamond that marks it in the chart as well."""
    words = fitted(change, room - 26, STATE, bold=True)
    width = words_width(words, STATE, bold=True) + 26
    left = x - width / 2
    diamond = f"M{left + 11:.1f} {top + BADGE / 2 - 4:.1f}l4 4l-4 4l-4 -4z"
    return element(
        "g",
        element("rect", x=left, y=top, width=width, height=BADGE, rx=BADGE / 2),
        element("path", d=diamond),
        text(x + 7, top + 12.5, words, None, "middle"),
        class_="badge",
    )
