"""Which metric series left their baseline, when, by how much, and how far out of their own noise.

Each (service, signal) is compared with its baseline by `baseline_comparison`; series are processed
as matrices of similar length, so the cost is a few numpy passes however many series there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import numpy as np
import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.alert_place import lies_elsewhere, place_of
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.kinds.finding_kinds import METRIC_SHIFT
from faultline.analysis.kinds.signals import (
    PEER,
    SignalClass,
    classify,
    is_bad,
    is_headroom,
    parts_of,
)
from faultline.analysis.metrics.baseline_comparison import SeriesComparison, compare
from faultline.analysis.metrics.series import COUNTER as COUNTER
from faultline.analysis.metrics.series import LARGEST as LARGEST
from faultline.analysis.metrics.series import MIN_BASELINE_POINTS as MIN_BASELINE_POINTS
from faultline.analysis.metrics.series import blocks_of, labels_of
from faultline.analysis.vocabulary import Alert, Finding
from faultline.analysis.wording.amounts import NUMBER, PERCENT, Unit, amount, levels, times, unit_of
from faultline.analysis.wording.names import signal_name, subject_name
from faultline.analysis.wording.phrases import capitalised, plain, rounded

KIND = METRIC_SHIFT.name
MIN_SIGMAS = 3.0
MIN_RELATIVE = 0.05
"""A move smaller than 3 sigmas or 5 % of the level is not reported."""
USUAL = 0.05
"""A departure as large as in this share of the quiet windows keeps half its strength: the usual
level of a test."""
RECOVERED_SHARE = 0.25
"""Back to baseline: the last points are within a quarter of the move, or within 3 sigmas, of the
baseline."""
BRIEF = {1: 0.6, 2: 0.85}
"""What one or two departed points weigh, beside three or more."""
SPIKE = {1: 0.25, 2: 0.5}
"""The same for a spike: one or two points of many, and back at once."""
SPIKE_SHARE = 0.1
MIN_DAYS = 2
"""What was alike on more than half of the days before, and at least two are known, is called
usual."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def metric_shifts(case: Case) -> list[Finding]:
    """One finding per (service, signal) that left its baseline. Where labels split a signal, that
    of the whole service; where that did not leave its own, that of the strongest part."""
    if not case.metrics.height:
        return []
    evidence = case.evidence_ids("metrics")
    findings: dict[tuple[str, str], Finding] = {}
    place = place_of(case.alert)
    split = _split(case)
    for block in blocks_of(case):
        for finding in _shifts_of(compare(block), case.alert, evidence, split, place):
            key = (finding.subject, finding.signal or "")
            if key not in findings or _tells_more(finding, findings[key]):
                findings[key] = finding
    return [findings[key] for key in sorted(findings)]


ANALYZER = Analyzer(metric_shifts, kinds=(METRIC_SHIFT,))


def _tells_more(finding: Finding, other: Finding) -> bool:
    """Whether it is of the whole service and the other of a part, or else the stronger one."""
    if ("labels" in finding.series) != ("labels" in other.series):
        return "labels" not in finding.series
    return finding.strength > other.strength


def _split(case: Case) -> frozenset[tuple[str, str]]:
    """The signals of services that have several series: of parts, or of a part and the whole."""
    labels = pl.col("labels").fill_null("").n_unique()
    counts = case.metrics.group_by("service", "signal").agg(labels)
    split = counts.filter(pl.col("labels") > 1)
    return frozenset(split.select("service", "signal").iter_rows())


def _shifts_of(
    compared: SeriesComparison,
    alert: Alert,
    evidence: tuple[str, ...],
    split: frozenset[tuple[str, str]],
    place: Mapping[str, str],
) -> Iterator[Finding]:
    large = (compared.sigmas >= MIN_SIGMAS) & (compared.relative >= MIN_RELATIVE)
    reported = compared.departed & large & ~compared.within_baseline
    for row in np.flatnonzero(reported):
        service, signal, _, labels = compared.keys.row(int(row))
        label_map = labels_of(labels) if labels else {}
        # Trouble in another cluster is another alert's; comparing the two tells of it. What a
        # caller measures of its calls is about the callee (`faultline.analysis.suspects`).
        if lies_elsewhere(label_map, place) or PEER in label_map:
            continue
        parts = parts_of(label_map) if (service, signal) in split else {}
        yield _finding(compared, int(row), alert, evidence, parts)


def _strength(compared: SeriesComparison, row: int, *, vouched: bool) -> float:
    """In [0, 1]: out of the noise, of a size that matters, held by several points, against a known
    baseline.

    A spike of the signal that alerts is `vouched` for by the alert. What many quiet windows show as
    well is divided by 1 + its share of them / `USUAL`; what earlier days show at this hour is
    multiplied by the chance that it is new.
    """
    noise = 1.0 - np.exp(-float(compared.sigmas[row]) / 5.0)
    relative = float(compared.relative[row])
    size = relative / (relative + 0.15) * 1.15
    points, searched = int(compared.points[row]), int(compared.searched[row])
    is_spike = bool(compared.ended[row]) and points <= SPIKE_SHARE * searched
    weights = SPIKE if is_spike and not vouched else BRIEF
    support = weights.get(points, 1.0)
    # A median and a spread of twelve points are as good as those of more.
    baseline_weight = min(1.0, (int(compared.baseline_points[row]) + 2) / 14.0)
    usual = 1.0 + float(compared.quiet_share[row]) / USUAL
    new = 1.0 - float(compared.days.chance[row])
    return float(np.clip(noise * size * support * baseline_weight * new / usual, 0.0, 1.0))


class _Move(NamedTuple):
    """A shift as it is said: levels in the signal's own sense, and how it compares with the days
    before."""

    before: float
    after: float
    days_alike: int
    days_total: int

    @property
    def direction(self) -> str:
        return "up" if self.after > self.before else "down"

    @property
    def ratio(self) -> float | None:
        """None where a level is zero or below, which no ratio describes."""
        return self.after / self.before if self.before > 0 and self.after > 0 else None

    @property
    def is_usual(self) -> bool:
        """Whether most of the days before show the same at this hour."""
        return self.days_total >= MIN_DAYS and 2 * self.days_alike > self.days_total


def _move(compared: SeriesComparison, row: int) -> _Move:
    before, after = float(compared.centre[row]), float(compared.level[row])
    ceiling = float(compared.ceiling[row])
    # An availability is compared by what it lacks of its ceiling, and quoted as it is.
    if not np.isnan(ceiling):
        before, after = ceiling - before, ceiling - after
    return _Move(before, after, int(compared.days.alike[row]), int(compared.days.total[row]))


def _has_recovered(compared: SeriesComparison, row: int) -> bool:
    # The end's level is the middle of several points; where the last one of all is out, whatever
    # began just now would seem to be over.
    if not compared.ended[row]:
        return False
    centre, scale = float(compared.centre[row]), float(compared.scale[row])
    move = abs(float(compared.level[row]) - centre)
    away = abs(float(compared.end_level[row]) - centre)
    # Of a small move the noise alone would reach back to the baseline.
    within_noise = MIN_SIGMAS * scale if move > 6 * scale else 0.0
    return away <= max(RECOVERED_SHARE * move, within_noise)


def _finding(
    compared: SeriesComparison,
    row: int,
    alert: Alert,
    evidence: tuple[str, ...],
    parts: Mapping[str, str],
) -> Finding:
    service, signal, unit, labels = compared.keys.row(row)
    is_alerting = (service, signal) == (alert.service, alert.signal)
    part = " ".join(next(iter(parts.items()), ()))
    series = {"table": "metrics", "service": service, "signal": signal}
    if part:
        series["labels"] = labels
    move = _move(compared, row)
    unit = unit or (unit_of_alert(alert, signal, move) if is_alerting else "")
    kind = classify(signal)
    ratio = move.ratio
    called = f"{signal_name(signal)} of {subject_name(service)}"
    if part:
        called += f" in {plain(part)}"
    sentence, numbers = _move_text(called, unit_of(signal, unit, (move.before, move.after)), move)
    seconds = float(compared.interval_s[row])
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal=signal,
        onset=_EPOCH + timedelta(microseconds=int(compared.onset_ns[row]) // 1000),
        onset_uncertainty_s=round(float(compared.uncertainty_s[row]), 3),
        effect=rounded(ratio if ratio is not None else move.after - move.before),
        effect_unit="x" if ratio is not None else (unit or None),
        strength=round(_strength(compared, row, vouched=is_alerting), 4),
        sentence=sentence,
        numbers=numbers,
        evidence=evidence,
        series=series,
        details=MetricShiftDetails(
            signal_class=kind.value,
            direction=move.direction,
            bad=is_bad(kind, move.direction, headroom=is_headroom(signal)),
            recovered=_has_recovered(compared, row),
            unit=unit or None,
            interval_s=rounded(seconds, 3) if seconds > 0 else None,
            sigmas=rounded(min(float(compared.sigmas[row]), 1e6), 3),
            points=int(compared.points[row]),
            baseline_points=int(compared.baseline_points[row]),
            quiet_share=rounded(float(compared.quiet_share[row]), 3),
            usual_at_this_hour=move.is_usual,
        ),
    )


def unit_of_alert(alert: Alert, signal: str, move: _Move) -> str:
    """The unit that the rule's threshold has, where neither the series nor its name has one: beside
    "above 2 %" a level of 0.72 is 72 %."""
    watched, reached = alert.watches, max(move.before, move.after)
    if watched is None or unit_of(signal, None, (move.before, move.after)) != NUMBER:
        return ""
    if watched.unit != "%":
        return watched.unit or ""
    # The rule fired, so what is below its threshold is the same share of one.
    return "ratio" if watched.threshold is not None and reached < watched.threshold else "%"


def _move_text(called: str, unit: Unit, move: _Move) -> tuple[str, dict[str, float]]:
    """The sentence and the numbers in it."""
    before, after, ratio = move.before, move.after, move.ratio
    numbers = {"baseline": rounded(before), "incident": rounded(after)}
    verb = "rose" if move.direction == "up" else "fell"
    usual, now = levels(numbers["baseline"], numbers["incident"], unit)
    text = f"{called} {verb} from {usual} to {now}"
    if ratio is not None and ratio >= 1.05:
        numbers["ratio"] = rounded(ratio, 3)
        text += f" ({times(ratio)})"
    elif before > 0 and 0 <= after < before:
        percent = 100 * (after / before - 1)
        numbers["percent"] = rounded(percent, 3)
        # Of a share the change in percent would be read as points of it.
        if unit.kind != "share":
            text += f" ({amount(percent, PERCENT)})"
    if move.is_usual:
        numbers |= {"days_alike": move.days_alike, "days_before": move.days_total}
        text += f", as on {move.days_alike} of {move.days_total} days before at this hour"
    return capitalised(text) + ".", numbers


def shift_class(finding: Finding) -> SignalClass:
    """The class of the signal a metric finding is about."""
    return SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
