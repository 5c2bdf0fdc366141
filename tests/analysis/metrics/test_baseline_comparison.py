"""An onset may lie before the incident window: how far before, and how clearly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from faultline.analysis.metrics.shifts import metric_shifts
from tests.analysis.cases import START, at, write_case


def onset_min(
    folder: Path, value: Callable[[int], float], *, before: int = 60, window: int = 10
) -> float | None:
    """Minutes from the window to the onset of a series of one point a minute; None for no move."""
    rows = []
    for minute in range(-before, window):
        # A tenth of noise on either side.
        noise = (minute * 7) % 5 - 2
        rows.append(
            {
                "time": at(minute),
                "service": "api",
                "signal": "latency_ms",
                "value": value(minute) + 5 * noise,
            }
        )
    scope = {"baseline": [[at(-before), at(0)]], "incident": [at(0), at(window - 1)]}
    found = metric_shifts(write_case(folder, metrics=rows, scope=scope))
    if not found or found[0].onset is None:
        return None
    return (found[0].onset - START).total_seconds() / 60


@pytest.mark.parametrize(("since", "onset"), [(-17, -17), (-25, -20)])
def test_an_onset_is_looked_for_two_windows_back(tmp_path: Path, since: int, onset: int) -> None:
    assert onset_min(tmp_path, lambda minute: 400 if minute >= since else 100) == onset


@pytest.mark.parametrize(("rise", "onset"), [(28, None), (45, -12)])
def test_only_a_clear_move_began_before_the_window(
    tmp_path: Path, rise: float, onset: float | None
) -> None:
    assert onset_min(tmp_path, lambda minute: 100 + (rise if minute >= -12 else 0)) == onset


@pytest.mark.parametrize(
    ("calm", "onset"),
    [(range(-6, -5), -12), (range(-6, 0), 0)],
    ids=["calm for a minute", "calm for half of the time"],
)
def test_a_burst_that_ended_is_no_onset(tmp_path: Path, calm: range, onset: float) -> None:
    def value(minute: int) -> float:
        return 400 if minute >= -12 and minute not in calm else 100

    assert onset_min(tmp_path, value) == onset


@pytest.mark.parametrize(("before", "onset"), [(18, 0), (24, -6)])
def test_no_onset_lies_in_a_baseline_whose_first_half_has_few_points(
    tmp_path: Path, before: int, onset: float
) -> None:
    found = onset_min(tmp_path, lambda minute: 400 if minute >= -6 else 100, before=before)
    assert found == onset
