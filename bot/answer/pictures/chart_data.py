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

from faultline.analysis.analyzers import fault_of
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import ChangeDetails
from faultline.analysis.vocabulary import Diagnosis, Finding, Verdict
from faultline.analysis.wording.amounts import Unit
from faultline.analysis.wording.names import change_name, subject_name
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.pictures.decisive_signal import (
    FindingSeries,
    decisive_finding,
    decisive_part,
    departure,
    series_of,
    step_time_finding,
)
from faultline.bot.answer.writer.story import Story, began, story_of

PanelRole = Literal["culprit", "candidate", "affected", "other"]
EventKind = Literal["change", "onset", "alert"]

HOLE = 3.5
"""A step that many times as long as usual, and as a step beside it, is a hole in the record."""
LOG_FROM = 10.0
"""A value that rises more than this is drawn on a log scale, as the mock of the answer has it."""
MAX_THRESHOLD = 3.0
"""A threshold further above the values than this many times would flatten them."""
PLAIN, UNSEEN = 0.5, 0.2
"""Shares of the values since the onset that are outside of the usual range: from the first on one
plainly sees what is wrong; below the second, twice what chance brings, one does not."""
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
    return _ChartMaker(case, diagnosis).decisive()


def finding_chart_of(case: Case, diagnosis: Diagnosis, finding_id: str) -> DecisiveChart | None:
    """The chart of one finding, or None when it has no series to show."""
    finding = next((finding for finding in diagnosis.findings if finding.id == finding_id), None)
    return _ChartMaker(case, diagnosis).of_finding(finding)


_Drawable = tuple[Finding, FindingSeries]


class _ChartMaker:
    """Chooses the series of one chart and cuts them to the same part."""

    def __init__(self, case: Case, diagnosis: Diagnosis) -> None:
        self.case = case
        self.diagnosis = diagnosis
        self.story = story_of(diagnosis, case.alert)
        self.calm = diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
        cause = self.story.cause
        self.culprit = cause.subject if cause is not None and not self.calm else None

    def decisive(self) -> DecisiveChart | None:
        first, clarity = self._of_cause() if self.culprit else (None, 0.0)
        second = self._of_effect(first[0] if first else None)
        if second is not None and clarity < UNSEEN:
            # A series in which one sees nothing would cast doubt on what is true.
            first = None
        drawables = [drawable for drawable in (first, second) if drawable is not None]
        return self._chart(drawables) if drawables else None

    def of_finding(self, finding: Finding | None) -> DecisiveChart | None:
        drawable, _ = self._with_series([finding])
        return self._chart([drawable]) if drawable else None

    def _of_cause(self) -> tuple[_Drawable | None, float]:
        """What is wrong with the culprit, as the headline has it, or else its clearest series."""
        cited = set(self.story.cause.findings) if self.story.cause else ()
        about = [f for f in self.diagnosis.findings if f.id in cited and self._is_culprits(f)]
        about.sort(
            key=lambda finding: (finding.series.get("table") != "metrics", -finding.strength)
        )
        clearest = decisive_finding(self.diagnosis)
        if clearest is not None and self._is_culprits(clearest):
            about.insert(0, clearest)
        return self._with_series([self.story.mechanism, *about])

    def _is_culprits(self, finding: Finding) -> bool:
        """Whether it is about the culprit, be it a rank of a job ("job/rank 2")."""
        return self.culprit in (finding.subject, finding.subject.rpartition("/")[2])

    def _of_effect(self, drawn: Finding | None) -> _Drawable | None:
        """What somebody outside notices, as the headline has it; of a training job the time of its
        step. Where the culprit shows it itself, what the alerting service or another shows."""
        drawable, _ = self._with_series([self.story.effect], but=drawn)
        if drawable is not None:
            return drawable
        findings: list[Finding | None] = []
        if self.culprit and _is_rank(self.culprit):
            findings.append(step_time_finding(self.diagnosis, None))
        impact = set(self.diagnosis.impact.findings)
        for finding in self.diagnosis.findings:
            fault = fault_of(finding)
            if fault is None or not fault.is_symptom or self._is_culprits(finding):
                continue
            if finding.subject == self.case.alert.service or finding.id in impact:
                findings.append(finding)
        if self.culprit is None:
            findings.append(decisive_finding(self.diagnosis))
        return self._with_series(findings, but=drawn)[0]

    def _with_series(
        self, findings: Iterable[Finding | None], but: Finding | None = None
    ) -> tuple[_Drawable | None, float]:
        """The first in whose series one plainly sees what is wrong, or else the one in which one
        sees it best; and how well."""
        clearest: _Drawable | None = None
        most = -1.0
        for finding in findings:
            # Two findings may be about one series: a second panel of it says nothing new.
            if finding is None or (but is not None and finding.series == but.series):
                continue
            series = series_of(self.case, finding)
            if series is None or decisive_part(self.case, finding, series) is None:
                continue
            observed_departure = departure(self.case, finding, series)
            if observed_departure > most:
                clearest, most = (finding, series), observed_departure
            if observed_departure >= PLAIN:
                break
        return clearest, most

    def _chart(self, drawables: Sequence[_Drawable]) -> DecisiveChart | None:
        part = decisive_part(self.case, *drawables[0])
        if part is None:
            return None
        start, end = part[0].timestamp(), part[1].timestamp()
        events = list(self._events(drawables[0][0]))
        reach = start - REACH * (end - start)
        # Widen the view to the events near it, so that their lines lie inside.
        inside = [event.time for event in events if event.time >= reach]
        start, end = min([start, *inside]), max([end, *inside])
        panels = []
        for finding, series in drawables:
            panel = self._panel(finding, series, (start, end))
            if panel is not None:
                panels.append(panel)
        if not panels or end <= start:
            return None
        events = [_within(event, start) for event in events]
        return DecisiveChart(tuple(panels), tuple(events), start, end, _words(drawables, events))

    def _panel(
        self, finding: Finding, series: FindingSeries, view: tuple[float, float]
    ) -> ChartPanel | None:
        times = series.points["time"].dt.epoch("ns").to_numpy() / 1e9
        values = series.points["value"].to_numpy()
        inside = (times >= view[0]) & (times <= view[1])
        if not inside.any():
            return None
        # What the figures are. Of "data" in milliseconds the name alone would not tell.
        if series.unit.kind == "time" and not _TIME_WORDS.search(series.name):
            measured = f"{series.name} time"
        else:
            measured = series.name
        return ChartPanel(
            title=f"{_called(finding.subject)}: {measured}",
            role=self._role(finding),
            unit=series.unit,
            runs=_runs(times[inside], values[inside], whole=series.counted),
            counted=series.counted,
            # The median: a hole in the record must not widen the bars.
            step=float(np.median(np.diff(times))),
            usual=series.usual,
            threshold=_threshold(self.case, finding, values[inside]),
        )

    def _role(self, finding: Finding) -> PanelRole:
        if self.calm:
            return "other"
        if not self._is_culprits(finding):
            return "affected"
        suspected = self.diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE
        return "candidate" if suspected else "culprit"

    def _events(self, finding: Finding) -> Iterable[ChartEvent]:
        change = _change(self.case, self.story)
        if change is not None:
            yield change
        onset = self._onset(finding)
        if onset is not None and not self.calm:
            yield ChartEvent("onset", onset.timestamp(), "onset")
        words = "asked about" if self.case.alert.is_question else "alert"
        yield ChartEvent("alert", self.case.alert.started_at.timestamp(), words)

    def _onset(self, finding: Finding) -> datetime | None:
        """The answer's own onset, in a picture of what it tells; of any other finding, its own."""
        cause = self.story.cause
        cited = {*self.diagnosis.impact.findings, *(cause.findings if cause else ())}
        if finding.id in cited:
            return began(self.diagnosis) or finding.onset
        return finding.onset


def _is_rank(subject: str) -> bool:
    return subject.startswith("rank ")


def _called(subject: str) -> str:
    """The subject as people call it; a rank without its job, which is the same in all panels."""
    rank = subject.rpartition("/")[2]
    return plain(rank if _is_rank(rank) else subject_name(subject), 60)


def _runs(
    times: np.ndarray, values: np.ndarray, *, whole: bool
) -> tuple[tuple[tuple[float, float], ...], ...]:
    """The points, parted at every hole, so that no line is drawn where nothing was recorded."""
    points = list(zip(times.tolist(), values.tolist(), strict=True))
    # Counts have a zero for each step without lines, so they have no holes.
    if whole or len(points) < 3:
        return (tuple(points),)
    steps = np.diff(times)
    # Compare with the shorter neighbour: where a series turned coarser there is no hole.
    beside = np.minimum(np.append(steps[1:], np.inf), np.insert(steps[:-1], 0, np.inf))
    usual = np.maximum(np.median(steps), np.where(np.isfinite(beside), beside, 0))
    holes = np.flatnonzero(steps > HOLE * usual) + 1
    bounds = [0, *holes.tolist(), len(points)]
    return tuple(tuple(points[a:b]) for a, b in itertools.pairwise(bounds))


def _threshold(case: Case, finding: Finding, values: np.ndarray) -> float | None:
    """That of the alert, where it is about this very series and near its values."""
    alert = case.alert
    same_signal = alert.signal == finding.signal and finding.series.get("table") == "metrics"
    if not same_signal or alert.threshold is None or alert.service not in (None, finding.subject):
        return None
    near = alert.threshold <= MAX_THRESHOLD * max(float(values.max()), 1e-12)
    return alert.threshold if near else None


def _change(case: Case, story: Story) -> ChartEvent | None:
    """The change that the answer blames."""
    details = ChangeDetails.of(story.change) if story.change else None
    if details is None or not details.change:
        return None
    # The time that the headline says; a change may have several rows.
    at = story.change.onset if story.change else None
    rows = case.changes.filter(pl.col("id") == details.change).sort("time")
    if at is None and not rows.is_empty():
        at = rows["time"][0]
    if at is None:
        return None
    return ChartEvent("change", at.timestamp(), plain(change_name(details.change), 24))


def _within(event: ChartEvent, start: float) -> ChartEvent:
    if event.time >= start:
        return event
    return ChartEvent(event.kind, event.time, event.words, earlier=True)


def _words(drawables: Sequence[_Drawable], events: Sequence[ChartEvent]) -> str:
    sentences = [finding.sentence for finding, _ in drawables]
    for event in events:
        name = "change " if event.kind == "change" else ""
        sentences.append(f"{name}{event.words} at {event.clock} UTC")
    return "; ".join(sentence.rstrip(".") for sentence in sentences)
