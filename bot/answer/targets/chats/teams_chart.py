"""The decisive chart of an answer as line charts of a card: Teams draws them itself, on a phone and
in dark mode too. A client that knows no charts leaves them out.

Pure. The time runs in minutes or hours from one moment, because clients show the clock times of a
card in their own time zones.

Source: learn.microsoft.com, "Charts in Adaptive Cards", `Chart.Line`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from faultline.analysis.wording.amounts import Unit
from faultline.bot.answer.pictures.chart_data import ChartPanel, DecisiveChart
from faultline.bot.answer.writer.quotable import quotable

Part = dict[str, Any]
Points = Sequence[tuple[float, float]]

MOST_POINTS = 60
"""Of one series: what a phone can show, and some 2 KB of a card."""
MOST_RUNS = 4
"""Each part of a series between two holes is a line with its own legend. Of one with more holes,
such as a scrape that fails now and then, the points are joined."""
DIGITS = 4
LONG_S = 6 * 3600.0
"""From this length on the time is given in hours."""
COLOURS = {
    "culprit": "categoricalRed",
    "candidate": "categoricalMarigold",
    "affected": "categoricalBlue",
    "other": "categoricalBlue",
}
_SCALES: dict[str, Sequence[tuple[float, str]]] = {
    "time": (
        (7200.0, "hours"),
        (120.0, "minutes"),
        (1.0, "seconds"),
        (1e-3, "ms"),
        (1e-6, "µs"),
        (1e-9, "ns"),
    ),
    "bytes": ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "bytes")),
    "share": ((0.01, "%"),),
    "rate": ((1.0, "per second"),),
}
"""By kind of unit: from which value on, in seconds, bytes or shares of 1, and its name."""
_SIZES = {"hours": 3600.0, "minutes": 60.0}


def line_charts(chart: DecisiveChart) -> list[Part]:
    """One for each of its panels, the culprit's first."""
    # When it began, where that is known; else the alert.
    order = ("onset", "alert", "change")
    zero = min(chart.events, key=lambda event: order.index(event.kind))
    hours = chart.end - chart.start >= LONG_S
    step_s, named = (3600.0, "hours") if hours else (60.0, "minutes")
    axis = f"{named} from {zero.clock[:5]} UTC ({zero.words})"
    return [_panel(chart, panel, zero.time, step_s, axis) for panel in chart.panels]


def _panel(chart: DecisiveChart, panel: ChartPanel, zero: float, step_s: float, axis: str) -> Part:
    factor, unit = _scale(panel)

    def points(samples: Points) -> list[Part]:
        return [
            {"x": round((time - zero) / step_s, 2), "y": float(f"{value * factor:.{DIGITS}g}")}
            for time, value in samples
        ]

    def level(value: float) -> list[Part]:
        return points([(chart.start, value), (chart.end, value)])

    def series(legend: str, colour: str, values: list[Part]) -> Part:
        return {"legend": quotable(legend), "color": colour, "values": values}

    runs = panel.runs
    if len(runs) > MOST_RUNS:
        runs = (tuple(itertools.chain.from_iterable(runs)),)
    share = MOST_POINTS / len(panel.values)
    part = panel.title.rpartition(": ")[2]
    # A line needs two points, however short its run is.
    data = [
        series(part, COLOURS[panel.role], points(thinned(run, max(2, int(share * len(run))))))
        for run in runs
    ]
    if panel.usual is not None:
        # A usual range of a single value is one line.
        data += [series("usual", "neutral", level(edge)) for edge in sorted(set(panel.usual))]
    if panel.threshold is not None:
        data.append(series("alert threshold", "attention", level(panel.threshold)))
    low, high = min(panel.values), max(panel.values)
    for event in chart.events:
        if event.kind == "change" and not event.earlier:
            at = points([(event.time, low), (event.time, high)])
            data.append(series(f"{event.words} {event.clock[:5]}", "warning", at))
    titles = {"xAxisTitle": axis} | ({"yAxisTitle": quotable(unit)} if unit else {})
    return {
        "type": "Chart.Line",
        "title": quotable(panel.title),
        **titles,
        "data": data,
        "fallback": "drop",
    }


def thinned(run: Points, most: int) -> list[tuple[float, float]]:
    """At most `most` points: of each part the one that stands out most, so that peaks stay."""
    if len(run) <= most:
        return list(run)
    middle = median(value for _, value in run)
    return [max(part, key=lambda point: abs(point[1] - middle)) for part in _parts(run, most)]


def _parts(run: Points, count: int) -> Iterator[Points]:
    for place in range(count):
        yield run[place * len(run) // count : (place + 1) * len(run) // count]


def _scale(panel: ChartPanel) -> tuple[float, str]:
    """What to multiply values by, and the unit that they have then."""
    unit: Unit = panel.unit
    kind, _, per = unit.kind.partition("/")
    scales = _SCALES.get(kind)
    if scales is None:
        return unit.factor, unit.noun
    most = max(map(abs, panel.values)) * unit.factor
    least, name = next((scale for scale in scales if most >= scale[0]), scales[-1])
    # A value is shown in hours from two hours on, so that bound is not the unit's size.
    return unit.factor / _SIZES.get(name, least), f"{name}/{per}" if per else name
