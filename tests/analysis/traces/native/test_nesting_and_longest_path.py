from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.traces.native.device_work import (
    longest_path,
    longest_path_in_python,
    nesting_in_python,
    nesting_parents,
)

intervals = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 30)), max_size=60
)


def sorted_rows(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ordered = sorted((lane, start, start + length) for lane, start, length in rows)
    ordered.sort(key=lambda row: (row[0], row[1], -row[2]))
    table = np.asarray(ordered, dtype=np.int64).reshape(-1, 3)
    return table[:, 0].astype(np.int32), table[:, 1].copy(), table[:, 2].copy()


def test_a_row_belongs_to_the_innermost_row_that_is_open_where_it_starts() -> None:
    lane, starts, ends = sorted_rows(
        [(0, 0, 100), (0, 10, 30), (0, 15, 5), (0, 40, 5), (1, 20, 5), (0, 100, 5)]
    )
    parents, overlaps = nesting_parents(lane, starts, ends)
    assert parents.tolist() == [-1, 0, 1, 0, -1, -1]
    assert overlaps == 0


def test_a_row_that_ends_after_the_row_it_starts_in_is_its_child_and_an_overlap() -> None:
    parents, overlaps = nesting_parents(*sorted_rows([(0, 0, 10), (0, 5, 10), (0, 12, 1)]))
    assert (parents.tolist(), overlaps) == ([-1, 0, 1], 1)


@given(intervals)
@settings(deadline=None, max_examples=80)
def test_both_nestings_agree(rows: list[tuple[int, int, int]]) -> None:
    native, python = nesting_parents(*sorted_rows(rows)), nesting_in_python(*sorted_rows(rows))
    assert (native[0].tolist(), native[1]) == (python[0].tolist(), python[1])


def test_columns_of_unequal_length_are_refused() -> None:
    short = np.zeros(2, dtype=np.int64)
    with pytest.raises(ValueError, match="one length"):
        nesting_parents(np.zeros(3, dtype=np.int32), short, short)
    with pytest.raises(ValueError, match="one length"):
        longest_path(3, short, short, np.zeros(1, dtype=np.int64))


def graph(*edges: tuple[int, int, int]) -> list[np.ndarray]:
    return [np.asarray(column, dtype=np.int64) for column in zip(*edges, strict=True)]


def test_the_longest_path_comes_in_by_the_edge_that_reaches_furthest() -> None:
    distance, best = longest_path(5, *graph((0, 1, 5), (0, 2, 1), (1, 3, 1), (2, 3, 9), (3, 4, 0)))
    assert distance.tolist() == [0, 5, 1, 10, 10]
    assert best.tolist() == [-1, 0, 1, 3, 4]


@given(
    st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11), st.integers(-5, 50)), max_size=40),
    st.randoms(use_true_random=False),
)
@settings(deadline=None, max_examples=80)
def test_both_longest_paths_agree(edges: list[tuple[int, int, int]], random: object) -> None:
    forward = [(min(a, b), max(a, b) + 1, w) for a, b, w in edges]
    random.shuffle(forward)  # type: ignore[attr-defined]
    columns = graph(*forward) if forward else [np.empty(0, dtype=np.int64)] * 3
    order = np.argsort(columns[0], kind="stable")
    native, python = longest_path(13, *columns, order), longest_path_in_python(13, *columns, order)
    assert [a.tolist() for a in native] == [a.tolist() for a in python]


@pytest.mark.parametrize("walk", [longest_path, longest_path_in_python])
@pytest.mark.parametrize(
    "edges",
    [[(0, 9, 1)], [(-1, 0, 1)], [(1, 2, 1), (0, 1, 1)], [(0, 1, 1), (1, 0, 1)], [(1, 1, 0)]],
)
def test_edges_that_are_no_ordered_graph_are_refused(
    walk: object, edges: list[tuple[int, int, int]]
) -> None:
    with pytest.raises(ValueError, match="edge"):
        walk(3, *graph(*edges))  # type: ignore[operator]


def test_distances_do_not_overflow() -> None:
    huge = 2**63 - 1
    assert longest_path(3, *graph((0, 1, huge), (1, 2, huge)))[0].tolist() == [0, huge, huge]
