"""Lines of a window, and which windows are asked, as the stores of logs share them.

A store gives a limited number of lines at once, oldest first. Where a window holds more, the first
ones are kept, and some of each part of what follows them.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import polars as pl

from faultline.analysis.vocabulary import Evidence, Scope, Window
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


# Lines of logs as counts per minute, as the backends of logs share them.

FAILING = frozenset(
    {"error", "err", "fatal", "critical", "crit", "alert", "emerg", "emergency", "panic"}
)
"""Levels that count as errors, in lower case."""
LONGEST_LINE = 8000
MOST_STEPS = 360
"""Points of a series of counts in one window."""


@dataclass(frozen=True)
class CountGrid:
    """Whole steps inside a window, at multiples of the step, to which backends align counts."""

    start_s: int
    step_s: int
    steps: int

    @classmethod
    def of(cls, window: Window) -> CountGrid:
        """Steps of a minute, longer where they would be more than `MOST_STEPS`."""
        step = 60 * max(1, math.ceil(window.seconds / 60 / MOST_STEPS))
        start = math.ceil(nanoseconds(window.start) / 1e9 / step) * step
        end = math.floor(nanoseconds(window.end) / 1e9 / step) * step
        return cls(start, step, max(0, (end - start) // step))

    def rows(
        self, signal: str, service: str, counted: Iterable[tuple[int, float]]
    ) -> list[tuple[Any, ...]]:
        """Rows of metrics: lines per minute in each step, by the moment it begins, from the lines
        counted in (number of the step, count). Steps outside are left out, none counted is 0."""
        sums = [0.0] * self.steps
        for step, count in counted:
            if 0 <= step < self.steps:
                sums[step] += count * 60 / self.step_s
        rows: list[tuple[Any, ...]] = []
        for step, value in enumerate(sums):
            begins_ns = (self.start_s + step * self.step_s) * 1_000_000_000
            rows.append((begins_ns, service, signal, value, "1/min", None))
        return rows


# Lines that a cluster itself gave of its containers, beside those of a log backend.
#
# A backend that collects the logs of a cluster holds the same lines, and more of them. Both
# together would count each line twice.

SOURCE = "kubernetes container log"
COMMAND = "kubectl logs"
"""How the query of such lines begins."""
LEFT_OUT = "not counted: another source brought the lines of this service"
LEAST_LINES = 50
"""Some sources report a service in a few log lines, as of each error that they know: that is no
backend that collects its logs, unless the cluster itself has no more of them."""
# Matched as text, so that no line has to be parsed.
_MARK = f'"source": "{SOURCE}"'


def logged_elsewhere(cluster: pl.DataFrame, log_tables: Sequence[pl.DataFrame]) -> frozenset[str]:
    """The services whose lines another source collects as well."""
    counts = _counts(pl.concat(log_tables)) if log_tables else {}
    cluster_counts = _counts(cluster.filter(_is_line()))
    services = []
    for service, count in cluster_counts.items():
        if counts.get(service, 0) >= min(count, LEAST_LINES):
            services.append(service)
    return frozenset(services)


def _counts(logs: pl.DataFrame) -> dict[str, int]:
    return dict(logs.group_by("service").len().drop_nulls().iter_rows())


def _is_line() -> pl.Expr:
    return pl.col("attributes").str.contains(_MARK, literal=True).fill_null(False)


def without_services(cluster: pl.DataFrame, services: Iterable[str]) -> pl.DataFrame:
    """The rows of a cluster's logs but the container lines of these services."""
    fill_null = pl.col("service").is_in(list(services)).fill_null(False)
    return cluster.filter(~(_is_line() & fill_null))


def marked_items(items: Sequence[Evidence], services: frozenset[str]) -> list[Evidence]:
    """The items. Those whose lines were left out say so; the last lines of a crash stay in their
    details."""
    updated_items = []
    for item in items:
        is_elsewhere = bool(services.intersection(item.services or ()))
        if item.query.startswith(COMMAND) and is_elsewhere:
            updated_items.append(item.model_copy(update={"rows": 0, "cut": LEFT_OUT}))
        else:
            updated_items.append(item)
    return updated_items


# Windows that touch are asked as one.


def merged(windows: Iterable[Window]) -> tuple[Window, ...]:
    """The windows in order, those joined into one that touch or overlap (a gap of a second counts
    as touching)."""
    out: list[Window] = []
    for window in sorted(windows, key=lambda w: w.start):
        if out and window.start - out[-1].end <= timedelta(seconds=1):
            out[-1] = Window(start=out[-1].start, end=max(out[-1].end, window.end))
        else:
            out.append(window)
    return tuple(out)
