from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.metrics.failing_requests import failing_requests
from tests.analysis.cases import START, at, failing, in_unit, series, write_case

ALERT = {"service": "web", "signal": "error_ratio"}


def test_counts_per_minute_and_availabilities_in_percent_are_understood(tmp_path: Path) -> None:
    rows = series("web", "availability", 100, 90, noise=0) + series(
        "web", "requests", 500, 500, noise=0
    )
    alert = {"service": "web", "signal": "availability"}
    found = failing_requests(write_case(tmp_path, alert=alert, metrics=rows), "web", START)
    assert found is not None
    assert found.failed == pytest.approx(500 * 0.1 * 30)
    assert found.share == pytest.approx(0.1)


def test_error_counts_and_request_counts_give_the_same(tmp_path: Path) -> None:
    rows = series("web", "errors", 0, 50, noise=0) + series("web", "requests", 500, 500, noise=0)
    found = failing_requests(write_case(tmp_path, alert=ALERT, metrics=rows), "web", START)
    assert found is not None
    assert found.failed == pytest.approx(1500)
    assert found.share == pytest.approx(0.1)


@pytest.mark.parametrize(
    "rows",
    [
        failing(share=0.0006),
        in_unit(series("web", "availability", 1, 0.5, noise=0), "ratio"),
        series("web", "dynamodb_write_throttle_ratio", 0.001, 0.5),
        series("web", "latency_ms", 100, 900),
    ],
    ids=["no more than before", "instances, not requests", "of something else", "no share"],
)
def test_what_does_not_tell_of_failing_requests_gives_none(
    tmp_path: Path, rows: list[dict[str, Any]]
) -> None:
    assert failing_requests(write_case(tmp_path, alert=ALERT, metrics=rows), "web", START) is None


def test_traffic_of_successes_only_is_not_multiplied(tmp_path: Path) -> None:
    rows = in_unit(series("web", "error_ratio", 0.0005, 0.9), "ratio") + series(
        "web", "records_written_per_min", 100, 10
    )
    found = failing_requests(write_case(tmp_path, alert=ALERT, metrics=rows), "web", START)
    assert found is not None
    assert found.failed is None


@pytest.mark.parametrize(
    ("before", "share", "fail"),
    [(0, 0.0004, False), (0, 0.0006, True), (0.02, 0.03, False), (0.02, 0.05, True)],
    ids=["hardly any", "a few", "half as many again", "many more"],
)
def test_requests_fail_by_the_incident_where_clearly_more_fail(
    tmp_path: Path, before: float, share: float, *, fail: bool
) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=failing(before=before, share=share))
    assert (failing_requests(case, "web", START) is not None) is fail


@pytest.mark.parametrize(("points", "known"), [(1, False), (2, True)])
def test_one_point_does_not_tell_what_fails(tmp_path: Path, points: int, *, known: bool) -> None:
    rows = [row for row in failing() if row["time"] < at(points)]
    case = write_case(tmp_path, alert=ALERT, metrics=rows)
    assert (failing_requests(case, "web", START) is not None) is known
