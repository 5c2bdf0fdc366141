from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from faultline.analysis.logs.departures import (
    NEW,
    SURGE,
    VANISHED,
    new_lines_expected,
    overdispersion,
    stands_out,
)

HOUR, HALF = 3600.0, 1800.0


def row(n: int, before: int, **more: Any) -> dict[str, Any]:
    """A template of a service that logs 1,000 lines before and 500 in the incident, half as
    long."""
    return {
        "n": n,
        "n_before": before,
        "service_n": 500,
        "service_before": 1000,
        "is_error": True,
        **more,
    }


def test_a_steady_line_that_comes_five_times_as_often_surges() -> None:
    found = stands_out(row(100, 40, pieces=[10, 9, 11, 10], service_pieces=[250] * 4), (HOUR, HALF))
    assert found is not None
    assert (found.kind, found.size) == (SURGE, 5.0)


def test_a_line_that_always_came_in_bursts_of_that_size_does_not_surge() -> None:
    pieces = [0, 0, 60, 0]
    assert stands_out(row(100, 60, pieces=pieces, service_pieces=[250] * 4), (HOUR, HALF)) is None


def test_a_burst_that_the_whole_service_shares_is_no_burst_of_the_line() -> None:
    pieces, service = [0, 18, 22, 0], [0, 450, 550, 0]
    found = stands_out(row(0, 40, pieces=pieces, service_pieces=service), (HOUR, HALF))
    assert found is not None
    assert found.kind == VANISHED


def test_a_line_that_goes_with_its_service_is_not_missed() -> None:
    assert stands_out(row(20, 40, pieces=[10] * 4, service_pieces=[250] * 4), (HOUR, HALF)) is None


@pytest.mark.parametrize(
    ("surprise", "before", "strength"), [(1.0, 1000, 0.95), (0.2, 1000, 0.19), (1.0, 3, 0.475)]
)
def test_a_new_line_is_worth_what_the_baseline_leaves_unexplained(
    surprise: float, before: int, strength: float
) -> None:
    found = stands_out(row(9, 0, surprise=surprise, service_before=before), (HOUR, HALF))
    assert found is not None
    assert found.kind == NEW
    assert found.strength == pytest.approx(strength, rel=0.01)


def test_counts_that_vary_as_chance_does_are_not_overdispersed() -> None:
    assert overdispersion([10, 9, 12, 9], [10.0] * 4) == 0.0
    assert overdispersion([0, 0, 40, 0], [10.0] * 4) > 1.0
    assert overdispersion([], []) == 0.0


@pytest.mark.parametrize(("less", "more", "is_same"), [(3, 4, False), (4, 9, True)])
def test_what_a_service_newly_says_is_foretold_up_to_four_times_its_past(
    less: int, more: int, *, is_same: bool
) -> None:
    def expected(times: int) -> float:
        templates = pl.DataFrame(
            {
                "service": ["web"] * 4,
                "is_error": [False] * 4,
                "n": [5] * 4,
                "n_before": [10] * 4,
                "pieces": [[5, 5], [5, 5], [0, 10], [0, 10]],
                "service_n": [100 * times] * 4,
                "service_before": [100] * 4,
            }
        )
        return float(new_lines_expected(templates)["expected"][0])

    assert (expected(less) == expected(more)) is is_same
