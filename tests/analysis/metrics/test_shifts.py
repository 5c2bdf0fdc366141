from __future__ import annotations

import json
import math
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultline.analysis.metrics.shifts import metric_shifts
from tests.analysis.cases import START, at, series, write_case


def test_a_step_is_found_with_its_size_onset_and_uncertainty(tmp_path: Path) -> None:
    case = write_case(tmp_path, metrics=series("api", "latency_ms", 100, 400, onset=7))
    (found,) = metric_shifts(case)
    assert (found.subject, found.signal, found.kind) == ("api", "latency_ms", "metric_shift")
    assert found.effect == pytest.approx(4, rel=0.05)
    assert found.effect_unit == "x"
    assert found.onset == START + timedelta(minutes=7)
    assert found.onset_uncertainty_s == 60
    assert found.strength > 0.8
    assert found.sentence == "Latency of api rose from 100 ms to 400 ms (4x)."
    assert found.numbers == {"baseline": 100, "incident": 400, "ratio": 4}
    assert found.details.recovered is False
    # What a count in this series is per.
    assert found.details.interval_s == 60


def of_part(rows: list[dict[str, object]], **labels: str) -> list[dict[str, object]]:
    return [row | {"labels": json.dumps(labels)} for row in rows]


def test_a_part_is_told_of_where_the_whole_stays_as_it_was(tmp_path: Path) -> None:
    pod = of_part(series("api", "latency_ms", 100, 400, onset=7), pod="api-1")
    other = of_part(series("api", "latency_ms", 100, 100, onset=7), pod="api-2")
    (found,) = metric_shifts(write_case(tmp_path, metrics=[*pod, *other]))
    assert found.sentence == "Latency of api in pod api-1 rose from 100 ms to 400 ms (4x)."
    whole = series("api", "latency_ms", 100, 130, onset=7)
    (found,) = metric_shifts(write_case(tmp_path, metrics=[*pod, *whole]))
    assert found.sentence.startswith("Latency of api rose from 100 ms to 130 ms")


def test_where_a_series_is_the_only_one_it_is_no_part(tmp_path: Path) -> None:
    rows = of_part(series("api/rank 2", "latency_ms", 100, 400, onset=7), host="trainer-0")
    (found,) = metric_shifts(write_case(tmp_path, metrics=rows))
    assert found.sentence == "Latency of rank 2 of api rose from 100 ms to 400 ms (4x)."
    assert "labels" not in found.series


def test_another_cluster_than_the_alerts_is_not_told_of(tmp_path: Path) -> None:
    rows = of_part(series("api", "latency_ms", 100, 400, onset=7), cluster="us")
    alert = {"labels": {"cluster": "eu"}}
    assert metric_shifts(write_case(tmp_path, metrics=rows, alert=alert)) == []
    alert = {"labels": {"cluster": "us"}}
    assert len(metric_shifts(write_case(tmp_path, metrics=rows, alert=alert))) == 1


def test_a_signal_in_its_own_noise_gives_no_finding(tmp_path: Path) -> None:
    case = write_case(tmp_path, metrics=series("api", "latency_ms", 100, 103, noise=0.2))
    assert metric_shifts(case) == []


def test_a_drop_in_availability_from_a_flat_ceiling_is_found(tmp_path: Path) -> None:
    case = write_case(tmp_path, metrics=series("api", "availability", 100, 96, noise=0))
    (found,) = metric_shifts(case)
    assert found.details.direction == "down"
    assert found.details.bad is True
    assert found.numbers["baseline"] == 100
    assert found.numbers["incident"] == 96


def test_a_move_that_ends_before_the_window_is_called_recovered(tmp_path: Path) -> None:
    case = write_case(tmp_path, metrics=series("api", "latency_ms", 100, 400, onset=2, until=15))
    assert metric_shifts(case)[0].details.recovered is True


def test_one_wild_point_is_weaker_than_a_sustained_move(tmp_path: Path) -> None:
    rows = series("api", "latency_ms", 100, 400, onset=5, until=6) + series(
        "web", "latency_ms", 100, 400, onset=5
    )
    strengths = {f.subject: f.strength for f in metric_shifts(write_case(tmp_path, metrics=rows))}
    assert strengths["api"] < 0.7 * strengths["web"]


def test_the_onset_lies_where_the_signal_moved_although_the_alert_came_later(
    tmp_path: Path,
) -> None:
    case = write_case(
        tmp_path,
        metrics=series("api", "latency_ms", 100, 400, onset=-12),
        scope={"baseline": [], "incident": [at(0), at(10)]},
    )
    assert metric_shifts(case)[0].onset == START - timedelta(minutes=12)


@pytest.mark.parametrize("points", [0, 1, 2])
def test_too_few_baseline_points_give_no_finding(tmp_path: Path, points: int) -> None:
    before = [
        {"time": at(-30 + i), "service": "api", "signal": "latency_ms", "value": 1.0}
        for i in range(points)
    ]
    after = [
        {"time": at(i), "service": "api", "signal": "latency_ms", "value": 9.0} for i in range(5)
    ]
    assert metric_shifts(write_case(tmp_path, metrics=before + after)) == []


def test_gaps_between_points_widen_the_uncertainty_of_the_onset(tmp_path: Path) -> None:
    rows = [
        r
        for r in series("api", "latency_ms", 100, 400, onset=10)
        if not at(5) <= r["time"] < at(10)
    ]
    assert metric_shifts(write_case(tmp_path, metrics=rows))[0].onset_uncertainty_s == 360


def test_labels_of_one_signal_are_series_of_their_own_and_the_strongest_counts(
    tmp_path: Path,
) -> None:
    calm = [{**r, "labels": "pod=a"} for r in series("api", "latency_ms", 100, 100)]
    moved = [{**r, "labels": "pod=b"} for r in series("api", "latency_ms", 100, 400)]
    (found,) = metric_shifts(write_case(tmp_path, metrics=calm + moved))
    assert found.numbers["incident"] == 400


def test_the_order_of_rows_does_not_matter(tmp_path: Path) -> None:
    rows = series("api", "latency_ms", 100, 400) + series("web", "error_ratio", 0, 0.3)
    there = metric_shifts(write_case(tmp_path / "a", metrics=rows))
    back = metric_shifts(write_case(tmp_path / "b", metrics=rows[::-1]))
    assert there == back


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=8, max_size=30))
def test_no_values_break_it_and_every_finding_is_finite(
    tmp_path_factory: pytest.TempPathFactory, values: list[float]
) -> None:
    rows = [
        {"time": at(i - 15), "service": "api", "signal": "x", "value": v}
        for i, v in enumerate(values)
    ]
    for found in metric_shifts(write_case(tmp_path_factory.mktemp("case"), metrics=rows)):
        assert 0 <= found.strength <= 1
        assert all(math.isfinite(v) for v in found.numbers.values())


def test_values_that_are_not_numbers_are_skipped(tmp_path: Path) -> None:
    lines = ["time,service,signal,value"]
    lines += [
        f"{r['time']},api,latency_ms,{r['value']}" for r in series("api", "latency_ms", 100, 400)
    ]
    lines += [
        f"{at(-20.5)},api,latency_ms,nan",
        f"{at(3.5)},api,latency_ms,inf",
        f"{at(4.5)},api,latency_ms,-inf",
    ]
    case = write_case(tmp_path)
    (tmp_path / "metrics.csv").write_text("\n".join(lines))
    (found,) = metric_shifts(case)
    assert found.numbers["incident"] == 400
