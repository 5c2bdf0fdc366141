"""The decisive chart as SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from faultline.bot.answer.pictures.chart_axes import ValueAxis, time_ticks, value_axis
from faultline.bot.answer.pictures.chart_data import ChartEvent, ChartPanel, DecisiveChart
from faultline.bot.answer.pictures.chart_labels import (
    EventToLabel,
    PlacedLabel,
    Side,
    placed_labels,
)
from faultline.bot.answer.pictures.svg import element, fitted, picture, shortened, text, words_width

WIDE = 500
SIZE = 12.0
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
        parts.append(_rule(frame, y(tick)))
        parts.append(text(frame.left - 6, y(tick) + 4, label, "tick", "end"))
    if panel.threshold is not None:
        d = f"M{frame.left:.1f} {y(panel.threshold):.1f}H{frame.right:.1f}"
        parts.append(element("path", d=d, class_="threshold"))
    parts += _bars(panel, frame, y, top) if panel.counted else _curves(panel, frame, y)
    return element("g", *parts, class_=panel.role)


def _rule(frame: _Frame, y: float) -> str:
    return element("path", d=f"M{frame.left:.1f} {y:.1f}H{frame.right:.1f}", class_="rule")


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
