from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.windows import metric_windows
from tests.analysis.cases import START, at, series, write_case

HOUR = 60


def without_scope(folder: Path, **tables: list[dict[str, Any]]) -> Path:
    """A case folder that does not tell its windows."""
    write_case(folder, **tables)
    (folder / "scope.json").unlink()
    return folder


@pytest.mark.parametrize(
    ("minute", "part"),
    [(-2.5 * HOUR, None), (-1.5 * HOUR, "baseline"), (25, "incident"), (40, None)],
)
def test_without_windows_an_alert_is_compared_with_the_two_hours_before(
    tmp_path: Path, minute: float, part: str | None
) -> None:
    scope = read_case(without_scope(tmp_path)).scope
    moment = START + timedelta(minutes=minute)
    parts = []
    for name, windows in (("baseline", scope.baseline), ("incident", (scope.incident,))):
        parts += [name for window in windows if window.start <= moment <= window.end]
    assert parts == ([part] if part else [])


@pytest.mark.parametrize(("minutes_before", "is_searched"), [(25, True), (40, False)])
def test_without_a_baseline_an_incident_may_have_begun_shortly_before_the_alert(
    tmp_path: Path, minutes_before: float, *, is_searched: bool
) -> None:
    rows = [{**row, "time": at(-3 * HOUR)} for row in series("web", "cpu", 1, 1)[:1]]
    case = write_case(tmp_path, metrics=rows, scope={"baseline": []})
    moment = START - timedelta(minutes=minutes_before)
    assert (metric_windows(case).search.start <= moment) is is_searched


@pytest.mark.parametrize(("hours_between", "is_another_day"), [(9, False), (15, True)])
def test_a_baseline_that_ended_half_a_day_earlier_is_of_another_day(
    tmp_path: Path, hours_between: float, *, is_another_day: bool
) -> None:
    earlier = (-1 - hours_between) * HOUR
    baseline = [[at(earlier - HOUR), at(earlier)], [at(-HOUR), at(0)]]
    case = write_case(tmp_path, scope={"baseline": baseline})
    expected = START - timedelta(hours=1) if is_another_day else None
    assert metric_windows(case).recent == expected
