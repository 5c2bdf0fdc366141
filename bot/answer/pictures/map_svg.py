"""The map of an incident as SVG."""

from __future__ import annotations

from collections.abc import Callable

from bot.answer.pictures.map_layout import LINE, MapLayout, PlacedBox, PlacedLine, laid_out
from bot.answer.pictures.service_map import FaultArrow, IncidentMap, MapCall
from bot.answer.pictures.svg import element, escaped, fitted, picture, text, words_width

NAME, STATE = 13.0, 12.0
"""Sizes of the type, as in pictures.css."""
HEAD = 11.0
"""Length of an arrow's head."""
BADGE = 17.0
INSIDE = 7.0

Link = Callable[[str], str | None]
"""The address behind the box of a finding."""


def map_svg(incident: IncidentMap, width: int, link: Link | None = None) -> str:
    """The map in that width in pixels; as tall as it needs to be."""
    layout = laid_out(incident, width)
    began = {box.service for box in incident.boxes if box.role == "culprit"}
    lines = [_drawn(line, began) for line in layout.lines]
    boxes = [_box(one, link) for one in layout.boxes]
    return picture(width, layout.height, incident.words, *lines, *boxes, class_="pic pic-map")


def map_height(incident: IncidentMap, width: int) -> float:
    """How tall the map is in that width."""
    layout: MapLayout = laid_out(incident, width)
    return layout.height


def _drawn(line: PlacedLine, began: set[str]) -> str:
    if isinstance(line.of, MapCall):
        class_ = "call remembered" if line.of.remembered else "call"
        return element("path", d=_curve(line, line.end), class_=class_)
    return _arrow(line, line.of, began)


def _arrow(line: PlacedLine, arrow: FaultArrow, began: set[str]) -> str:
    """A thick line and its head; in the colour of the service from which it comes."""
    class_ = "fault from-culprit" if arrow.start in began else "fault"
    if not arrow.seen:
        class_ += " unseen"
    (sx, sy), (ex, ey) = line.start, line.end
    if line.across:
        back = HEAD if sx > ex else -HEAD
        neck = (ex + back, ey)
        head = f"M{ex:.1f} {ey:.1f}l{back:.1f} -6.5v13z"
    else:
        back = HEAD if sy > ey else -HEAD
        neck = (ex, ey + back)
        head = f"M{ex:.1f} {ey:.1f}l-6.5 {back:.1f}h13z"
    body = element("path", d=_curve(line, neck), class_="body")
    return element("g", body, element("path", d=head, class_="head"), class_=class_)


def _curve(line: PlacedLine, end: tuple[float, float]) -> str:
    """A line that leaves and arrives at a right angle to the boxes."""
    (sx, sy), (ex, ey) = line.start, end
    if line.across:
        middle = (sx + ex) / 2
        turns = f"{middle:.1f} {sy:.1f} {middle:.1f} {ey:.1f}"
    else:
        middle = (sy + ey) / 2
        turns = f"{sx:.1f} {middle:.1f} {ex:.1f} {middle:.1f}"
    return f"M{sx:.1f} {sy:.1f}C{turns} {ex:.1f} {ey:.1f}"


def _box(placed: PlacedBox, link: Link | None) -> str:
    box = placed.box
    x, _ = placed.middle
    room = placed.width - 2 * INSIDE
    name = fitted(box.name, room, NAME, bold=True)
    bold = box.role != "other"
    y = placed.y + LINE + 1
    inside = [
        element("title", escaped(f"{box.name}: {box.state}")),
        element("rect", x=placed.x, y=placed.y, width=placed.width, height=placed.height, rx=8.0),
        text(x, y, name, "name", "middle"),
        text(x, y + LINE, fitted(box.state, room, STATE, bold=bold), "state", "middle"),
    ]
    y += LINE
    if box.place:
        y += LINE
        inside.append(text(x, y, fitted(box.place, room, STATE), "place", "middle"))
    if box.change:
        inside.append(_badge(x, y + 6, box.change, room))
    class_ = f"box {box.role}" if box.has_data else f"box {box.role} no-data"
    drawn = element("g", *inside, class_=class_)
    address = link(box.finding) if link and box.finding else None
    return element("a", drawn, href=address) if address else drawn


def _badge(x: float, top: float, change: str, room: float) -> str:
    """The change, dark, with the diamond that marks it in the chart as well."""
    words = fitted(change, room - 24, STATE, bold=True)
    width = words_width(words, STATE, bold=True) + 24
    left = x - width / 2
    diamond = f"M{left + 11:.1f} {top + BADGE / 2 - 4:.1f}l4 4l-4 4l-4 -4z"
    return element(
        "g",
        element("rect", x=left, y=top, width=width, height=BADGE, rx=BADGE / 2),
        element("path", d=diamond),
        text(left + 18, top + 12.5, words),
        class_="badge",
    )
