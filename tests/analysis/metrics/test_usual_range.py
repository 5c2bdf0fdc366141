from __future__ import annotations

from pathlib import Path

from faultline.analysis.metrics.recovery import usual_range
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.phrasing.clauses import statement
from tests.analysis.cases import series, write_case

ALERT = {"service": "web", "signal": "latency_ms"}


def test_a_signal_that_stayed_where_it_was_is_said_with_its_range(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 101))
    (found,) = usual_range(case, metric_shifts(case))
    assert found.numbers["low"] <= found.numbers["now"] <= found.numbers["high"]
    assert "inside its usual range (" in str(statement(found).clause())
    assert "web's latency is 1" in str(statement(found).clause())


def test_a_signal_that_left_its_range_has_none(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 900))
    assert usual_range(case, metric_shifts(case)) == []


def test_without_the_signal_nothing_is_said(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "cpu", 20, 20))
    assert usual_range(case, []) == []
