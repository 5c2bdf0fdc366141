"""The decisive chart as SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise, product
from typing import Literal

from faultline.analysis.wording.amounts import amount
from faultline.bot.answer.pictures.chart_data import ChartEvent, ChartPanel, DecisiveChart
from faultline.bot.answer.pictures.svg import element, fitted, picture, shortened, text, words_width

# The axes of a chart: from values and times to pixels, and the figures beside them.

TIME_STEPS = (
    *(1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10800, 21600, 43200, 86400),
)
NICE = (1.0, 2.0, 2.5, 5.0, 10.0)
LOG_STEPS = ((1,), (1, 3), (1, 2, 5))
"""On a log scale powers of ten, with figures between them where these are too few."""
MOST_TICKS = 4
FROM_ZERO = 0.6
"""An axis begins at zero unless all values are within this share of the highest one."""


@dataclass(frozen=True)
class ValueAxis:
    """The vertical axis of one panel: `low` at its bottom, `high` at its top."""

    low: float
    high: float
    log: bool
    ticks: tuple[tuple[float, str], ...]

    def share(self, value: float) -> float:
        """How far up the value is, from 0 to 1."""
        if self.log:
            value = max(value, self.low)
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, share))


def value_axis(panel: ChartPanel) -> ValueAxis:
    """An axis on which all values of the panel are seen."""
    shown = [*panel.values, *(panel.usual or ())]
    if panel.threshold is not None:
        shown.append(panel.threshold)
    if panel.log:
        return _log_axis(panel, min(value for value in shown if value > 0), max(shown))
    low, high = min(shown), max(shown)
    # Values a little below zero still fit an axis that begins at zero.
    if panel.counted or -0.02 * high <= low < FROM_ZERO * high or low == high == 0:
        low = 0.0
    if high <= low:
        # A level that never moves stands at its height above zero.
        low, high = min(0.0, low), max(0.0, high)
    if high <= low:
        high = low + 1
    step = nice_step((high - low) / (MOST_TICKS - 1))
    if panel.counted:
        step = max(1.0, step)
    # Rounding must not lose a step.
    bottom = math.floor(low / step + 1e-9) * step
    top = max(high + 0.04 * (high - low), bottom + step)
    count = int((top - bottom) / step + 1e-9)
    ticks = [bottom + n * step for n in range(count + 1)]
    return ValueAxis(bottom, top, False, _labelled(panel, ticks))


def _log_axis(panel: ChartPanel, low: float, high: float) -> ValueAxis:
    # In the unit that people read: a power of ten of seconds is none of microseconds.
    factor = panel.unit.factor
    least, most = low * 0.8 * factor, high * 1.25 * factor
    ticks: list[float] = []
    for steps in LOG_STEPS:
        ticks = [value / factor for value in _log_values(least, most, steps)]
        if len(ticks) >= 2:
            break
    # Round up, so that at most MOST_TICKS stay.
    every = -(-len(ticks) // MOST_TICKS) or 1
    ticks = ticks[::every]
    return ValueAxis(low * 0.8, high * 1.25, True, _labelled(panel, ticks))


def _log_values(least: float, most: float, steps: tuple[int, ...]) -> Iterator[float]:
    """These multiples of powers of ten between the two."""
    for power in range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1):
        for step in steps:
            value = float(f"{step}e{power}")
            if least <= value <= most:
                yield value


def nice_step(least: float) -> float:
    """The next round number that is not less."""
    power = 10.0 ** math.floor(math.log10(least))
    for nice in NICE:
        # Rounding must not skip a number that fits.
        if nice * power >= least * 0.999:
            return nice * power
    return 10 * power


def _labelled(panel: ChartPanel, ticks: list[float]) -> tuple[tuple[float, str], ...]:
    """Each with its figure; one whose figure would stand there twice is left out."""
    labels: dict[str, float] = {}
    for tick in ticks:
        # A sum of steps may miss zero by a rounding error.
        labels.setdefault(amount(0.0 if abs(tick) < 1e-12 else tick, panel.unit), tick)
    return tuple((tick, label) for label, tick in labels.items())


def time_ticks(start: float, end: float, most: int) -> Iterator[tuple[float, str]]:
    """Round times of day in UTC, at most that many."""
    step = next((s for s in TIME_STEPS if (end - start) / s <= most), None)
    if step is None:
        days = math.ceil((end - start) / most / 86400)
        step = 86400 * days
    form = "%d %b" if step >= 86400 else "%H:%M"
    if step < 60:
        form = "%H:%M:%S"
    at = math.ceil(start / step) * step
    while at <= end:
        yield float(at), f"{datetime.fromtimestamp(at, UTC):{form}}"
        at += step


# Where the labels of a chart's events go, so that none of them covers another, a symbol or a line.
#
# Each event has a symbol in a row above the chart, a line that leads down from it, and words to its
# left or right. There are few events, so all arrangements are tried and the best is taken.

Side = Literal["left", "right"]

SIZE = 12.0
APART = 16.0
"""Between two symbols: those of events that are closer are pushed apart."""
SYMBOL = 7.0
"""Half a symbol's width."""
GAP = 4.0
"""Between a symbol and its words, and around words."""


@dataclass(frozen=True)
class EventToLabel:
    """An event at `x`. `words` are what may be said of it, the longest first."""

    x: float
    words: tuple[str, ...]
    side: Side = "right"
    """Where its words stand best."""
    row: int = 0
    """And in which row."""


@dataclass(frozen=True)
class PlacedLabel:
    """`symbol` is where its symbol and the upper part of its line stand; the words reach from
    `left` to `right` in the `row`."""

    symbol: float
    row: int
    words: str
    left: float
    right: float


def placed_labels(events: Sequence[EventToLabel], width: float) -> list[PlacedLabel]:
    """A place for each event, in their order; with shorter words where the longer do not fit."""
    # The places of the symbols: as near to their events as they can be without touching.
    xs = [event.x for event in events]
    order = sorted(range(len(xs)), key=lambda n: xs[n])
    symbols = [min(max(x, SYMBOL), width - SYMBOL) for x in xs]
    # Each pair that is too close gives way by half; a few rounds settle three or four symbols.
    for _ in range(50):
        for first, second in pairwise(order):
            lacking = APART - (symbols[second] - symbols[first])
            if lacking > 0:
                symbols[first] = max(SYMBOL, symbols[first] - lacking / 2)
                symbols[second] = min(width - SYMBOL, symbols[second] + lacking / 2)
    most = max((len(event.words) for event in events), default=0)
    for shorter in range(most):
        labels = _cheapest(events, symbols, shorter, width)
        if labels is not None:
            return labels
    # So narrow a picture shows its symbols alone; the text alternative has the words.
    return [PlacedLabel(x, 0, "", x, x) for x in symbols]


def _cheapest(
    events: Sequence[EventToLabel], symbols: Sequence[float], shorter: int, width: float
) -> list[PlacedLabel] | None:
    cheapest: list[PlacedLabel] | None = None
    least = float("inf")
    for labels, cost in _arrangements(events, symbols, shorter):
        if cost < least and _is_free(labels, width):
            cheapest, least = labels, cost
    return cheapest


def _arrangements(
    events: Sequence[EventToLabel], symbols: Sequence[float], shorter: int
) -> Iterator[tuple[list[PlacedLabel], float]]:
    """All of them, with how far each is from what was wished."""
    sides: tuple[Side, ...] = ("left", "right")
    ways = list(product(range(len(events)), sides))
    for chosen in product(ways, repeat=len(events)):
        labels = []
        cost = 0.0
        for event, symbol, (row, side) in zip(events, symbols, chosen, strict=True):
            words = event.words[min(shorter, len(event.words) - 1)]
            labels.append(_label(symbol, row, side, words))
            # A wrong row is worse than a wrong side.
            cost += abs(row - event.row) + (0.6 if side != event.side else 0.0)
        yield labels, cost


def _label(symbol: float, row: int, side: Side, words: str) -> PlacedLabel:
    wide = words_width(words, SIZE)
    off = SYMBOL + GAP
    if side == "left":
        return PlacedLabel(symbol, row, words, symbol - off - wide, symbol - off)
    return PlacedLabel(symbol, row, words, symbol + off, symbol + off + wide)


def _is_free(labels: Sequence[PlacedLabel], width: float) -> bool:
    for label in labels:
        if label.left < 0 or label.right > width:
            return False
        for other in labels:
            if other is not label and _collide(label, other):
                return False
    return True


def _collide(label: PlacedLabel, other: PlacedLabel) -> bool:
    """Whether the words of `label` would be covered by the words, the symbol or the line of the
    other."""
    left, right = label.left - GAP, label.right + GAP
    # Lines lead down, so only what stands above or beside can cross these words.
    if other.row > label.row:
        return False
    if left < other.symbol + SYMBOL and other.symbol - SYMBOL < right:
        return True
    return other.row == label.row and left < other.right and other.left < right


WIDE = 500
ROW = 18.0
"""Of the events' labels."""
ELBOW = 10.0
"""Below the labels, where the lines come to their times."""
TITLE = 20.0
PLOT, PLOT_NARROW = 92.0, 76.0
BETWEEN = 10.0
AXIS = 20.0
LEGEND = 20.0
RIGHT = 8.0
POINTS_PER_PX = 1.0
MOST_DOTS = 40
"""Up to this many points each gets a dot: it shows what was measured and what is drawn between."""

Scale = Callable[[float], float]


@dataclass(frozen=True)
class _Frame:
    """Where the chart's parts are."""

    width: float
    left: float
    plot: float
    head: float
    x: Scale

    @property
    def right(self) -> float:
        return self.width - RIGHT

    def top(self, number: int) -> float:
        """Of the plot of a panel."""
        return self.head + TITLE + number * (TITLE + self.plot + BETWEEN)


def chart_svg(chart: DecisiveChart, width: int) -> str:
    """The chart in that width in pixels."""
    axes = [value_axis(panel) for panel in chart.panels]
    left = 8 + max(words_width(label, SIZE) for axis in axes for _, label in axis.ticks)
    span = chart.end - chart.start
    room = width - RIGHT - left

    def x(time: float) -> float:
        # Events from before the chart stand at its left edge.
        return left + room * (max(time, chart.start) - chart.start) / span

    labels = placed_labels([_to_label(event, x) for event in chart.events], width)
    rows = 1 + max((label.row for label in labels), default=-1)
    plot = PLOT if width >= WIDE else PLOT_NARROW
    frame = _Frame(width, left, plot, rows * ROW + (ELBOW if rows else 0), x)
    parts = []
    for number, (panel, axis) in enumerate(zip(chart.panels, axes, strict=True)):
        parts.append(_panel(panel, axis, frame, frame.top(number)))
    bottom = frame.top(len(chart.panels) - 1) + plot
    parts.append(_time_axis(chart, frame, bottom))
    parts += [_event(*pair, frame, bottom) for pair in zip(chart.events, labels, strict=True)]
    # Titles last: they are wider than the space before the events' lines, and stay readable there.
    parts += [_title(panel, frame, frame.top(n)) for n, panel in enumerate(chart.panels)]
    height = bottom + AXIS
    legend = _legend(chart, frame, height)
    if legend:
        parts.append(legend)
        height += LEGEND
    return picture(width, height, chart.words, *parts, class_="pic pic-chart")


def _to_label(event: ChartEvent, x: Scale) -> EventToLabel:
    clock = event.clock
    words = [f"{event.words} {clock}", f"{event.words} {clock[:5]}", event.words]
    if event.earlier:
        words = [f"{word} (earlier)" for word in words[:2]] + words[2:]
    if event.kind == "change":
        words.append(fitted(event.words, 60, SIZE))
    side: Side = "left" if event.kind == "change" else "right"
    return EventToLabel(x(event.time), tuple(words), side, row=1 if event.kind == "alert" else 0)


def _title(panel: ChartPanel, frame: _Frame, top: float) -> str:
    more = " (suspected)" if panel.role == "candidate" else ""
    if panel.log:
        more += " (log scale)"
    room = frame.right - frame.left - words_width(more, SIZE, bold=True)
    words = shortened(panel.title, room, SIZE, bold=True)
    return text(frame.left, top - 6, words + more, f"title {panel.role}")


def _panel(panel: ChartPanel, axis: ValueAxis, frame: _Frame, top: float) -> str:
    def y(value: float) -> float:
        return top + frame.plot * (1 - axis.share(value))

    parts = []
    if panel.usual is not None:
        low, high = y(panel.usual[0]), y(panel.usual[1])
        # A range of a single value is seen as well.
        tall = max(3.0, low - high)
        band_top = min(high, top + frame.plot - tall)
        across = frame.right - frame.left
        parts.append(
            element("rect", x=frame.left, y=band_top, width=across, height=tall, class_="usual")
        )
    for tick, label in axis.ticks:
        parts.append(
            element("path", d=f"M{frame.left:.1f} {y(tick):.1f}H{frame.right:.1f}", class_="rule")
        )
        parts.append(text(frame.left - 6, y(tick) + 4, label, "tick", "end"))
    if panel.threshold is not None:
        d = f"M{frame.left:.1f} {y(panel.threshold):.1f}H{frame.right:.1f}"
        parts.append(element("path", d=d, class_="threshold"))
    parts += _bars(panel, frame, y, top) if panel.counted else _curves(panel, frame, y)
    return element("g", *parts, class_=panel.role)


def _curves(panel: ChartPanel, frame: _Frame, y: Scale) -> list[str]:
    parts = []
    few = len(panel.values) <= MOST_DOTS
    for run in panel.runs:
        points = [(frame.x(time), y(value)) for time, value in run]
        # A single point makes no line, so only a dot shows it.
        if few or len(points) == 1:
            for px, py in points:
                parts.append(element("circle", cx=px, cy=py, r=2.2, class_="dot"))
        if len(points) > 1:
            line = "L".join(f"{px:.1f} {py:.1f}" for px, py in _thinned(points))
            parts.append(element("path", d=f"M{line}", class_="curve"))
    return parts


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Of the points in one column of pixels the highest and the lowest, which is all that is
    seen."""
    columns: dict[int, list[tuple[float, float]]] = {}
    for point in points:
        columns.setdefault(int(point[0] * POINTS_PER_PX), []).append(point)
    # Thin out only where it saves points.
    if len(columns) * 2 >= len(points):
        return points
    extremes = []
    for column in columns.values():
        ends = {min(column, key=lambda p: p[1]), max(column, key=lambda p: p[1])}
        # In the order of time, or the line would run back.
        extremes += sorted(ends)
    return extremes


def _bars(panel: ChartPanel, frame: _Frame, y: Scale, top: float) -> list[str]:
    floor = top + frame.plot
    parts = []
    for time, value in panel.runs[0]:
        left, right = frame.x(time), min(frame.right, frame.x(time + panel.step))
        if value > 0 and right > left:
            wide = max(1.0, right - left - 1)
            tall = floor - y(value)
            parts.append(
                element("rect", x=left, y=y(value), width=wide, height=tall, class_="count")
            )
    return parts


def _time_axis(chart: DecisiveChart, frame: _Frame, bottom: float) -> str:
    most = int((frame.right - frame.left) // 68)
    parts = []
    for time, label in time_ticks(chart.start, chart.end, most):
        half = words_width(label, SIZE) / 2
        x = frame.x(time)
        if x - half >= 0 and x + half <= frame.width:
            parts.append(text(x, bottom + 15, label, "tick", "middle"))
    return element("g", *parts)


def _event(event: ChartEvent, label: PlacedLabel, frame: _Frame, bottom: float) -> str:
    """Its line, through all panels, with symbol and words above."""
    x, y = label.symbol, label.row * ROW + ROW / 2
    straight = frame.head - ELBOW
    at = frame.x(event.time)
    parts = []
    d = f"M{x:.1f} {y:.1f}V{straight:.1f}L{at:.1f} {frame.head:.1f}"
    if not event.earlier:
        d += f"V{bottom:.1f}"
    parts.append(element("path", d=d, class_="line"))
    if event.kind == "change":
        symbol = element(
            "path", d=f"M{x:.1f} {y - 5.5:.1f}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", class_="symbol"
        )
    elif event.kind == "onset":
        symbol = element("circle", cx=x, cy=y, r=4.5, class_="symbol")
    else:
        symbol = element("path", d=f"M{x:.1f} {y - 5:.1f}l5.5 9.5h-11z", class_="symbol")
    parts.append(symbol)
    parts.append(text(label.left, y + 4, label.words))
    return element("g", *parts, class_=f"event {event.kind}")


def _legend(chart: DecisiveChart, frame: _Frame, top: float) -> str:
    """What the band and the dashed line mean, and which day the times belong to."""
    parts: list[str] = []
    x = frame.left
    day = f"{datetime.fromtimestamp(chart.start, UTC):%d %b %Y}, UTC"
    y = top + 13
    if any(panel.usual for panel in chart.panels):
        parts.append(element("rect", x=x, y=y - 8, width=18.0, height=8.0, class_="usual"))
        parts.append(text(x + 24, y, "usual range"))
        x += 24 + words_width("usual range", SIZE) + 14
    if any(panel.threshold is not None for panel in chart.panels):
        parts.append(element("path", d=f"M{x:.1f} {y - 4:.1f}h18", class_="threshold"))
        parts.append(text(x + 24, y, "alert threshold"))
        x += 24 + words_width("alert threshold", SIZE) + 14
    if x + words_width(day, SIZE) <= frame.right:
        parts.append(text(frame.right, y, day, None, "end"))
    return element("g", *parts, class_="legend")
