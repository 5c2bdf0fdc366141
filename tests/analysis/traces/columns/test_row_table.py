"""A table's columns are declared once: rows of JSON values and the types of frames come from it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest

from faultline.analysis.traces.columns.row_table import INT, INTS, TEXT, RowTable, rounded

TABLE = RowTable(
    TEXT("name"),
    INT(total_ns="times.total"),
    rounded(1, mean_ns="times.mean"),
    INTS("steps"),
    rounded(0, "ratio"),
)


@dataclass(frozen=True)
class Kernel:
    name: str
    times: SimpleNamespace
    steps: tuple[int, ...] = (1, 2)
    ratio: float | None = 2.6


def test_an_object_becomes_a_row_of_its_attributes_as_json_has_them() -> None:
    kernel = Kernel("gemm", SimpleNamespace(total=np.int64(7), mean=np.float64(3.54)))
    (row,) = TABLE.rows([kernel])
    shown = {"name": "gemm", "total_ns": 7, "mean_ns": 3.5, "steps": [1, 2], "ratio": 3}
    assert row == shown
    assert json.loads(json.dumps(row)) == shown


def test_what_is_not_known_stays_so_and_columns_can_be_left_out() -> None:
    assert TABLE.of([("x", None, None, (), None)])[0]["mean_ns"] is None
    assert TABLE.row(name="all", ratio=1.2) == {"name": "all", "ratio": 1}


def test_streams_and_threads_may_have_names_instead_of_numbers() -> None:
    assert RowTable(INT("stream", "calls")).row(stream="all") == {"stream": "all"}


def test_a_column_that_was_not_declared_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        TABLE.row(nmae="x")
    with pytest.raises(ValueError):
        TABLE.of([("x", 1)])


def test_frames_have_the_same_columns() -> None:
    types = {"name": "text", "total_ns": "int", "mean_ns": "float", "steps": "ints", "ratio": "int"}
    assert TABLE.types == types
