"""Trees held as one column: the row of each row's parent, -1 for roots.

Everything here works by pointer doubling: after k rounds each row has seen its 2**k nearest
ancestors, so a column of n rows whose deepest branch has d levels takes O(n log d), without
recursion and without a loop over rows or levels. A column of parents must have no cycle: every
parent starts before its child does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import Bool, Int32, Int64


def depths(parent: Int32) -> Int32:
    """Number of ancestors of each row."""
    depth = (parent >= 0).astype(np.int32)
    for rows, ancestor in _doublings(parent):
        depth[rows] += depth[ancestor]
    return depth


def nearest(parent: Int32, mask: Bool) -> Int32:
    """The row itself where it is wanted, else its nearest wanted ancestor; -1 where there is
    none."""
    rows = np.arange(len(parent), dtype=np.int32)
    ancestors = np.where(mask, rows, parent)
    open_rows = np.flatnonzero(~mask & (parent >= 0))
    while len(open_rows):
        ancestors[open_rows] = ancestors[ancestors[open_rows]]
        reached = ancestors[open_rows]
        open_rows = open_rows[(reached >= 0) & ~mask[reached]]
    return ancestors


def outermost(parent: Int32, mask: Bool) -> Int32:
    """The outermost wanted row among the row itself and its ancestors; -1 where there is none."""
    inner = nearest(parent, mask)
    tops = np.flatnonzero(mask)
    above = np.full(len(parent), -1, dtype=np.int32)
    inside = tops[parent[tops] >= 0]
    above[inside] = inner[parent[inside]]
    root = nearest(above, mask & (above < 0))
    return np.asarray(np.where(inner >= 0, root[inner], -1), dtype=np.int32)


def subtree_sums(parent: Int32, values: NDArray[np.int64]) -> Int64:
    """Sum of `values` over each row and all its descendants."""
    total = values.astype(np.int64)
    for rows, ancestor in _doublings(parent):
        # Most rows add nothing: skip their zeros.
        filled = total[rows] != 0
        np.add.at(total, ancestor[filled], total[rows[filled]])
    return total


def subtree_maxima(parent: Int32, values: NDArray[np.int64]) -> Int64:
    """Largest of `values` over each row and all its descendants."""
    top = values.astype(np.int64)
    for rows, ancestor in _doublings(parent):
        np.maximum.at(top, ancestor, top[rows])
    return top


def containing(parent: Int32, ends: Int64, first: Int32, query_end: Int64) -> Int32:
    """For each query the nearest row, from `first` upwards, that ends at or after `query_end`; -1
    where none does.

    Right where a parent never ends before its child.
    """
    at = first.copy()
    tables = [parent]
    while (jumped := _jump(tables[-1])) is not None:
        tables.append(jumped)
    for table in reversed(tables):
        short = np.flatnonzero(at >= 0)
        short = short[ends[at[short]] < query_end[short]]
        above = table[at[short]]
        further = (above >= 0) & (ends[above] < query_end[short])
        at[short[further]] = above[further]
    # The jumps stop at the last row that ends too early; its parent is the answer.
    short = np.flatnonzero(at >= 0)
    short = short[ends[at[short]] < query_end[short]]
    at[short] = parent[at[short]]
    return at


def children_index(parent: Int32, order: NDArray[np.integer]) -> tuple[Int64, Int32]:
    """(first, rows): the children of row r are `rows[first[r]:first[r + 1]]`, in the order
    given."""
    with_parent = order[parent[order] >= 0]
    parents = parent[with_parent]
    rows = with_parent[np.argsort(parents, kind="stable")].astype(np.int32)
    counts = np.bincount(parents, minlength=len(parent))
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int64), rows


def _doublings(parent: Int32) -> Iterator[tuple[Int64, Int32]]:
    """Rows that have a 2**k-th ancestor, and that ancestor, for k = 0, 1, ...; what is read in a
    round is a copy."""
    table: Int32 | None = parent
    while table is not None:
        rows = np.flatnonzero(table >= 0)
        if not len(rows):
            return
        yield rows, table[rows]
        table = _jump(table)


def _jump(table: Int32) -> Int32 | None:
    """The ancestor twice as far; None where no row has one."""
    rows = np.flatnonzero(table >= 0)
    further = np.full(len(table), -1, dtype=np.int32)
    further[rows] = table[table[rows]]
    return further if (further >= 0).any() else None
