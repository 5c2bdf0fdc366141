"""Spread of numbers, compared with numpy's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from faultline.analysis.traces.columns.distribution import Distribution, distribution, distributions


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("scale", [1, 2**57])
def test_each_group_has_its_own_spread(kind: type, scale: int) -> None:
    random = np.random.default_rng(3)
    group = random.integers(0, 4, 60) * 2
    values: np.ndarray[Any, np.dtype[Any]] = (random.integers(-15, 15, 60) * scale).astype(kind)
    found = distributions(values, group, 8)
    for index in range(8):
        mine = values[group == index]
        one = found.at(index)
        assert one.count == len(mine)
        if len(mine):
            assert (one.min, one.max) == (mine.min(), mine.max())
            assert one.total == pytest.approx(float(mine.sum()))
            assert one.std == pytest.approx(mine.std(ddof=1))
            quantiles = np.quantile(mine.astype(np.float64), [0.25, 0.5, 0.75, 0.9, 0.99])
            assert [one.p25, one.p50, one.p75, one.p90, one.p99] == pytest.approx(
                quantiles.tolist()
            )


def test_one_number_has_no_deviation_and_none_has_nothing() -> None:
    assert distribution(np.asarray([7])) == Distribution(
        1, 7, 7.0, 0.0, 7, 7.0, 7.0, 7.0, 7.0, 7.0, 7
    )
    assert distribution(np.empty(0, dtype=np.int64)).count == 0
