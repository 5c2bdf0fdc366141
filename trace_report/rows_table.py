"""Rows of an analysis as a table, whatever analysis it is: headings and units come from the
keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from faultline.trace_report.page_parts import (
    Column,
    Table,
    TableCell,
    count_cell,
    ms_cell,
    number_cell,
    table,
    text_cell,
)

MAX_COLUMNS = 12
MAX_ROWS = 50
"""Rows of one rank's table on the page."""
HIDDEN = frozenset({"cut", "begin_ns", "start_ns", "end_ns", "event", "file"})
"""What helps programs, and no reader of a page."""
NAMES = frozenset(
    {
        "name",
        "kernel",
        "before",
        "after",
        "host_call",
        "in_longest_gap",
        "operator",
        "pattern",
        "stack",
    }
)
"""Keys of names out of the trace."""


def rows_table(
    rows: Sequence[dict[str, Any]], *, leave_out: frozenset[str] = frozenset()
) -> Table | None:
    """A table of the rows that are no note about a cut; None where there are none."""
    remaining_rows = [row for row in rows if not row.get("cut")]
    keys = _keys(remaining_rows, HIDDEN | leave_out)
    if not keys:
        return None
    columns = [_column(key, [row.get(key) for row in remaining_rows]) for key in keys]
    cells = [[_cell(key, row.get(key)) for key in keys] for row in remaining_rows]
    return table(columns, cells, most=MAX_ROWS, filter=len(cells) > 12)


def _keys(rows: Sequence[dict[str, Any]], hidden: frozenset[str]) -> list[str]:
    """The first keys for which any row has a value."""
    filled: dict[str, bool] = {}
    for row in rows:
        for key, value in row.items():
            if key not in hidden:
                has_value = value not in (None, "")
                filled[key] = filled.get(key, False) or has_value
    keys = [key for key in filled if filled[key]]
    return keys[:MAX_COLUMNS]


def heading(key: str) -> str:
    """ "self_time_ns" -> "self time ms"."""
    words = key
    if key.endswith("_ns"):
        words = key.removesuffix("_ns") + " ms"
    elif key.endswith("_percent"):
        words = key.removesuffix("_percent") + " %"
    return words.replace("_", " ")


def _column(key: str, values: Sequence[Any]) -> Column:
    # A column with any word in it does not sort by number.
    has_text = any(isinstance(value, str) and value for value in values)
    if not has_text and any(_is_number(value) for value in values):
        return Column(heading(key), "n")
    if key in NAMES or key.endswith("_name"):
        return Column(heading(key), "name")
    return Column(heading(key), "")


def _cell(key: str, value: Any) -> TableCell:
    if value is None:
        return TableCell("")
    # bool is an int in Python: test for it first.
    if isinstance(value, bool):
        return TableCell("yes" if value else "no", float(value))
    if _is_number(value):
        if key.endswith("_ns"):
            return ms_cell(value)
        return count_cell(value) if isinstance(value, int) else number_cell(value, 2)
    if isinstance(value, (list, dict, tuple)):
        return text_cell(json.dumps(value, default=str, separators=(", ", ": ")))
    return text_cell(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
