"""The statistics below the verdict: the tail of Student's t, quiet windows, looks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from faultline.analysis.deploys.question import looks_left, looks_of
from faultline.analysis.deploys.quiet_test import quantile, quiet_test, upper_tail, window_means

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WAIT, WARM_UP = timedelta(minutes=15), timedelta(minutes=2)


@pytest.mark.parametrize(
    # Tables of Student's t: Abramowitz and Stegun, table 26.10.
    ("degrees", "p", "t"),
    [(1, 0.05, 6.314), (4, 0.001, 7.173), (5, 0.01, 3.365), (9, 0.025, 2.262), (30, 0.005, 2.750)],
)
def test_the_tail_is_that_of_the_tables(degrees: int, p: float, t: float) -> None:
    assert upper_tail(t, degrees) == pytest.approx(p, rel=2e-3)
    assert quantile(p, degrees) == pytest.approx(t, rel=2e-3)
    assert upper_tail(-t, degrees) == pytest.approx(1 - p, rel=2e-3)


@pytest.mark.parametrize("memory", [0.0, 0.8], ids=["white noise", "autocorrelated"])
def test_healthy_windows_are_as_rare_as_they_are_said_to_be(memory: float) -> None:
    """Of 2,000 healthy series as many fall below p = .05 as p says, or fewer."""
    rng, below = np.random.default_rng(7), 0
    times = np.arange(400, dtype=np.float64) * 60.0
    for _ in range(2_000):
        noise = rng.normal(0, 1, 400)
        values = np.empty(400)
        values[0] = noise[0]
        for n in range(1, 400):
            values[n] = memory * values[n - 1] + noise[n]
        means, level = window_means(times, values, times[385], times[399])
        found = quiet_test(means, level, 0.0, 0.05)
        assert found is not None
        below += found.p < 0.05
    assert below / 2_000 < 0.06


def test_windows_with_gaps_are_left_out_and_few_windows_give_nothing() -> None:
    times = np.concatenate([np.arange(100), np.arange(150, 200)]) * 60.0
    means, level = window_means(times, np.ones(150), 190 * 60.0, 199 * 60.0)
    assert np.isnan(means).sum() > 0
    assert level == 1.0
    assert quiet_test(means[-3:], level, 0.0, 0.01) is None


def test_the_looks_share_what_they_may_spend() -> None:
    looks = looks_of(START, WAIT, WARM_UP)
    assert len(looks) == 5
    assert sum(look.spends for look in looks) == pytest.approx(1.0)
    assert {look.start for look in looks} == {START + WARM_UP}
    assert looks[-1].end == START + WAIT
    assert looks[-1].is_last
    assert len(looks_of(START, timedelta(minutes=4), WARM_UP)) == 1


def test_looks_that_were_missed_are_not_taken_again() -> None:
    looks = looks_of(START, WAIT, WARM_UP)
    left = looks_left(looks, START + timedelta(minutes=10))
    assert [look.number for look in left] == [3, 4, 5]
    assert left[0].spends == pytest.approx(0.6)
    assert [look.number for look in looks_left(looks, START + timedelta(days=1))] == [5]
    assert looks_left(looks, START) == looks
