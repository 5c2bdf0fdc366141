"""The roofline on the page: where points and lines stand, and the table of what could be gained."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.traces.costs.call import accelerator_named
from faultline.analysis.traces.per_rank.roofline import rows
from faultline.trace_report.roofline_plot import roofline_plot, worst_table
from tests.analysis.traces.device_traces import kernel
from tests.analysis.traces.per_rank.test_roofline import GEMM, H100, mm, trace_of
from tests.analysis.traces.written_traces import event

DEVICE = accelerator_named("NVIDIA H100 80GB HBM3")


def two_products(folder: Path) -> list[dict[str, Any]]:
    """One near its roofline, one far from it, in each of two steps."""
    events = []
    for step in range(2):
        at, first = 1_000.0 * step, 2 * step
        events.append(event(f"ProfilerStep#{step}", at, 1_000, cat="user_annotation"))
        events += mm(at + 10, 4096, 4096, 4096, first + 1)
        events.append(kernel(GEMM, at + 100, 150, correlation=first + 1))
        events += mm(at + 40, 2048, 2048, 2048, first + 2)
        events.append(kernel(GEMM, at + 300, 600, correlation=first + 2))
    return rows(trace_of(folder, *events, header=H100))


def test_the_first_rows_say_what_a_step_would_gain(tmp_path: Path) -> None:
    far, near = two_products(tmp_path)
    # 2048 cubed takes 17.36 us at 989.4 TFLOP/s.
    assert far["gain_per_step_ns"] == pytest.approx(600_000 - 17_364, abs=5)
    assert far["gain_percent"] == pytest.approx(58.26, abs=0.01)
    assert near["gain_per_step_ns"] == pytest.approx(150_000 - 138_911, abs=5)
    table = worst_table([far, near])
    assert table is not None
    assert [row[2].text for row in table.rows] == ["0.583", "0.011"]


def test_points_lie_below_the_roof_and_areas_are_times(tmp_path: Path) -> None:
    plot = roofline_plot(two_products(tmp_path), DEVICE)
    assert plot is not None
    (line,) = plot.lines
    assert line.label == "bf16 989.4 TFLOP/s"
    far, near = plot.points
    assert far.radius**2 / near.radius**2 == pytest.approx(4.0)
    # Higher on the drawing is a smaller y: the roof, the near one, the far one.
    assert line.ridge[1] < near.y < far.y
    assert "93 % of the roofline" in near.title


def test_the_ridge_is_where_the_peaks_meet(tmp_path: Path) -> None:
    plot = roofline_plot(two_products(tmp_path), DEVICE)
    assert plot is not None
    x = {label: at for at, label in plot.x_marks}
    low, high = x["100"], x["1000"]
    part = (plot.lines[0].ridge[0] - low) / (high - low)
    assert 10 ** (2 + part) == pytest.approx(989.4 / 3.35, rel=0.01)
    assert math.isfinite(part)


def test_an_unknown_device_has_no_roofline(tmp_path: Path) -> None:
    found = two_products(tmp_path)
    assert roofline_plot(found, None) is None
    assert roofline_plot([], DEVICE) is None


ROOT = Path(__file__).resolve().parents[2]


def test_every_colour_of_the_page_is_defined() -> None:
    page = (ROOT / "trace_report" / "static" / "page.css").read_text()
    whole = (ROOT / "bot" / "web" / "static" / "app.css").read_text() + page
    used = set(re.findall(r"var\(--([\w-]+)\)", page))
    assert used - set(re.findall(r"--([\w-]+):", whole)) == set()
