"""The roofline of one rank: what each operator reached over its arithmetic intensity, below what
the device can do; and the ten with the most to gain.

Williams, Waterman and Patterson, "Roofline: an insightful visual performance model" (2009).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultline.analysis.traces.costs.call import Accelerator
from faultline.trace_report.page_parts import (
    Column,
    Table,
    count_cell,
    ms_cell,
    number_cell,
    table,
    text_cell,
)

WIDTH, HEIGHT = 900, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 14, 44
"""Margins of the drawing, for the axes."""
SMALLEST, LARGEST = 3.0, 16.0
"""Radius of a point: its area is the operator's time, the largest's that of the longest."""
MAX_POINTS = 60
WORST = 10
COLOURS = {"compute": 3, "memory": 6}
"""By what bounds an operator; in the style sheet's colours."""


@dataclass(frozen=True)
class RooflinePoint:
    """One operator."""

    x: float
    y: float
    radius: float
    colour: int
    title: str


@dataclass(frozen=True)
class RooflineLine:
    """The memory's slope and one precision's peak, as an SVG path, with the ridge between them."""

    path: str
    ridge: tuple[float, float]
    label: str
    label_y: float


@dataclass(frozen=True)
class RooflinePlot:
    """A drawing of WIDTH x HEIGHT; both axes are logarithmic."""

    lines: tuple[RooflineLine, ...]
    points: tuple[RooflinePoint, ...]
    x_marks: tuple[tuple[float, str], ...]
    y_marks: tuple[tuple[float, str], ...]
    slope: tuple[float, float, str]
    """Where the memory's bandwidth is written, and what."""
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = WIDTH - RIGHT
    top: int = TOP
    bottom: int = HEIGHT - BOTTOM


def worst_table(rows: Sequence[Mapping[str, Any]]) -> Table | None:
    """The rows are in the order of what can be gained."""
    columns = (
        Column("operator", "name"),
        Column("shapes", "name"),
        Column("gain ms per step"),
        Column("% of the step"),
        Column("% of roofline", hint="the least time of the time taken"),
        Column("bound by", ""),
        Column("TFLOP/s"),
        Column("TB/s"),
        Column("calls"),
    )
    cells = [
        (
            text_cell(row["operator"]),
            text_cell(row["shapes"]),
            ms_cell(row["gain_per_step_ns"]),
            number_cell(row["gain_percent"], 2),
            number_cell(row["roofline_percent"]),
            text_cell(row["bound"]),
            number_cell(row["tflops_per_s"], 2),
            number_cell(row["tb_per_s"], 3),
            count_cell(row["calls"]),
        )
        for row in rows[:WORST]
        if row.get("gain_per_step_ns")
    ]
    return table(columns, cells)


def roofline_plot(
    rows: Sequence[Mapping[str, Any]], device: Accelerator | None
) -> RooflinePlot | None:
    """None where the device is not known, or no operator has both FLOPs and bytes."""
    shown = [r for r in rows if r.get("flops_per_byte") and r.get("tflops_per_s")]
    shown = sorted(shown, key=lambda r: -r["time_ns"])[:MAX_POINTS]
    if device is None or not shown:
        return None
    peaks = _peaks(shown, device)
    if not peaks:
        return None
    ridges = [peak / device.tb_s for peak in peaks.values()]
    across = [float(r["flops_per_byte"]) for r in shown]
    reached = [float(r["tflops_per_s"]) for r in shown]
    scale = _Scale(
        (min(*across, *ridges), max(*across, *ridges)),
        (min(*reached, min(across) * device.tb_s), max(*reached, *peaks.values())),
    )
    longest = shown[0]["time_ns"]
    points = []
    for row in shown:
        # The area stands for the time.
        radius = max(LARGEST * math.sqrt(row["time_ns"] / longest), SMALLEST)
        at = scale.at(row["flops_per_byte"], row["tflops_per_s"])
        points.append(RooflinePoint(*at, radius, COLOURS.get(row["bound"], 8), _title(row)))
    lines = tuple(_line(name, peak, device, scale) for name, peak in peaks.items())
    start = scale.at(scale.x_low, scale.x_low * device.tb_s)
    slope = (start[0] + 8, start[1] - 38, f"memory {device.tb_s:g} TB/s")
    return RooflinePlot(lines, tuple(points), scale.x_marks, scale.y_marks, slope)


def _peaks(rows: Sequence[Mapping[str, Any]], device: Accelerator) -> dict[str, float]:
    """TFLOP/s of the precisions that the operators have, the highest first; of equal ones one
    line."""
    by_peak: dict[float, list[str]] = {}
    for precision in dict.fromkeys(str(r["precision"]) for r in rows):
        # float32 operators may run as TF32: draw both peaks.
        names = [precision, "tf32"] if precision == "fp32" else [precision]
        for name in names:
            peak = device.tflops.get(name)
            if peak is not None:
                by_peak.setdefault(peak, []).append(name)
    ordered = sorted(by_peak.items(), reverse=True)
    return {", ".join(names): peak for peak, names in ordered}


def _title(row: Mapping[str, Any]) -> str:
    percent = row.get("roofline_percent")
    share = "" if percent is None else f", {percent:.0f} % of the roofline"
    name = text_cell(f"{row['operator']} {row['shapes']}").text
    return (
        f"{name}: {row['tflops_per_s']:,.3g} TFLOP/s at {row['flops_per_byte']:,.3g} FLOP per "
        f"byte, {row['time_ns'] / 1e6:,.3f} ms{share}"
    )


def _line(name: str, peak: float, device: Accelerator, scale: _Scale) -> RooflineLine:
    start = scale.at(scale.x_low, scale.x_low * device.tb_s)
    ridge = scale.at(peak / device.tb_s, peak)
    end = scale.at(scale.x_high, peak)
    corners = (start, ridge, end)
    path = "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    return RooflineLine(path, ridge, f"{name} {peak:,g} TFLOP/s", end[1] - 5)


class _Scale:
    """Places on the drawing; each axis goes over whole powers of ten."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]) -> None:
        self._x, self._y = _powers(*x), _powers(*y)
        self.x_low, self.x_high = 10.0 ** self._x[0], 10.0 ** self._x[1]

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Values below an axis lie on it."""
        across = _part(x, self._x) * (WIDTH - LEFT - RIGHT)
        up = _part(y, self._y) * (HEIGHT - TOP - BOTTOM)
        return round(LEFT + across, 1), round(HEIGHT - BOTTOM - up, 1)

    @property
    def x_marks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the powers of ten."""
        powers = range(self._x[0], self._x[1] + 1)
        return tuple((self.at(10.0**p, 1.0)[0], f"{10.0**p:g}") for p in powers)

    @property
    def y_marks(self) -> tuple[tuple[float, str], ...]:
        """Places and labels of the powers of ten."""
        powers = range(self._y[0], self._y[1] + 1)
        return tuple((self.at(1.0, 10.0**p)[1], f"{10.0**p:g}") for p in powers)


def _powers(least: float, most: float) -> tuple[int, int]:
    low = math.floor(math.log10(least))
    # With 1e-9 a value at a power of ten still gets room above it.
    return low, max(math.ceil(math.log10(most) + 1e-9), low + 1)


def _part(value: float, powers: tuple[int, int]) -> float:
    # 0 has no logarithm; such a value lies on the axis.
    low, high = powers
    return min(max((math.log10(max(value, 1e-12)) - low) / (high - low), 0.0), 1.0)
