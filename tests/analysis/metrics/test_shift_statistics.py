from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from faultline.analysis.metrics.shift_statistics import describe, find_departures, row_medians

ANY_FLOATS = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=12), elements=st.floats(width=64)
)
CALM = arrays(np.float64, (3, 12), elements=st.floats(-100, 100, width=32))


@given(ANY_FLOATS)
@settings(max_examples=60)
def test_any_floats_give_a_departure_inside_the_row_or_none(values: np.ndarray) -> None:
    found = find_departures(values)
    assert ((found.first == -1) == (found.last == -1)).all()
    assert (found.first <= found.last).all()
    assert (found.last < values.shape[1]).all()
    assert np.isfinite(found.score).all()


@given(CALM, st.integers(-1000, 1000))
@settings(max_examples=60)
def test_centre_moves_with_the_data_and_the_noise_does_not_shrink_below_its_own(
    values: np.ndarray, by: int
) -> None:
    before, after = describe(values), describe(values + by)
    np.testing.assert_allclose(after.centre, before.centre + by, atol=1e-6)
    mad = 1.4826 * np.median(np.abs(values - np.median(values, axis=1)[:, None]), axis=1)
    assert (after.scale >= mad - 1e-6).all()


@given(CALM)
@settings(max_examples=40)
def test_centre_is_the_median_of_the_finite_points(values: np.ndarray) -> None:
    holed = values.copy()
    holed[:, ::4] = np.nan
    np.testing.assert_allclose(describe(holed).centre, np.nanmedian(holed, axis=1))


@given(st.integers(2, 9), st.integers(1, 6), st.booleans())
def test_a_step_is_found_where_it_is(first: int, length: int, up: bool) -> None:
    row = np.zeros((1, 20))
    row[0, first : first + length] = 8.0 if up else -8.0
    found = find_departures(row)
    assert (int(found.first[0]), int(found.last[0]), bool(found.up[0])) == (
        first,
        first + length - 1,
        up,
    )


def test_a_sustained_move_outweighs_one_wild_point() -> None:
    row = np.zeros((1, 30))
    row[0, 3] = 1e12
    row[0, 20:] = 6.0
    found = find_departures(row)
    assert int(found.first[0]) == 20


def test_a_row_of_noise_within_the_drift_has_no_departure() -> None:
    found = find_departures(np.tile([1.5, -1.5, 0.3, -0.2], (1, 10)))
    assert int(found.first[0]) == -1


def test_row_medians_ignore_what_lies_outside_the_segment() -> None:
    values = np.array([[9.0, 1.0, 2.0, np.nan, 3.0, 9.0]])
    assert row_medians(values, np.array([1]), np.array([4]))[0] == 2.0
