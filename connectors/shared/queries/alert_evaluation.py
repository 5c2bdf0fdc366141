"""An alert's own query, evaluated by any connector: over which windows, in which steps, and how the
answers become rows of the table `alert_query`."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from faultline.analysis.alert_signal.conditions import AlertCondition, condition_of
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Collected, Item
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder

EARLIER_DAYS = 14
LONGEST_EARLIER = timedelta(hours=4)
"""Of each earlier day. An incident of a whole day would otherwise ask for two whole weeks."""
FINE_STEP_S, COARSE_STEP_S = 30.0, 300.0
"""Of the incident and of earlier days; rules are evaluated every 15 to 60 s by default."""
MOST_FINE, MOST_COARSE = 720, 60
"""Points of a series in the incident with its baseline, and on each earlier day."""
MOST_RAW_SERIES = 500
"""Label sets that are read of one answer; a rule that fires for more is about everything."""
MOST_SERIES = 30
"""Label sets that are retained: those that are true, then the first."""

Point = tuple[int, float]
"""Time in ns since 1970, and value."""


@dataclass(frozen=True)
class EvaluatedWindow:
    """A window in which the query is evaluated, in steps of that many seconds."""

    window: Window
    step_s: int


@dataclass(frozen=True)
class EvaluatedSeries:
    """One label set and its points."""

    labels: Mapping[str, str] = field(default_factory=dict)
    points: Sequence[Point] = ()

    @property
    def key(self) -> str:
        """The labels as text, equal for equal labels."""
        return json.dumps(dict(sorted(self.labels.items())), ensure_ascii=False)


AskSeries = Callable[[str, EvaluatedWindow], Awaitable[Sequence[EvaluatedSeries]]]
"""An expression over a window, in the server's own language. Raises FaultlineError."""


async def evaluated(
    query: AlertQuery,
    scope: Scope,
    ask: AskSeries,
    *,
    link: str | None = None,
    condition: AlertCondition | None = None,
    unit: str | None = None,
) -> Collected:
    """The rows of an alert's query with their item. Raises FaultlineError where the incident itself
    cannot be asked about."""
    condition = condition or condition_of(query)
    windows = evaluated_windows(scope)
    if condition.is_absence:
        # Before a series was first written, and beyond the server's retention, all are absent.
        windows = windows[:1]
    measured: list[EvaluatedSeries] = []
    true: list[EvaluatedSeries] = []
    if condition.measured is not None:
        measured = await _over(windows, condition.measured, ask)
    if not condition.decides:
        true = await _over(windows, condition.whole, ask)
    rows, left_out = await asyncio.to_thread(alert_query_rows, condition, measured, true, unit=unit)
    collection = CollectionBuilder()
    count = collection.add("alert_query", rows)
    cut = f"{left_out} more label sets" if left_out else None
    item = Item("alert_query", query.text, windows[0].window, link, rows=count, cut=cut)
    collection.items.append(item)
    return collection.collected()


async def _over(
    windows: Sequence[EvaluatedWindow], text: str, ask: AskSeries
) -> list[EvaluatedSeries]:
    recent, *earlier = await asyncio.gather(
        *(ask(text, window) for window in windows), return_exceptions=True
    )
    if isinstance(recent, BaseException):
        raise recent
    # The past only adds to it: a server that does not reach so far back still says what is now.
    answers = [answer for answer in earlier if not isinstance(answer, BaseException)]
    return merged_series([recent, *answers])


def evaluated_windows(scope: Scope) -> list[EvaluatedWindow]:
    """The incident with what leads up to it, then the same hours of earlier days, the latest
    first."""
    incident = scope.incident
    start = min([incident.start, *(window.start for window in scope.baseline[:1])])
    recent = Window(start=start, end=incident.end)
    windows = [_stepped(recent, FINE_STEP_S, MOST_FINE)]
    # The incident's own hours: what leads up to it is another time of the day.
    begin = max(incident.start, incident.end - LONGEST_EARLIER)
    for day in range(1, EARLIER_DAYS + 1):
        back = timedelta(days=day)
        earlier = Window(start=begin - back, end=incident.end - back)
        # A short window has at least ten points.
        tenth_s = max(FINE_STEP_S, earlier.seconds / 10)
        # Where windows of one day overlap, the later one has asked already.
        if earlier.end < start:
            windows.append(_stepped(earlier, min(COARSE_STEP_S, tenth_s), MOST_COARSE))
    return windows


class MatrixEntry(Protocol):
    """A label set as Prometheus and Loki send it: times in s, values as text."""

    @property
    def metric(self) -> Mapping[str, str]: ...

    @property
    def values(self) -> Sequence[tuple[float, str]]: ...


def matrix_series(entries: Sequence[MatrixEntry]) -> list[EvaluatedSeries]:
    """The label sets of a matrix with their points; a value that is no number is left out."""
    every = []
    for entry in entries[:MOST_RAW_SERIES]:
        points: list[Point] = []
        for at, text in entry.values:
            try:
                points.append((round(at * 1000) * 1_000_000, float(text)))
            except ValueError:
                continue
        labels = {name: value for name, value in entry.metric.items() if name != "__name__"}
        every.append(EvaluatedSeries(labels, points))
    return every


def _stepped(window: Window, step_s: float, most: int) -> EvaluatedWindow:
    return EvaluatedWindow(window, math.ceil(max(step_s, window.seconds / most, 1)))


def merged_series(answers: Iterable[Sequence[EvaluatedSeries]]) -> list[EvaluatedSeries]:
    """The series of several windows, each label set once."""
    points: dict[str, list[Point]] = {}
    labels: dict[str, Mapping[str, str]] = {}
    for answer in answers:
        for series in answer:
            labels.setdefault(series.key, series.labels)
            points.setdefault(series.key, []).extend(series.points)
    return [EvaluatedSeries(labels[key], sorted(points[key])) for key in points]


def alert_query_rows(
    condition: AlertCondition,
    measured: Sequence[EvaluatedSeries],
    true: Sequence[EvaluatedSeries] = (),
    *,
    unit: str | None = None,
) -> tuple[list[tuple[Any, ...]], int]:
    """Rows of the table `alert_query`, and how many label sets were left out.

    `measured` is what the condition measures; `true` what the whole expression gave, where the
    threshold alone does not decide.
    """
    label_sets: list[tuple[bool, EvaluatedSeries, list[bool]]] = []
    if condition.measured is None:
        for series in true:
            label_sets.append((True, series, [True] * len(series.points)))
    else:
        # The label sets that are true at each time.
        moments: dict[int, list[Mapping[str, str]]] = {}
        for series in true:
            for at, _ in series.points:
                moments.setdefault(at, []).append(series.labels)
        for series in measured:
            if condition.decides:
                holds = [condition.holds(value) for _, value in series.points]
            else:
                # Operators between series drop labels, so one set may lack some of the other.
                holds = [
                    any(
                        labels.items() <= series.labels.items()
                        or series.labels.items() <= labels.items()
                        for labels in moments.get(at, ())
                    )
                    for at, _ in series.points
                ]
            label_sets.append((any(holds), series, holds))
    # Sorting is stable: those that are true first, the others in the server's order.
    label_sets.sort(key=lambda entry: not entry[0])
    rows: list[tuple[Any, ...]] = []
    limit = (condition.comparison, condition.threshold)
    for _, series, holds in label_sets[:MOST_SERIES]:
        for (at, value), is_true in zip(series.points, holds, strict=True):
            number = value if math.isfinite(value) else None
            rows.append((at, series.key, float(is_true), number, *limit, unit))
    return rows, max(0, len(label_sets) - MOST_SERIES)
