"""Lines of a window, and which windows are asked, as the stores of logs share them.

A store gives a limited number of lines at once, oldest first. Where a window holds more, the first
ones are kept, and some of each part of what follows them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.rows.collection_builder import nanoseconds, split

MOST_BASELINES = 2
PARTS = 3
"""Where a window holds more lines than were asked for, what follows them is asked in thirds."""
LINES, ERROR_LINES = "log_lines_per_min", "error_log_lines_per_min"
"""Signals of counted lines, of other levels and of errors."""
BAD_WORDS = ("error", "exception", "traceback", "fatal", "panic", "critical")
"""What an error line says where no level is known."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class LinePage:
    """Rows of the table `logs`, oldest first, with their times in ns, and how many lines were left
    out because they have no readable time or text."""

    rows: Sequence[Row]
    left_out: int = 0


@dataclass(frozen=True)
class WindowLines:
    """The rows of a window; `cut` says why they are not all."""

    rows: list[Row]
    cut: str | None


async def lines_of_window(
    page: Callable[[Window, int], Awaitable[LinePage | None]], window: Window, limit: int
) -> WindowLines | None:
    """The first lines of a window and, where there are more, some of each part of the rest.

    `page` gives the first lines of a window, at most that many; None where it failed.
    """
    first = await page(window, limit)
    if first is None:
        return None
    pages, notes = [first], []
    # Lines that could not be read filled the answer as well, so they count here.
    rest = _rest(window, first.rows) if len(first.rows) + first.left_out >= limit else None
    if rest is not None:
        share = limit // PARTS
        requested_pages = await asyncio.gather(*(page(part, share) for part in split(rest, PARTS)))
        more = [requested_page for requested_page in requested_pages if requested_page is not None]
        if any(len(log_page.rows) + log_page.left_out >= share for log_page in more):
            notes.append(
                f"the first {limit} lines of the window, and the first {share} of each third "
                "of the rest"
            )
        pages += more
    left_out = sum(page.left_out for page in pages)
    if left_out:
        notes.append(f"{left_out} lines without a readable time or text left out")
    return WindowLines([row for page in pages for row in page.rows], "; ".join(notes) or None)


def _rest(window: Window, rows: Sequence[Row]) -> Window | None:
    """What follows the last line."""
    if not rows:
        return None
    after_ns = rows[-1][0] - nanoseconds(window.start)
    # Begin one microsecond later, so that the last line does not come again.
    start = window.start + timedelta(microseconds=after_ns // 1000 + 1)
    return Window(start=start, end=window.end) if window.start <= start < window.end else None


def log_windows(scope: Scope) -> tuple[Window, ...]:
    """The latest windows of the baseline, and the incident."""
    latest = sorted(scope.logs_before, key=lambda w: w.end)[-MOST_BASELINES:]
    return tuple(dict.fromkeys((*latest, scope.incident)))
