"""Intervals have the width that the number of independent cases allows."""

from __future__ import annotations

import pytest

from faultline.evaluation.intervals import (
    at_most,
    calibration_interval,
    mean_interval,
    mean_over_groups,
    sign_test,
    wilson,
)


def test_wilsons_interval_is_the_published_one() -> None:
    # Newcombe, Statistics in Medicine 1998, table I: 81 of 263 and 0 of 20.
    some, none = wilson(81, 263), wilson(0, 20)
    assert some is not None
    assert none is not None
    assert (some.low, some.high) == (
        pytest.approx(0.2553, abs=1e-4),
        pytest.approx(0.3662, abs=1e-4),
    )
    assert (none.low, none.high) == (0.0, pytest.approx(0.1611, abs=1e-4))
    assert wilson(0, 0) is None


def test_cases_alike_widen_an_interval() -> None:
    values = [1.0, 1.0, 0.0, 0.0] * 10
    apart = mean_interval(values, list(range(40)))
    alike = mean_interval(values, [n % 4 for n in range(40)])
    assert apart is not None
    assert alike is not None
    assert alike.high - alike.low > 2 * (apart.high - apart.low)


def test_intervals_are_the_same_in_every_run() -> None:
    assert mean_interval([0.1, 0.9, 0.5], "abc") == mean_interval([0.1, 0.9, 0.5], "abc")


def test_calibration_that_always_holds_has_an_interval_at_zero() -> None:
    found = calibration_interval([0.0] * 20, [5] * 20, list(range(20)))
    assert found is not None
    assert (found.low, found.high) == (0.0, 0.0)


def test_each_group_counts_alike_however_large() -> None:
    values = [1.0] * 30 + [0.0] * 3
    groups = ["large"] * 30 + ["small"] * 3
    found = mean_over_groups(values, groups, list(range(33)))
    assert found is not None
    mean, interval = found
    assert mean == 0.5
    # With two systems the next one may be like either.
    assert (interval.low, interval.high) == (0.0, 1.0)


def test_the_sign_test_counts_only_cases_that_differ() -> None:
    assert sign_test(0, 0) == 1.0
    assert sign_test(5, 0) == pytest.approx(0.0625)
    assert sign_test(1, 8) == pytest.approx(0.0390625)
    assert sign_test(3, 3) == 1.0


@pytest.mark.parametrize(("hits", "of"), [(0, 149), (1, 236), (3, 386), (5, 523)])
def test_so_few_of_so_many_are_at_most_two_percent(hits: int, of: int) -> None:
    assert at_most(hits, of) == pytest.approx(0.02, abs=1e-4)
    assert at_most(hits + 1, of) > 0.02
    assert at_most(of, of) == at_most(0, 0) == 1.0
