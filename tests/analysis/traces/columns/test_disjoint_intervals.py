from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.traces.columns.intervals import (
    Spans,
    coarsened,
    covered,
    difference,
    intersection,
    length,
    nothing_in,
    union,
    union_of,
)

Pairs = list[tuple[int, int]]
drawn = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=15)


def spans_of(pairs: Pairs) -> Spans:
    return union(*(np.asarray([p[i] for p in pairs], dtype=np.int64) for i in (0, 1)))


def moments(spans: Spans) -> set[int]:
    return {
        t for a, b in zip(spans[0].tolist(), spans[1].tolist(), strict=True) for t in range(a, b)
    }


@given(drawn, drawn)
def test_sets_of_intervals_behave_as_sets_of_moments(first: Pairs, second: Pairs) -> None:
    a, b = spans_of(first), spans_of(second)
    assert moments(intersection(a, b)) == moments(a) & moments(b)
    assert moments(difference(a, b)) == moments(a) - moments(b)
    assert moments(union_of(a, b)) == moments(a) | moments(b)
    assert length(a) == len(moments(a))
    for result in (intersection(a, b), difference(a, b)):
        assert (result[0] < result[1]).all()
        assert (result[0][1:] > result[1][:-1]).all()


@given(drawn, st.integers(0, 60), st.integers(0, 60))
def test_what_is_covered_of_an_interval_is_counted(pairs: Pairs, begin: int, end: int) -> None:
    spans = spans_of(pairs)
    inside = covered(spans, np.array([begin]), np.array([end]))
    assert inside.tolist() == [len(moments(spans) & set(range(begin, end)))]


@given(drawn, st.integers(1, 5))
def test_the_smallest_gaps_are_closed_first(pairs: Pairs, most: int) -> None:
    spans = spans_of(pairs)
    fewer, closed = coarsened(spans, most)
    assert len(fewer[0]) <= max(most, 0) or len(spans[0]) <= most
    assert length(fewer) == length(spans) + closed
    assert moments(spans) <= moments(fewer)
    gaps = sorted((spans[0][1:] - spans[1][:-1]).tolist(), reverse=True)
    assert (
        sorted((fewer[0][1:] - fewer[1][:-1]).tolist(), reverse=True)
        == gaps[: max(len(fewer[0]) - 1, 0)]
    )


def test_no_time_has_no_length() -> None:
    assert length(nothing_in()) == 0
    assert covered(nothing_in(), np.array([1]), np.array([9])).tolist() == [0]
    assert len(union_of()[0]) == 0
