"""What the investigation may conclude, and how sure it may be. The rules in their order are told in
docs/verdicts.md.

- `insufficient_evidence`: too little was seen to say anything: no signal could be compared with a
  baseline, the alerting service is in no table, its signal stopped coming or does not show what the
  alert saw, or it moved and nothing clear enough explains it.
- `no_active_incident`: the alerting signal was looked at and stayed in its normal range; or its
  monitor flaps.
- `recovered`: something left its baseline and the alerting signal is back; causes are still listed.
- `cause_found`: otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.analyzers import fault_of, finding_kind, is_training
from analysis.case.folder import Case
from analysis.kinds.finding_kinds import TRAINING_HEALTHY
from analysis.kinds.signals import SignalClass, classify
from analysis.metrics.alert_history import FLAPPING, STOPPED
from analysis.metrics.alert_threshold import read_threshold, signal_points
from analysis.metrics.recovery import PERSISTS, AlertState
from analysis.ranking.missing_evidence import comparable, missing_evidence, service_seen, unshown
from analysis.requests.topology import read_topology
from analysis.vocabulary import Cause, Finding, Verdict

WEAK = 0.25
"""Below this the first suspect is not told from noise."""
QUIET = 0.75
"""Confidence in "nothing is wrong" when the alerting signal itself was seen; half of it
otherwise."""
EXPLAINED = 0.85
"""And when the alert's own past says why it fired: its monitor flaps, or its threshold lies in the
normal range."""
DISPUTED = 0.6
CLEAR = 0.3
"""A callee's symptom of at least this strength makes a small move of the alerting signal real."""
HEALTHY = TRAINING_HEALTHY.name
SAME_BELOW = {
    SignalClass.ERRORS: "failures",
    SignalClass.AVAILABILITY: "failures",
    SignalClass.LATENCY: "latency",
}
"""What alerts about a callee's fault would speak of, by the class of the alerting signal. The
alerting signal shows a diluted part of it, because only some requests reach that callee."""
SLOW, LEAST_SLOW, ONE_SIDED = 0.05, 2, 1.645
"""Failed requests add up, so any more of them are real. Slow ones have to be more than chance:
points beyond the baseline's 95th percentile, more often than a binomial count at 5 % would have it
(one-sided, 5 %)."""


@dataclass(frozen=True)
class Conclusion:
    """Verdict, confidence in it, and for insufficient evidence what is missing."""

    verdict: Verdict
    confidence: float
    missing: tuple[str, ...] = ()


def conclude(
    case: Case, causes: Sequence[Cause], findings: Sequence[Finding], state: AlertState, top: float
) -> Conclusion:
    """The verdict by the rules above; `top` is the first suspect's score."""
    compared = comparable(case) | ({"traces"} if case.trace_files and findings else set())
    unknown = Conclusion(
        Verdict.INSUFFICIENT_EVIDENCE, 0.0, missing_evidence(case, compared, findings, causes)
    )
    strong = top >= WEAK and bool(causes)
    if not compared and not strong:
        return unknown
    kinds = {f.kind for f in findings}
    if FLAPPING in kinds and _calm(case, findings, state):
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, EXPLAINED)
    clear = any(f.strength >= PERSISTS for f in state.findings)
    if causes and (strong or clear) and state.recovered:
        return Conclusion(Verdict.RECOVERED, causes[0].confidence)
    unseen = STOPPED in kinds or unshown(case) is not None
    real = _really_out(case) or (state.never_left and _real_below(case, findings, state))
    if state.never_left and not (real or unseen or _disputed(findings, state)):
        explained = any(finding_kind(kind).explains_alert for kind in kinds)
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, EXPLAINED if explained else QUIET)
    if strong or (real and causes):
        return Conclusion(Verdict.CAUSE_FOUND, causes[0].confidence)
    if real or unseen:
        return unknown
    if HEALTHY in kinds and not state.findings:
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET / 2)
    blind = (case.alert.signal and not state.known) or not service_seen(case)
    if case.gaps or blind or (state.findings and not state.recovered) or "metrics" not in compared:
        return unknown
    return Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET / 2)


def _calm(case: Case, findings: Sequence[Finding], state: AlertState) -> bool:
    """Nothing persists: the alerting signal is where it was or is not known, and no clear symptom
    is left."""
    back = state.never_left or state.recovered or not state.findings
    return (
        back and not state.persisting and not _disputed(findings, state) and not _really_out(case)
    )


def _really_out(case: Case) -> bool:
    """The alert observed, and the series shows, what the baseline never had."""
    reading = read_threshold(case)
    return reading is not None and reading.really_out


def _real_below(case: Case, findings: Sequence[Finding], state: AlertState) -> bool:
    """The alerting signal is a little worse than usual while a service that it calls clearly shows
    the same."""
    alert = case.alert
    kind = classify(alert.signal) if alert.signal else SignalClass.OTHER
    alike = SAME_BELOW.get(kind)
    if alike is None or not alert.service:
        return False
    shown = set()
    for finding in findings:
        fault = fault_of(finding)
        clear = finding.strength >= CLEAR and finding.id not in state.usual
        if fault and fault.alerts_as == alike and clear and not finding.details.recovered:
            shown.add(finding.subject)
    shown.discard(alert.service)
    if not shown:
        return False
    below = read_topology(case).downstream(alert.service)
    return any(subject in below for subject in shown) and _worse(case, kind)


def _worse(case: Case, kind: SignalClass) -> bool:
    """Whether more fails than usual; or whether more of the window's points than chance would have
    it are slow."""
    points = signal_points(case)
    if points is None or not len(points.before[1]) or not len(points.now[1]):
        return False
    before, now = points.before[1], points.now[1]
    if kind is not SignalClass.LATENCY:
        more = float(np.mean(now) - np.median(before))
        return more < 0 if kind is SignalClass.AVAILABILITY else more > 0
    slow = int((now > np.quantile(before, 1 - SLOW)).sum())
    expected = SLOW * len(now)
    return slow >= max(LEAST_SLOW, expected + ONE_SIDED * math.sqrt(expected * (1 - SLOW)))


def _disputed(findings: Sequence[Finding], state: AlertState) -> bool:
    """The alerting signal is calm, yet something is clearly wrong: then the alert's name for it may
    differ."""
    return any(
        f.strength >= DISPUTED and (f.details.bad or is_training(f)) and not f.details.recovered
        for f in findings
        if f.id not in state.usual
    )
