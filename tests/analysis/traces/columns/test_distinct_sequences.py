"""Sequences are the same where all their items and their keys are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.traces.columns import distribution as module
from faultline.analysis.traces.columns.distribution import distinct_sequences

SEQUENCES = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(0, 2), min_size=1, max_size=4)), max_size=30
)


def kinds_of(sequences: list[tuple[int, list[int]]]) -> tuple[list[int], list[int]]:
    items = np.asarray([i for _, own in sequences for i in own], dtype=np.int32)
    end = np.cumsum([len(own) for _, own in sequences], dtype=np.int64)
    begin = end - np.asarray([len(own) for _, own in sequences], dtype=np.int64)
    key = np.asarray([key for key, _ in sequences], dtype=np.int64)
    first, kind = distinct_sequences(items, begin, end, key)
    return first.tolist(), kind.tolist()


@pytest.mark.parametrize("factor", [int(module._FACTOR), 0], ids=["hash", "all hashes collide"])
@given(sequences=SEQUENCES)
def test_two_are_of_one_kind_exactly_where_they_are_equal(
    factor: int, sequences: list[tuple[int, list[int]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_FACTOR", np.uint64(factor))
        first, kind = kinds_of(sequences)
    assert len(first) == len({(key, tuple(own)) for key, own in sequences})
    for number, one in enumerate(sequences):
        assert sequences[first[kind[number]]] == one
        assert first[kind[number]] <= number


def test_sequences_may_lie_apart() -> None:
    items = np.asarray([1, 2, 9, 1, 2], dtype=np.int32)
    first, kind = distinct_sequences(items, np.array([0, 3]), np.array([2, 5]), np.array([4, 4]))
    assert (first.tolist(), kind.tolist()) == ([0], [0, 0])
