from __future__ import annotations

import numpy as np

from faultline.analysis.traces.columns.events import SparseNumbers, SparseTexts

ROWS = np.array([1, 3], dtype=np.int32)
WITHOUT_ROW_1 = np.array([0, -1, 1, 2], dtype=np.int32)


def test_a_sparse_number_is_its_value_where_there_is_one_and_the_default_elsewhere() -> None:
    numbers = SparseNumbers(ROWS, np.array([7.0, 8.0]))
    assert numbers.dense(4, -1.0).tolist() == [-1.0, 7.0, -1.0, 8.0]
    assert numbers.at(np.array([3, 0, 1]), 0.5).tolist() == [8.0, 0.5, 7.0]
    moved = numbers.select(WITHOUT_ROW_1)
    assert (moved.rows.tolist(), moved.values.tolist()) == ([2], [8.0])


def test_a_sparse_text_is_empty_where_there_is_none() -> None:
    texts = SparseTexts(ROWS, np.array([1, 0], dtype=np.int32), ("a", "b"))
    assert texts.at(np.array([0, 1, 3])) == ["", "b", "a"]
    assert texts.ids_at(np.array([0, 1, 3])).tolist() == [-1, 1, 0]
    assert texts.select(WITHOUT_ROW_1).at(np.array([0, 1, 2])) == ["", "", "a"]
