"""Services that log more failures than before, and the services that those lines name.

A failing line that names another service is about the call, and so about the service that is
called. A line that names nobody is about its writer.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import log_windows
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.logs.named_peers import failing_rows, named_peers
from faultline.analysis.metrics.shift_statistics import Floats, Ints
from faultline.analysis.suspects.deviations import (
    LEAST_NOISE,
    LEAST_QUIET_WINDOWS,
    Deviation,
    heights,
    usual_height,
)
from faultline.analysis.vocabulary import Window

MIN_NAME = 3
"""Shorter names occur in other words by chance."""
STEPS = 10
SHORTEST_STEP_S, LONGEST_STEP_S = 15.0, 60.0
_WORDS = re.compile(r"[A-Za-z0-9_.@:/-]{3,}")
_PARTS = re.compile(r"[:/]")


@dataclass(frozen=True)
class ErrorLines:
    """Failing lines of one writer that name one other service, or nobody (`names` None)."""

    writer: str
    names: str | None
    course: Deviation
    extra: float
    """Lines of the incident beyond what the baseline's rate would have brought."""
    lines: int


def error_lines(case: Case, services: Collection[str]) -> list[ErrorLines]:
    """One entry per writer and service named, in their order. Empty without a baseline of logs."""
    if not case.logs.height:
        return []
    rows = failing_rows(case.logs)
    windows = log_windows(case)
    baseline = [window for window in windows.baseline if window.seconds > 0]
    if not rows.height or not baseline:
        return []
    service_names = {name for name in services if len(name) >= MIN_NAME}
    times = _times_by_name(rows, service_names)
    step = float(np.clip(windows.search.seconds / STEPS, SHORTEST_STEP_S, LONGEST_STEP_S))
    lines = []
    for (writer, name), seconds_of in sorted(times.items(), key=lambda i: (i[0][0], i[0][1] or "")):
        counted = _counted(np.sort(np.array(seconds_of)), baseline, windows.search, step)
        if counted is not None:
            lines.append(_lines(writer, name, counted))
    return lines


def _times_by_name(
    rows: pl.DataFrame, service_names: Collection[str]
) -> dict[tuple[str, str | None], list[float]]:
    """When (s) each writer logs a failing line that names a service, or nobody (None)."""
    times: dict[tuple[str, str | None], list[float]] = defaultdict(list)
    named_in: dict[str, tuple[str, ...]] = {}
    book = AddressBook(service_names)
    for seconds, writer, text in rows.iter_rows():
        # Lines repeat, so look for names once for each text.
        if text not in named_in:
            named_in[text] = _named(text, book)
        other_names = [name for name in named_in[text] if name != writer]
        for other in other_names:
            times[writer, other].append(seconds)
        # A line that names another service is about the call, not about its writer.
        if not other_names:
            times[writer, None].append(seconds)
    return times


def _named(text: str, book: AddressBook) -> tuple[str, ...]:
    """The known services that the text names as a whole word, or as a part of an address, and
    others that it says were called."""
    parts = set()
    for word in _WORDS.findall(text):
        for part in (word.strip(".:/-_"), *_PARTS.split(word)):
            if part in book.services:
                parts.add(part)
    for address in named_peers(text):
        name = book.service_at(address)
        if name is not None and name not in parts:
            parts.add(name)
    return tuple(sorted(parts))


@dataclass(frozen=True)
class _Counted:
    """Lines per step on both sides, with the times (ns) at which the steps begin."""

    before_times: Ints
    before: Floats
    times: Ints
    now: Floats


def _counted(
    seconds: Floats, baseline: Sequence[Window], search: Window, step: float
) -> _Counted | None:
    before_times, before = [], []
    for window in baseline:
        begins = np.arange(window.start.timestamp(), window.end.timestamp(), step)
        before_times.append(begins)
        before.append(_histogram(seconds, begins, step))
    # One step more, so that the last lines of the window are counted.
    begins = np.arange(search.start.timestamp(), search.end.timestamp() + step, step)
    joined = np.concatenate(before).astype(float)
    if len(joined) < LEAST_QUIET_WINDOWS or not len(begins):
        return None
    return _Counted(
        (np.concatenate(before_times) * 1e9).astype(np.int64),
        joined,
        (begins * 1e9).astype(np.int64),
        _histogram(seconds, begins, step).astype(float),
    )


def _histogram(seconds: Floats, begins: Floats, step: float) -> Ints:
    """How many of the sorted times fall into each step."""
    first = np.searchsorted(seconds, begins, side="left")
    last = np.searchsorted(seconds, begins + step, side="left")
    return np.asarray(last - first)


def _lines(writer: str, name: str | None, counted: _Counted) -> ErrorLines:
    usual = float(counted.before.mean())
    # Lines come in counts, so their noise is at least that of a Poisson process.
    spread = max(float(counted.before.std()), (usual + 0.25) ** 0.5)
    badness = (np.concatenate([counted.before, counted.now]) - usual) / spread
    searched = len(counted.now)
    quiet = heights(badness[:-searched], searched)
    height = float(heights(badness[-searched:], searched)[0])
    course = Deviation(
        service=writer,
        signal="error_lines",
        signal_class=SignalClass.ERRORS,
        labels={},
        times=np.concatenate([counted.before_times, counted.times]),
        badness=badness,
        values=np.concatenate([counted.before, counted.now]),
        searched=searched,
        before=usual,
        excess=max(0.0, height) / max(usual_height(quiet), LEAST_NOISE),
        quiet_windows=len(quiet),
    )
    total = float(counted.now.sum())
    return ErrorLines(writer, name, course, max(0.0, total - usual * searched), int(total))


def extra_by_writer(lines: Iterable[ErrorLines]) -> Mapping[str, Mapping[str | None, float]]:
    """Per writer that logs more lines than usual: how many more name each service."""
    by_writer: dict[str, dict[str | None, float]] = defaultdict(dict)
    for line in lines:
        if line.course.size > 0 or line.names is None:
            by_writer[line.writer][line.names] = line.extra
    named = {}
    for writer, extra in by_writer.items():
        if any(name is not None for name in extra):
            named[writer] = extra
    return named
