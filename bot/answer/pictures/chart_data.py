"""The decisive chart as data: culprit and victim on one time axis, and what happened when."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import numpy as np
import polars as pl

from analysis.analyzers import fault_of
from analysis.case.folder import Case
from analysis.kinds.finding_details import ChangeDetails
from analysis.vocabulary import Diagnosis, Finding
from analysis.wording.amounts import Unit
from analysis.wording.names import change_name, subject_name
from analysis.wording.phrases import plain
from bot.answer.decisive_signal import (
    FindingSeries,
    decisive_finding,
    decisive_part,
    series_of,
    step_time_finding,
)
from bot.answer.writer.story import Story, story_of

PanelRole = Literal["culprit", "affected"]
EventKind = Literal["change", "onset", "alert"]

HOLE = 3.5
"""A step that many times as long as usual, and as a step beside it, is a hole in the record."""
LOG_FROM = 10.0
"""A value that rises more than this is drawn on a log scale, as the mock of the answer has it."""
MAX_THRESHOLD = 3.0
"""A threshold further above the values than this many times would flatten them."""
REACH = 0.4
"""A change is drawn at its time when it is at most this share of the chart before its start."""


_TIME_WORDS = re.compile(r"time|latency|duration|delay|wait|age|lag", re.IGNORECASE)


@dataclass(frozen=True)
class ChartPanel:
    """One series. Times in seconds since 1970; between two runs nothing was recorded."""

    title: str
    role: PanelRole
    unit: Unit
    runs: tuple[tuple[tuple[float, float], ...], ...]
    counted: bool = False
    step: float = 0.0
    """Seconds of one bar, where it counts."""
    usual: tuple[float, float] | None = None
    """What was usual before."""
    threshold: float | None = None
    """Where the alert fires."""

    @property
    def values(self) -> list[float]:
        """All of them."""
        return [value for run in self.runs for _, value in run]

    @property
    def log(self) -> bool:
        """Whether it rises so far that only a log scale shows where it came from."""
        values = self.values
        if self.counted or min(values) <= 0:
            return False
        low = self.usual[1] if self.usual and self.usual[0] > 0 else min(values)
        return max(values) > LOG_FROM * low


@dataclass(frozen=True)
class ChartEvent:
    """Something that happened. `earlier` says that it was before the chart begins."""

    kind: EventKind
    time: float
    words: str
    earlier: bool = False

    @property
    def clock(self) -> str:
        """Its time of day, in UTC."""
        at = datetime.fromtimestamp(self.time, UTC)
        return f"{at:%H:%M:%S}"


@dataclass(frozen=True)
class DecisiveChart:
    """The chart: the culprit's panel first."""

    panels: tuple[ChartPanel, ...]
    events: tuple[ChartEvent, ...]
    start: float
    end: float
    words: str
    """The chart for those who do not see it."""


def decisive_chart_of(case: Case, diagnosis: Diagnosis) -> DecisiveChart | None:
    """The chart of an answer; None when no finding of it has a series to show."""
    story = story_of(diagnosis, case.alert)
    first = _of_cause(case, diagnosis, story)
    second = _of_effect(case, diagnosis, story, first[0] if first else None)
    found = [one for one in (first, second) if one is not None]
    return _chart(case, story, found) if found else None


def finding_chart_of(case: Case, diagnosis: Diagnosis, finding_id: str) -> DecisiveChart | None:
    """The chart of one finding, or None when it has no series to show."""
    for finding in diagnosis.findings:
        if finding.id == finding_id:
            story = story_of(diagnosis, case.alert)
            found = _with_series(case, [finding])
            return _chart(case, story, [found]) if found else None
    return None


_Found = tuple[Finding, FindingSeries]


def _of_cause(case: Case, diagnosis: Diagnosis, story: Story) -> _Found | None:
    """What is wrong with the culprit, as the headline has it, or else its clearest series."""
    if story.cause is None:
        return None
    known = {finding.id: finding for finding in diagnosis.findings}
    cited = [known[one] for one in story.cause.findings if one in known]
    about = [one for one in cited if _is_about(one, story.cause.subject)]
    about.sort(key=lambda one: (one.series.get("table") != "metrics", -one.strength))
    return _with_series(case, [story.mechanism, decisive_finding(diagnosis), *about])


def _is_about(finding: Finding, subject: str) -> bool:
    """Whether it is about that service, or about that rank of a job ("job/rank 2")."""
    return subject in (finding.subject, finding.subject.rpartition("/")[2])


def _of_effect(
    case: Case, diagnosis: Diagnosis, story: Story, drawn: Finding | None
) -> _Found | None:
    """What somebody outside notices, as the headline has it; of a training job the time of its
    step. Where the culprit shows it itself, what the alerting service or another shows."""
    culprit = story.cause.subject if story.cause else ""
    wanted = [story.effect]
    if _is_rank(culprit):
        wanted.append(step_time_finding(diagnosis, None))
    impact = set(diagnosis.impact.findings)
    for finding in diagnosis.findings:
        fault = fault_of(finding)
        if fault is None or not fault.is_symptom or _is_about(finding, culprit):
            continue
        if finding.subject == case.alert.service or finding.id in impact:
            wanted.append(finding)
    if story.cause is None:
        wanted.append(decisive_finding(diagnosis))
    return _with_series(case, wanted, but=drawn)


def _is_rank(subject: str) -> bool:
    return subject.startswith("rank ")


def _with_series(
    case: Case, findings: Iterable[Finding | None], but: Finding | None = None
) -> _Found | None:
    """The first that has one."""
    for finding in findings:
        if finding is None or (but is not None and finding.series == but.series):
            continue
        series = series_of(case, finding)
        if series is not None and decisive_part(case, finding, series) is not None:
            return finding, series
    return None


def _chart(case: Case, story: Story, found: Sequence[_Found]) -> DecisiveChart | None:
    part = decisive_part(case, *found[0])
    if part is None:
        return None
    start, end = part[0].timestamp(), part[1].timestamp()
    events = list(_events(case, story, found[0][0]))
    reach = start - REACH * (end - start)
    inside = [event.time for event in events if event.time >= reach]
    start, end = min([start, *inside]), max([end, *inside])
    panels = []
    for finding, series in found:
        panel = _panel(case, story, finding, series, (start, end))
        if panel is not None:
            panels.append(panel)
    if not panels or end <= start:
        return None
    events = [_within(event, start) for event in events]
    return DecisiveChart(tuple(panels), tuple(events), start, end, _words(found, events))


def _panel(
    case: Case, story: Story, finding: Finding, series: FindingSeries, view: tuple[float, float]
) -> ChartPanel | None:
    times = series.points["time"].dt.epoch("ns").to_numpy() / 1e9
    values = series.points["value"].to_numpy()
    inside = (times >= view[0]) & (times <= view[1])
    if not inside.any():
        return None
    culprit = story.cause is not None and _is_about(finding, story.cause.subject)
    return ChartPanel(
        title=f"{_called(finding.subject)}: {_measured(series)}",
        role="culprit" if culprit else "affected",
        unit=series.unit,
        runs=_runs(times[inside], values[inside], whole=series.counted),
        counted=series.counted,
        step=float(np.median(np.diff(times))),
        usual=series.usual,
        threshold=_threshold(case, finding, values[inside]),
    )


def _called(subject: str) -> str:
    """The subject as people call it; a rank without its job, which is the same in all panels."""
    rank = subject.rpartition("/")[2]
    return plain(rank if _is_rank(rank) else subject_name(subject), 60)


def _measured(series: FindingSeries) -> str:
    """What the figures are. Of "data" in milliseconds the name alone would not tell."""
    if series.unit.kind == "time" and not _TIME_WORDS.search(series.name):
        return f"{series.name} time"
    return series.name


def _runs(
    times: np.ndarray, values: np.ndarray, *, whole: bool
) -> tuple[tuple[tuple[float, float], ...], ...]:
    """The points, parted at every hole, so that no line is drawn where nothing was recorded."""
    points = list(zip(times.tolist(), values.tolist(), strict=True))
    if whole or len(points) < 3:
        return (tuple(points),)
    steps = np.diff(times)
    beside = np.minimum(np.append(steps[1:], np.inf), np.insert(steps[:-1], 0, np.inf))
    usual = np.maximum(np.median(steps), np.where(np.isfinite(beside), beside, 0))
    holes = np.flatnonzero(steps > HOLE * usual) + 1
    bounds = [0, *holes.tolist(), len(points)]
    return tuple(tuple(points[a:b]) for a, b in itertools.pairwise(bounds))


def _threshold(case: Case, finding: Finding, values: np.ndarray) -> float | None:
    """That of the alert, where it is about this very series and near its values."""
    alert = case.alert
    own = alert.signal == finding.signal and finding.series.get("table") == "metrics"
    if not own or alert.threshold is None or alert.service not in (None, finding.subject):
        return None
    near = alert.threshold <= MAX_THRESHOLD * max(float(values.max()), 1e-12)
    return alert.threshold if near else None


def _events(case: Case, story: Story, finding: Finding) -> Iterable[ChartEvent]:
    change = _change(case, story)
    if change is not None:
        yield change
    onset = finding.onset or (story.cause.onset if story.cause else None)
    if onset is not None:
        yield ChartEvent("onset", onset.timestamp(), "onset")
    yield ChartEvent("alert", case.alert.started_at.timestamp(), "alert")


def _change(case: Case, story: Story) -> ChartEvent | None:
    """The change that the answer blames."""
    details = ChangeDetails.of(story.change) if story.change else None
    if details is None or not details.change:
        return None
    rows = case.changes.filter(pl.col("id") == details.change).sort("time")
    if rows.is_empty():
        return None
    name = plain(change_name(details.change), 24)
    return ChartEvent("change", rows["time"][0].timestamp(), name)


def _within(event: ChartEvent, start: float) -> ChartEvent:
    if event.time >= start:
        return event
    return ChartEvent(event.kind, event.time, event.words, earlier=True)


def _words(found: Sequence[_Found], events: Sequence[ChartEvent]) -> str:
    said = [finding.sentence for finding, _ in found]
    for event in events:
        name = "change " if event.kind == "change" else ""
        said.append(f"{name}{event.words} at {event.clock} UTC")
    return "; ".join(sentence.rstrip(".") for sentence in said)
