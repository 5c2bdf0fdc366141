"""The one chart of an answer, as PNG: the decisive signal against its normal range, or the ranks of
a training job.

Drawn with matplotlib's Agg canvas and no global state, so that several may be drawn at once.
"""

from __future__ import annotations

import io
import math
import warnings
from datetime import UTC, datetime
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from analysis.case.folder import Case
from analysis.vocabulary import Diagnosis, Finding
from analysis.wording.phrases import number
from bot.answer.decisive_signal import (
    DecisiveSignal,
    Phases,
    decisive_finding,
    phases_of,
    signal_of,
    step_time_finding,
)
from bot.answer.foreign_text import one_line

SIZE_PX = (800, 360)
SCALE = 2
"""Slack shows an image up to 800 px wide; twice that stays sharp on every screen."""
DPI = 100 * SCALE

BLUE, VERMILLION, ORANGE, GREEN, GREY, INK = (
    "#0072B2",
    "#D55E00",
    "#E69F00",
    "#009E73",
    "#8A8F98",
    "#1D1C1D",
)
"""Okabe and Ito's palette, told apart with any colour vision: https://jfly.uni-koeln.de/color/"""
MAX_PHASES = 6
MAX_THRESHOLD = 3.0
"""A threshold further above the values than so many times would flatten them; it is left out."""
HOLE = 3.5
"""A step so many times as long as usual, and as a step beside it, is a hole in the record."""
CHARACTER_PX = 6.2
WORD_HEIGHT = 0.085
"""Width of a character and height of a row of words, the latter as a share of the axes."""


def decisive_chart(case: Case, diagnosis: Diagnosis) -> bytes | None:
    """The chart as PNG of 1600 x 720 px, or None when no finding has a series to show."""
    finding = decisive_finding(diagnosis)
    return _chart_of(case, diagnosis, finding) if finding is not None else None


def finding_chart(case: Case, diagnosis: Diagnosis, finding_id: str) -> bytes | None:
    """The chart of one finding, or None when it has no series to show."""
    finding = next((f for f in diagnosis.findings if f.id == finding_id), None)
    return _chart_of(case, diagnosis, finding) if finding is not None else None


def _chart_of(case: Case, diagnosis: Diagnosis, finding: Finding) -> bytes | None:
    phases = phases_of(finding)
    if phases is not None:
        steps = step_time_finding(diagnosis, phases.rank)
        return _draw_job(phases, signal_of(case, diagnosis, steps) if steps else None)
    signal = signal_of(case, diagnosis, finding)
    return _draw_signal(signal) if signal is not None else None


def _draw_signal(signal: DecisiveSignal) -> bytes:
    figure = _figure()
    axes = figure.subplots()
    _series(axes, signal, 0.93 * SIZE_PX[0])
    _title(axes, signal.title)
    return _png(figure)


def _draw_job(phases: Phases, steps: DecisiveSignal | None) -> bytes:
    figure = _figure()
    panels = figure.subplots(
        1,
        2 if steps else 1,
        squeeze=False,
        gridspec_kw={"width_ratios": [1, 1.25][: 1 + bool(steps)]},
    )
    _phase_bars(panels[0][0], phases)
    if steps is not None:
        right = panels[0][1]
        _series(right, steps, 0.48 * SIZE_PX[0])
        _title(right, one_line(steps.title, 48))
    return _png(figure)


def _figure() -> Figure:
    width, height = SIZE_PX
    figure = Figure(
        figsize=(width / 100, height / 100), dpi=DPI, facecolor="white", layout="constrained"
    )
    FigureCanvasAgg(figure)
    return figure


def _series(axes: Axes, signal: DecisiveSignal, width_px: float) -> None:
    times = [datetime.fromtimestamp(t, UTC) for t in signal.times]
    if signal.normal is not None:
        low, middle, high = signal.normal
        axes.axhspan(
            low, high, color=GREY, alpha=0.25, linewidth=0, label="baseline, 5th to 95th percentile"
        )
        axes.axhline(middle, color=GREY, linewidth=1)
    x: Any = times
    if signal.counted:
        width: Any = (times[1] - times[0]) if len(times) > 1 else 1
        axes.bar(
            x,
            signal.values,
            width=width,
            align="edge",
            color=BLUE,
            edgecolor="white",
            linewidth=0.5,
        )
    else:
        x, values = _broken_at_holes(signal)
        axes.plot(
            x,
            values,
            color=BLUE,
            linewidth=1.8,
            marker="o" if len(times) <= 60 else "",
            markersize=3,
        )
    _time_axis(axes, times)
    rows = _marks(axes, signal, width_px)
    _y_axis(axes, signal, 0.06 + rows * WORD_HEIGHT)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(
            loc="lower left",
            bbox_to_anchor=(0, 1.0),
            frameon=False,
            fontsize=8,
            ncols=2,
            borderaxespad=0.1,
        )


def _broken_at_holes(signal: DecisiveSignal) -> tuple[list[datetime], list[float]]:
    """The points with a NaN in every hole, so that no line is drawn where nothing was recorded."""
    steps = np.diff(signal.times)
    beside = np.minimum(np.append(steps[1:], np.inf), np.insert(steps[:-1], 0, np.inf))
    usual = np.maximum(np.median(steps), np.where(np.isfinite(beside), beside, 0))
    holes = np.flatnonzero(steps > HOLE * usual)
    times = np.insert(signal.times, holes + 1, signal.times[holes] + steps[holes] / 2)
    values = np.insert(signal.values, holes + 1, math.nan)
    return [datetime.fromtimestamp(t, UTC) for t in times], values.tolist()


def _y_axis(axes: Axes, signal: DecisiveSignal, headroom: float) -> None:
    """From zero where the values allow it, with room for the words at the top."""
    shown = [*signal.values.tolist(), *(signal.normal or ())]
    low, high = min(shown), max(shown)
    if signal.threshold is not None and signal.threshold <= MAX_THRESHOLD * max(high, 1e-12):
        high = max(high, signal.threshold)
        axes.axhline(
            signal.threshold,
            color=ORANGE,
            linewidth=1.4,
            linestyle=(0, (4, 2)),
            label="alert threshold",
        )
    from_zero = signal.counted or -0.02 * high <= low < 0.6 * high
    bottom = 0.0 if from_zero else low - 0.1 * (high - low or abs(high) or 1)
    axes.set_ylim(bottom, bottom + ((high - bottom) or abs(high) or 1) / (1 - headroom))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: number(float(v), 3)))
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=signal.counted))
    axes.set_ylabel(signal.unit, parse_math=False)
    axes.grid(axis="y", color="#E8E8E8", linewidth=0.8)
    axes.set_axisbelow(True)


def _time_axis(axes: Axes, times: list[datetime]) -> None:
    locator = AutoDateLocator(tz=UTC, minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    formatter = ConciseDateFormatter(locator, tz=UTC, show_offset=False)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_formatter(formatter)
    axes.set_xlabel(f"time (UTC), {times[0]:%d %b %Y}")
    axes.margins(x=0.01)


def _marks(axes: Axes, signal: DecisiveSignal, width_px: float) -> int:
    """Vertical lines with their words along the top, those that would overlap one row lower. Gives
    the rows used."""
    marks: list[tuple[datetime, str, str, Any]] = [(signal.alert_at, "alert", INK, (0, (5, 2)))]
    if signal.onset is not None:
        marks.append((signal.onset, "onset", VERMILLION, "solid"))
    marks += [(c.time, c.label, GREEN if c.blamed else GREY, (0, (1, 1))) for c in signal.changes]
    first, last = axes.get_xlim()
    taken: list[tuple[float, float, int]] = []
    for at, text, colour, style in sorted(marks, key=lambda m: m[0]):
        x = at.timestamp() / 86400
        share = (x - first) / (last - first)
        if not 0 <= share <= 1:
            continue
        width = CHARACTER_PX * (len(text) + 2) / width_px
        left = share if share + width < 1 else share - width
        row = next(
            r for r in range(99) if all(r != o or left > e or left + width < s for s, e, o in taken)
        )
        taken.append((left, left + width, row))
        axes.axvline(x, color=colour, linewidth=1.5, linestyle=style, zorder=1.5)
        _word(axes, x, 0.985 - WORD_HEIGHT * row, text, colour, to_the_left=left < share)
    return 1 + max((row for *_, row in taken), default=0)


def _word(axes: Axes, x: float, y: float, text: str, colour: str, *, to_the_left: bool) -> None:
    axes.annotate(
        text,
        (x, y),
        xycoords=axes.get_xaxis_transform(),
        xytext=(-4 if to_the_left else 4, 0),
        textcoords="offset points",
        ha="right" if to_the_left else "left",
        va="top",
        fontsize=9,
        color=colour,
        parse_math=False,
        zorder=5,
        bbox={"facecolor": "white", "alpha": 0.85, "edgecolor": "none", "pad": 0.6},
    )


def _phase_bars(axes: Axes, phases: Phases) -> None:
    names = list(phases.ms)[:MAX_PHASES][::-1]
    at = np.arange(len(names))
    for offset, side, colour, label in (
        (0.2, 0, VERMILLION, f"rank {phases.rank}"),
        (-0.2, 1, BLUE, "other ranks, median"),
    ):
        values = [phases.ms[n][side] for n in names]
        bars = axes.barh(at + offset, values, height=0.38, color=colour, label=label)
        axes.bar_label(bars, [number(v, 2) for v in values], padding=3, fontsize=8.5, color=INK)
    axes.set_yticks(at, [one_line(n, 18) for n in names], parse_math=False)
    axes.set_xlabel("ms per step")
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.margins(x=0.16)
    axes.grid(axis="x", color="#E8E8E8", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
        frameon=False,
        fontsize=8,
        ncols=2,
        borderaxespad=0.1,
    )
    _title(axes, "Where the step's time goes")


def _title(axes: Axes, text: str) -> None:
    _frame(axes)
    pad = 20 if axes.get_legend() else 8
    axes.set_title(
        text, loc="left", fontsize=11, fontweight="bold", color=INK, pad=pad, parse_math=False
    )


def _frame(axes: Axes) -> None:
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color("#B0B4BA")
    axes.tick_params(colors=INK, labelsize=9, color="#B0B4BA")
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_fontsize(9)
        label.set_color(INK)


def _png(figure: Figure) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        canvas: Any = figure.canvas
        canvas.print_png(
            out, metadata={"Software": None}
        )  # savefig would lay out and draw everything once more
    return out.getvalue()
