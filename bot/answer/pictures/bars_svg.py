"""The steps of a training job's ranks as SVG: a bar for each rank."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.analysis.wording.amounts import MILLISECONDS, amount
from faultline.bot.answer.pictures.chart_svg import nice_step
from faultline.bot.answer.pictures.step_bars import (
    OTHER,
    WAITING,
    RankBar,
    StepBars,
    StepPart,
    more_ranks,
)
from faultline.bot.answer.pictures.svg import element, fitted, picture, text, words_width

SIZE = 12.0
ROW, BAR = 36.0, 24.0
LEFT, RIGHT = 64.0, 10.0
AXIS = 22.0
LEGEND = 20.0
HATCH = 7.0
SHADES = 3
"""Shades of grey for phases that are neither where the time is lost nor waiting."""


@dataclass(frozen=True)
class _Bars:
    """The scale of one picture, and the class of each phase."""

    width: float
    longest: float
    classes: dict[str, str]

    def x(self, ms: float) -> float:
        return LEFT + (self.width - LEFT - RIGHT) * ms / self.longest


def bars_svg(bars: StepBars, width: int) -> str:
    """The bars in that width in pixels."""
    classes = {WAITING: "waiting", OTHER: "rest"}
    shade = 0
    for phase in bars.phases:
        if phase == bars.slow_phase:
            classes[phase] = "lost"
        elif phase not in classes:
            classes[phase] = f"shade{shade % SHADES}"
            shade += 1
    scale = _Bars(width, bars.longest, classes)
    parts = []
    for number, bar in enumerate(bars.bars):
        parts.append(_row(bar, bars, scale, number * ROW))
    bottom = len(bars.bars) * ROW
    more = more_ranks(bars)
    if more:
        parts.append(text(LEFT, bottom + 14, more))
        bottom += LEGEND
    parts.append(_axis(scale, bottom))
    legend, height = _legend(bars, scale, bottom + AXIS)
    return picture(width, height, bars.words, *parts, legend, class_="pic pic-bars")


def _row(bar: RankBar, bars: StepBars, scale: _Bars, top: float) -> str:
    parts = []
    if bar.slow:
        parts.append(
            element(
                "rect",
                x=1.5,
                y=top + 1.5,
                width=scale.width - 3,
                height=ROW - 3,
                rx=8.0,
                class_="frame",
            )
        )
    name = fitted(f"rank {bar.rank}", LEFT - 10, SIZE, bold=True)
    parts.append(text(8, top + ROW / 2 + 4, name, "rank"))
    at = 0.0
    for part in bar.parts:
        left, right = scale.x(at), scale.x(at + part.ms)
        parts.append(_part(part, scale, left, right, top + (ROW - BAR) / 2))
        if bar.slow and part.phase == bars.slow_phase:
            parts.append(_inside(part, left, right, top))
        at += part.ms
    return element("g", *parts, class_="slow" if bar.slow else None)


def _part(part: StepPart, scale: _Bars, left: float, right: float, top: float) -> str:
    """One phase, hatched where the rank waits: that is seen without colours too."""
    # A gap of one pixel parts the phases, and the shortest one must still be seen.
    wide = max(0.5, right - left - 1)
    title = element("title", f"{fitted(part.phase, 400, SIZE)}: {amount(part.ms, MILLISECONDS)}")
    parts = [title, element("rect", x=left, y=top, width=wide, height=BAR, rx=2.0)]
    if part.phase == WAITING:
        parts.append(element("path", d=_hatching(left, left + wide, top), class_="hatch"))
    return element("g", *parts, class_=f"part {scale.classes[part.phase]}")


def _hatching(left: float, right: float, top: float) -> str:
    """Strokes that lean to the right, cut at the edges of the bar."""
    d = ""
    # Begin left of the bar: strokes lean to the right by its whole height.
    at = left - BAR + HATCH
    while at < right:
        # A stroke that begins or ends beyond the bar is cut at its edge, on the same slope.
        x1, x2 = max(at, left), min(at + BAR, right)
        y1, y2 = top + BAR - (x1 - at), top + BAR - (x2 - at)
        if x2 > x1:
            d += f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}"
        at += HATCH
    return d


def _inside(part: StepPart, left: float, right: float, top: float) -> str:
    """What the slow rank does with its time, inside of its bar where there is room."""
    room = right - left - 16
    for words in (f"{part.phase}: {amount(part.ms, MILLISECONDS)}", amount(part.ms, MILLISECONDS)):
        if words_width(words, SIZE, bold=True) <= room:
            return text(left + 8, top + ROW / 2 + 4, words, "inside")
    return ""


def _axis(scale: _Bars, top: float) -> str:
    step = nice_step(scale.longest / 4)
    parts = []
    at = 0.0
    # Rounding must not lose the last tick.
    while at <= scale.longest * 1.001:
        label = amount(at, MILLISECONDS)
        # Shift the last label, which would leave the picture.
        x = min(scale.x(at), scale.width - words_width(label, SIZE) / 2)
        parts.append(text(x, top + 14, label, None, "middle"))
        at += step
    return element("g", *parts)


def _legend(bars: StepBars, scale: _Bars, top: float) -> tuple[str, float]:
    """A swatch and a name for each phase, on as many lines as they need."""
    parts = []
    slow = next((bar.rank for bar in bars.bars if bar.slow), "")
    x = 8.0
    for phase in bars.phases:
        name = f"waiting for rank {slow}" if phase == WAITING else fitted(phase, 200, SIZE)
        wide = 24 + words_width(name, SIZE) + 14
        if x > 8 and x + wide > scale.width:
            x, top = 8.0, top + LEGEND
        swatch = [element("rect", x=x, y=top + 5, width=16.0, height=10.0, rx=2.0)]
        if phase == WAITING:
            d = f"M{x:.1f} {top + 15:.1f}l10 -10M{x + 6:.1f} {top + 15:.1f}l10 -10"
            swatch.append(element("path", d=d, class_="hatch"))
        parts.append(element("g", *swatch, class_=f"part {scale.classes[phase]}"))
        parts.append(text(x + 22, top + 14, name))
        x += wide
    return element("g", *parts), top + LEGEND
