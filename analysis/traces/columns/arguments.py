"""Rare arguments of events, stored sparsely: which rows have one, and its value.

Which arguments are kept is listed here; all others stay in the file, to be read again from the
event's byte offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Float64 = NDArray[np.float64]
_T = TypeVar("_T", bound=np.generic)

NUMBERS = (
    "bytes",
    "memory bandwidth (GB/s)",
    "wait_on_stream",
    "wait_on_cuda_event_id",
    "wait_on_cuda_event_record_corr_id",
    "device",
    "est. achieved occupancy %",
    "blocks per SM",
    "warps per SM",
    "registers per thread",
    "shared memory",
    "In msg nelems",
    "Out msg nelems",
    "Group size",
    "Rank",
    "Seq",
    "Src Rank",
    "Dst Rank",
    "Record function id",
    "Sequence number",
    "Fwd thread id",
    "Python module id",
    "graph id",
    "graph node id",
    "step_num",
)
"""Arguments kept as float64 (exact to 2**53); numbers written as strings count."""

TEXTS = (
    "Collective name",
    "dtype",
    "Process Group Name",
    "Process Group Description",
    "Process Group Ranks",
    "In split size",
    "Out split size",
    "Comms Id",
    "Input Dims",
    "Input type",
    "Concrete Inputs",
    "kind",
    "grid",
    "block",
    "hlo_category",
    "Task Type",
)
"""Arguments kept as text: a string as it is, anything else as compact JSON without spaces
("[[64,3],[]]")."""

COUNTER_CATEGORY = "cuda_profiler_range"
"""Every numeric argument of events of this category (CUPTI counters) is kept, whatever its name."""

ALIASES = {"Input dims": "Input Dims"}
"""Spellings of older traces."""


@dataclass(frozen=True)
class SparseNumbers:
    """One numeric argument: ascending rows and their values."""

    rows: Int32
    values: Float64

    def dense(self, length: int, default: float) -> Float64:
        """One value per row of the trace."""
        column = np.full(length, default)
        column[self.rows] = self.values
        return column

    def at(self, rows: NDArray[np.integer], default: float) -> Float64:
        """The values at some rows."""
        return _at(self.rows, self.values, rows, default)

    def select(self, new_row: Int32) -> SparseNumbers:
        """After rows were renumbered: `new_row` holds -1 where a row was left out."""
        moved = new_row[self.rows]
        return SparseNumbers(moved[moved >= 0], self.values[moved >= 0])


@dataclass(frozen=True)
class SparseTexts:
    """One argument as text: ascending rows and the index of each text in `texts`."""

    rows: Int32
    ids: Int32
    texts: tuple[str, ...]

    def at(self, rows: NDArray[np.integer]) -> list[str]:
        """The texts at some rows; "" where there is none."""
        text_ids = _at(self.rows, self.ids, rows, -1)
        return [self.texts[i] if i >= 0 else "" for i in text_ids.tolist()]

    def ids_at(self, rows: NDArray[np.integer]) -> Int32:
        """Indices into `texts` at some rows; -1 where there is none."""
        return np.asarray(_at(self.rows, self.ids, rows, -1), dtype=np.int32)

    def select(self, new_row: Int32) -> SparseTexts:
        """After rows were renumbered: `new_row` holds -1 where a row was left out."""
        moved = new_row[self.rows]
        return SparseTexts(moved[moved >= 0], self.ids[moved >= 0], self.texts)


NO_NUMBERS = SparseNumbers(np.empty(0, dtype=np.int32), np.empty(0))
NO_TEXTS = SparseTexts(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.int32), ())


@dataclass(frozen=True)
class ArgumentColumns:
    """All kept arguments of a trace, by name."""

    numbers: Mapping[str, SparseNumbers] = field(default_factory=dict)
    texts: Mapping[str, SparseTexts] = field(default_factory=dict)

    def number(self, name: str) -> SparseNumbers:
        """A numeric argument; without rows where no event has it."""
        return self.numbers.get(name, NO_NUMBERS)

    def text(self, name: str) -> SparseTexts:
        """An argument as text; without rows where no event has it."""
        return self.texts.get(name, NO_TEXTS)

    def select(self, new_row: Int32) -> ArgumentColumns:
        """After rows were renumbered."""
        return ArgumentColumns(
            {name: number.select(new_row) for name, number in self.numbers.items()},
            {name: text.select(new_row) for name, text in self.texts.items()},
        )


def _at(have: Int32, values: NDArray[_T], rows: NDArray[np.integer], default: float) -> NDArray[_T]:
    at_rows = np.full(len(rows), default, dtype=values.dtype)
    if len(have):
        # searchsorted points past the end for a row behind the last; the test below rejects it.
        place = np.minimum(np.searchsorted(have, rows), len(have) - 1)
        hit = have[place] == rows
        at_rows[hit] = values[place[hit]]
    return at_rows
