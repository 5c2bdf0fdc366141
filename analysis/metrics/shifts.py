"""Which metric series left their baseline, when, by how much, and how far out of their own noise.

Each (service, signal) is compared with its baseline by `baseline_comparison`; series are processed
as matrices of similar length, so the cost is a few numpy passes however many series there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np

from analysis.case.folder import Case
from analysis.case.windows import metric_windows
from analysis.kinds.finding_details import MetricShiftDetails
from analysis.kinds.finding_kinds import METRIC_SHIFT, Analyzer
from analysis.kinds.signals import SignalClass, classify, is_bad, is_headroom
from analysis.metrics.baseline_comparison import Comparison, compare
from analysis.metrics.series import COUNTER as COUNTER
from analysis.metrics.series import LARGEST as LARGEST
from analysis.metrics.series import MIN_BASELINE_POINTS as MIN_BASELINE_POINTS
from analysis.metrics.series import metric_blocks
from analysis.vocabulary import Finding
from analysis.wording.phrases import number, plain, rounded

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
    """One finding per (service, signal) that left its baseline; the strongest when labels split a
    signal."""
    if not case.metrics.height:
        return []
    evidence, alerting = case.evidence_ids("metrics"), (case.alert.service, case.alert.signal)
    found: dict[tuple[str, str], Finding] = {}
    for block in metric_blocks(case.metrics, metric_windows(case)):
        for finding in _shifts_of(compare(block), alerting, evidence):
            key = (finding.subject, finding.signal or "")
            if key not in found or finding.strength > found[key].strength:
                found[key] = finding
    return [found[key] for key in sorted(found)]


ANALYZER = Analyzer(metric_shifts, kinds=(METRIC_SHIFT,))


def _shifts_of(
    compared: Comparison, alerting: tuple[str | None, ...], evidence: tuple[str, ...]
) -> Iterator[Finding]:
    reported = (
        compared.departed & (compared.sigmas >= MIN_SIGMAS) & (compared.relative >= MIN_RELATIVE)
    )
    for row in np.flatnonzero(reported & ~compared.seen_before):
        yield _finding(compared, int(row), alerting, evidence)


def _strength(compared: Comparison, row: int, *, vouched: bool) -> float:
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
    spike = bool(compared.ended[row]) and points <= SPIKE_SHARE * searched and not vouched
    support = (SPIKE if spike else BRIEF).get(points, 1.0)
    known = min(1.0, (int(compared.baseline_points[row]) + 2) / 14.0)
    usual = 1.0 + float(compared.quiet_share[row]) / USUAL
    new = 1.0 - float(compared.days.chance[row])
    return float(np.clip(noise * size * support * known * new / usual, 0.0, 1.0))


def _finding(
    compared: Comparison, row: int, alerting: tuple[str | None, ...], evidence: tuple[str, ...]
) -> Finding:
    service, signal, unit, _ = compared.keys.row(row)
    sizes = float(compared.centre[row]), float(compared.level[row])
    ceiling = float(compared.ceiling[row])
    before, after = sizes if np.isnan(ceiling) else (ceiling - sizes[0], ceiling - sizes[1])
    direction = "up" if after > before else "down"
    move, scale = abs(sizes[1] - sizes[0]), float(compared.scale[row])
    away = abs(float(compared.end_level[row]) - sizes[0])
    recovered = away <= max(RECOVERED_SHARE * move, MIN_SIGMAS * scale * (move > 6 * scale))
    kind = classify(signal)
    ratio = after / before if before > 0 and after > 0 else None
    days = int(compared.days.alike[row]), int(compared.days.known[row])
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal=signal,
        onset=_EPOCH + timedelta(microseconds=int(compared.onset_ns[row]) // 1000),
        onset_uncertainty_s=round(float(compared.uncertainty_s[row]), 3),
        effect=rounded(ratio if ratio is not None else after - before),
        effect_unit="x" if ratio is not None else (unit or None),
        strength=round(_strength(compared, row, vouched=(service, signal) == alerting), 4),
        evidence=evidence,
        series={"table": "metrics", "service": service, "signal": signal},
        details=MetricShiftDetails(
            signal_class=kind.value,
            direction=direction,
            bad=is_bad(kind, direction, headroom=is_headroom(signal)),
            recovered=bool(recovered),
            sigmas=rounded(min(float(compared.sigmas[row]), 1e6), 3),
            points=int(compared.points[row]),
            baseline_points=int(compared.baseline_points[row]),
            quiet_share=rounded(float(compared.quiet_share[row]), 3),
            usual_at_this_hour=_is_usual(*days),
        ),
        **_said(service, signal, unit, direction, before, after, ratio, days),
    )


def _is_usual(alike: int, known: int) -> bool:
    return known >= MIN_DAYS and 2 * alike > known


def _said(
    service: str,
    signal: str,
    unit: str,
    direction: str,
    before: float,
    after: float,
    ratio: float | None,
    days: tuple[int, int],
) -> dict[str, object]:
    numbers = {"baseline": rounded(before), "incident": rounded(after)}
    verb = "rose" if direction == "up" else "fell"
    suffix = f" {plain(unit, 12)}" if unit else ""
    text = (
        f"{plain(service)} {plain(signal)} {verb} from {number(before)} to {number(after)}{suffix}"
    )
    if ratio is not None and ratio >= 1.05:
        numbers["ratio"] = rounded(ratio, 3)
        text += f" ({number(ratio, 3)}x)"
    elif before > 0 and 0 <= after < before:
        numbers["percent"] = rounded(100 * (after / before - 1), 3)
        text += f" ({number(100 * (after / before - 1), 3)} %)"
    if _is_usual(*days):
        numbers |= {"days_alike": days[0], "days_before": days[1]}
        text += f", as on {days[0]} of {days[1]} days before at this hour"
    return {"sentence": text + ".", "numbers": numbers}


def shift_class(finding: Finding) -> SignalClass:
    """The class of the signal a metric finding is about."""
    return SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
