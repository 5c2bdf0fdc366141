"""Zeros before a gap in the answer to a query with a rate."""

from __future__ import annotations

import pytest

from faultline.connectors.vendors.prometheus.false_zeros import drop_zeros_before_gaps
from faultline.connectors.vendors.prometheus.series import PrometheusSeries

STEP_S = 60.0


@pytest.mark.parametrize(
    ("values", "kept"),
    [
        # None is a step without a value.
        ([5, 5, 0, None, None, 5], [5, 5, 5]),
        ([5, 0, 0, None, 5, 0, None, 5], [5, 5, 5]),
        # What was 0 for longer, or has always been, is.
        ([5, 0, 0, 0, None, 5], [5, 0, 0, 0, 5]),
        ([0, None, 5], [0, 5]),
        # Without a gap, or at the end.
        ([5, 0, 5], [5, 0, 5]),
        ([5, None, 5, 0], [5, 5, 0]),
        ([], []),
        ([0], [0]),
    ],
)
def test_a_zero_before_a_gap_is_dropped(values: list[float | None], kept: list[float]) -> None:
    points = [(n * STEP_S, f"{value}") for n, value in enumerate(values) if value is not None]
    series = PrometheusSeries({}, points)
    drop_zeros_before_gaps("sum(rate(x[3m]))", [series], STEP_S)
    assert [float(value) for _, value in series.values] == kept


def test_other_queries_keep_theirs() -> None:
    series = PrometheusSeries({}, [(0.0, "5"), (60.0, "0"), (240.0, "5")])
    drop_zeros_before_gaps("up", [series], STEP_S)
    assert len(series.values) == 3
