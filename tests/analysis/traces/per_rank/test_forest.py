"""Trees as one column of parents, against the plain definition."""

from __future__ import annotations

import numpy as np
import pytest

from faultline.analysis.traces.per_rank.call_stacks import (
    children_index,
    containing,
    depths,
    nearest,
    outermost,
    subtree_maxima,
    subtree_sums,
)


def _random_forest(rows: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    back = random.integers(1, 6, rows)
    return (
        np.maximum(np.arange(rows) - back, -1).astype(np.int32)
        if seed
        else np.arange(-1, rows - 1, dtype=np.int32)
    )


def _path(parent: np.ndarray, row: int) -> list[int]:
    path = [row]
    while parent[path[-1]] >= 0:
        path.append(int(parent[path[-1]]))
    return path


@pytest.mark.parametrize("seed", range(4))
def test_every_question_is_answered_as_by_walking_up(seed: int) -> None:
    parent = _random_forest(200, seed)
    random = np.random.default_rng(seed + 10)
    wanted, values = random.random(200) < 0.1, random.integers(-5, 50, 200)
    paths = [_path(parent, row) for row in range(200)]
    assert depths(parent).tolist() == [len(path) - 1 for path in paths]
    hits = [[r for r in path if wanted[r]] for path in paths]
    assert nearest(parent, wanted).tolist() == [h[0] if h else -1 for h in hits]
    assert outermost(parent, wanted).tolist() == [h[-1] if h else -1 for h in hits]
    below = [[r for r in range(200) if row in paths[r]] for row in range(200)]
    assert subtree_sums(parent, values).tolist() == [int(values[b].sum()) for b in below]
    assert subtree_maxima(parent, values).tolist() == [int(values[b].max()) for b in below]


def test_children_stand_in_the_order_given() -> None:
    parent = np.asarray([-1, 0, 0, 1, -1, 0], dtype=np.int32)
    first, rows = children_index(parent, np.asarray([0, 5, 2, 1, 3, 4]))
    assert rows[first[0] : first[1]].tolist() == [5, 2, 1]
    assert rows[first[1] : first[2]].tolist() == [3]
    assert rows[first[4] : first[5]].tolist() == []


def test_the_nearest_ancestor_that_is_long_enough_is_found() -> None:
    parent = np.arange(-1, 99, dtype=np.int32)
    ends = np.arange(1000, 900, -1)
    first = np.full(4, 99, dtype=np.int32)
    assert containing(parent, ends, first, np.asarray([901, 950, 1000, 1001])).tolist() == [
        99,
        50,
        0,
        -1,
    ]
    assert containing(parent, ends, np.full(1, -1, dtype=np.int32), np.asarray([5])).tolist() == [
        -1
    ]


def test_a_chain_of_a_million_rows_needs_no_recursion() -> None:
    parent = np.arange(-1, 999_999, dtype=np.int32)
    assert int(depths(parent)[-1]) == 999_999
    assert int(subtree_sums(parent, np.ones(1_000_000, dtype=np.int64))[0]) == 1_000_000


def test_an_empty_forest_has_no_answers() -> None:
    none = np.empty(0, dtype=np.int32)
    assert (
        len(depths(none))
        == len(nearest(none, np.empty(0, dtype=np.bool_)))
        == len(subtree_sums(none, none.astype(np.int64)))
        == 0
    )
