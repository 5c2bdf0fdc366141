"""Parts of the page as values: tables whose columns sort, bars of parts, curves. Templates turn
them into HTML.

All text in them is foreign: the templates escape it, and data for scripts goes through
`script_json`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from faultline.analysis.wording.amounts import BYTES, amount

MAX_TABLE_ROWS = 300
MAX_NAME = 240
"""Characters of a kernel's name that are shown; templates' names reach thousands."""


@dataclass(frozen=True)
class TableCell:
    """What is in a table's cell, and the number that it sorts by."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Column:
    """A column's heading; `kind` is "n" for numbers, "name" for names out of the trace, "" for
    words."""

    title: str
    kind: str = "n"
    hint: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of cells; `marked` are the rows to highlight; `total` says how many rows there were
    before it was cut."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    marked: frozenset[int] = frozenset()
    total: int = 0
    filter: bool = False


@dataclass(frozen=True)
class Segment:
    """A part of a bar, in percent of the track."""

    part: int
    x: float
    width: float
    title: str


@dataclass(frozen=True)
class ChartBar:
    """One labelled bar."""

    label: str
    segments: tuple[Segment, ...]
    value: str
    marked: bool = False


@dataclass(frozen=True)
class Bars:
    """Bars under one legend."""

    parts: tuple[str, ...]
    bars: tuple[ChartBar, ...]
    long_labels: bool = False
    colours: tuple[int, ...] = (0, 1, 2, 3, 4, 5, 6, 7, 8)
    """Number of each part's colour in the style sheet."""

    def __post_init__(self) -> None:
        assert len(self.colours) >= len(self.parts)


@dataclass(frozen=True)
class Curves:
    """Lines over one x axis, as the page's script draws them; None is a hole."""

    key: str
    x: tuple[float, ...]
    x_label: str
    unit: str
    series: tuple[tuple[str, tuple[float | None, ...]], ...]
    stepped: bool = False
    bold: frozenset[str] = frozenset()
    whole_x: bool = False
    """Whether only whole numbers stand on the x axis."""

    def data(self) -> str:
        """For a <script type="application/json">."""
        lines = [
            {"label": label, "values": values, "bold": label in self.bold}
            for label, values in self.series
        ]
        whole = {
            "x": self.x,
            "x_label": self.x_label,
            "unit": self.unit,
            "stepped": self.stepped,
            "series": lines,
        }
        whole["whole"] = self.whole_x
        return script_json(whole)


def script_json(value: Any) -> str:
    """JSON that cannot end the <script> it stands in, whatever the texts in it."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    # A text that holds "</script>" would end the element.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def table(
    columns: Sequence[Column],
    rows: Sequence[Sequence[TableCell]],
    *,
    most: int = MAX_TABLE_ROWS,
    **options: Any,
) -> Table | None:
    """A table of at most that many rows; None where there is nothing to show."""
    if not rows:
        return None
    return Table(
        tuple(columns), tuple(tuple(row) for row in rows[:most]), total=len(rows), **options
    )


def stacked(
    parts: Mapping[str, int],
    rows: Mapping[str, Sequence[float]],
    values: Mapping[str, str],
    marked: frozenset[str],
) -> Bars | None:
    """One bar per row, its parts (name -> colour) one after the other; the longest row fills the
    track."""
    names = tuple(parts)
    longest = max((sum(row) for row in rows.values()), default=0)
    if longest <= 0:
        return None
    bars = []
    for label, row in rows.items():
        x, segments = 0.0, []
        for part, length in enumerate(row):
            width = 100 * length / longest
            if width > 0:
                segments.append(
                    Segment(
                        part, x, width, f"{names[part]}: {100 * length / max(sum(row), 1e-9):.1f} %"
                    )
                )
            # A negative length takes no place in the bar.
            x += max(width, 0)
        bars.append(ChartBar(label, tuple(segments), values[label], label in marked))
    return Bars(names, tuple(bars), colours=tuple(parts.values()))


def text_cell(text: object) -> TableCell:
    """A word or a name."""
    return TableCell(visible(str(text), MAX_NAME))


def number_cell(value: float | int | None, digits: int = 1, unit: str = "") -> TableCell:
    """A number with that many digits after the point; a dash where there is none."""
    if value is None or not math.isfinite(value):
        return TableCell("–")
    return TableCell(f"{value:,.{digits}f}{unit}", float(value))


def count_cell(value: int | None) -> TableCell:
    """A whole number."""
    return TableCell("–") if value is None else TableCell(f"{value:,}", float(value))


def size_cell(size: int | None) -> TableCell:
    """Bytes as people say them: 2 KB, 1.5 GB. A dash where they are not known, or none."""
    return TableCell(amount(size, BYTES), float(size)) if size else TableCell("–")


def ms_cell(ns: float | None) -> TableCell:
    """Nanoseconds as milliseconds, with as many digits as it needs."""
    if ns is None or not math.isfinite(ns):
        return TableCell("–")
    ms = ns / 1e6
    return TableCell(
        f"{ms:,.{0 if abs(ms) >= 1000 else 1 if abs(ms) >= 100 else 2 if abs(ms) >= 1 else 3}f}",
        float(ns),
    )


def visible(text: str, limit: int) -> str:
    """Foreign text on one line, control and direction characters replaced, at most `limit` long."""
    # One character too many tells whether the text was cut.
    head = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text[: limit + 1])
    return head if len(head) <= limit else head[: limit - 1] + "…"
