"""The picture of an answer as PNG, for chat: the map of the incident, or the steps
of a training job, above the decisive chart.

resvg draws the very SVG of the page, so that there is one drawing of each. It reads no fonts of the
machine: Inter is beside this file.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import resvg_py

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Diagnosis
from faultline.bot.answer.pictures.bars_svg import bars_svg
from faultline.bot.answer.pictures.chart_data import (
    DecisiveChart,
    decisive_chart_of,
    finding_chart_of,
)
from faultline.bot.answer.pictures.chart_svg import chart_svg
from faultline.bot.answer.pictures.map_svg import map_svg
from faultline.bot.answer.pictures.service_map import incident_map
from faultline.bot.answer.pictures.step_bars import step_bars_of
from faultline.bot.answer.pictures.svg import element
from faultline.bot.answer.view import answer_view

WIDTH = 366
"""Slack on a phone shows it at about 360 px: type of 12 px is then still 11 px tall."""
SCALE = 2.5
"""Pixels of a phone's screen to each of those."""
EDGE = 12
BETWEEN = 18
BACKGROUND = "#ffffff"
"""Slack does not tell a reader's theme, so that the picture brings its own background."""
MOST_BOXES = 7
"""Of the map: a chain of as many calls as are followed, or a shorter one with neighbours."""

HERE = Path(__file__).parent
FONTS = [str(HERE / "fonts" / name) for name in ("Inter-Regular.ttf", "Inter-SemiBold.ttf")]
STYLE = HERE.parents[1] / "web" / "static" / "pictures.css"
_VARIABLE = re.compile(r"(--pic-[a-z-]+):\s*(#[0-9a-f]+)")
_USE = re.compile(r"var\((--pic-[a-z-]+)\)")
_OPENING = re.compile(r'<svg [^>]*class="(?P<class_>[^"]*)" [^>]*height="(?P<height>\d+)"[^>]*>')


def answer_png(case: Case, diagnosis: Diagnosis, calls: Sequence[ServiceCall] = ()) -> bytes | None:
    """The picture of an answer, or None when there is nothing to draw."""
    view = answer_view(case.alert, diagnosis, None, gaps=case.gaps, evidence=case.evidence)
    service_map = incident_map(view, calls, MOST_BOXES)
    bars = step_bars_of(diagnosis)
    chart = decisive_chart_of(case, diagnosis)
    drawn = []
    if bars is not None:
        drawn.append(bars_svg(bars, WIDTH))
    if service_map is not None and service_map.calls:
        drawn.append(map_svg(service_map, WIDTH))
    if chart is not None:
        drawn.append(chart_svg(chart, WIDTH))
    return png_of(drawn) if drawn else None


def finding_png(case: Case, diagnosis: Diagnosis, finding_id: str) -> bytes | None:
    """The chart of one finding, or None when it has no series to show."""
    chart: DecisiveChart | None = finding_chart_of(case, diagnosis, finding_id)
    return png_of([chart_svg(chart, WIDTH)]) if chart is not None else None


def png_of(drawings: Sequence[str]) -> bytes:
    """Drawings of `WIDTH`, one above the other."""
    parts = []
    top = EDGE
    for drawing in drawings:
        opening = _OPENING.match(drawing)
        assert opening is not None
        # As a group: each picture within a picture would be clipped, which takes resvg long.
        inside = drawing[opening.end() :].removesuffix("</svg>")
        where = f"translate({EDGE} {top})"
        parts.append(element("g", inside, class_=opening["class_"], transform=where))
        top += int(opening["height"]) + BETWEEN
    width, height = WIDTH + 2 * EDGE, top - BETWEEN + EDGE
    whole = element(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width} {height}",
        width=str(width),
        height=str(height),
    )
    return resvg_py.svg_to_bytes(
        svg_string=whole,
        background=BACKGROUND,
        zoom=SCALE,
        style_sheet=_light_style(),
        skip_system_fonts=True,
        font_files=FONTS,
        font_family="Inter",
        sans_serif_family="Inter",
    )


@cache
def _light_style() -> str:
    """The page's stylesheet with its light colours in place of variables, which resvg does not
    know."""
    style = STYLE.read_text(encoding="utf-8")
    colours: dict[str, str] = {}
    for name, colour in _VARIABLE.findall(style):
        # The light ones come first in the file.
        colours.setdefault(name, colour)
    rules = style[style.index(".pic {") :]
    return _USE.sub(lambda use: colours[use[1]], rules.partition("@media")[0])
