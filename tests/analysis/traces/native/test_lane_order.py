"""Rows by lane and time: the compiled order is that of a stable sort by three keys."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.traces.native.lane import lane_order, lane_order_in_python

EVENTS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 4)), max_size=80)


@given(EVENTS)
def test_both_lanes_order_alike(events: list[tuple[int, int, int]]) -> None:
    columns = np.asarray(events, dtype=np.int64).reshape(-1, 3)
    lane, start, length = columns[:, 0].astype(np.int32), columns[:, 1], columns[:, 2]
    rows = np.arange(len(events), dtype=np.int64)[::2]
    expected = lane_order_in_python(rows, lane, start, length)
    assert lane_order(rows, lane, 4, start, length).tolist() == expected.tolist()


def test_a_lane_out_of_range_is_refused() -> None:
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(ValueError, match="out of range"):
        lane_order(one, np.asarray([7], dtype=np.int32), 3, one, one)
