"""What the investigation may conclude, and how sure it may be. docs/verdicts.md lists the rules in
their order.

- `insufficient_evidence`: too little was seen to say anything: no signal could be compared with a
  baseline, the alerting service is in no table, its signal stopped coming or does not show what the
  alert saw, or it moved and nothing clear enough explains it.
- `no_active_incident`: the alerting signal was checked and stayed in its normal range; or its
  monitor flaps.
- `recovered`: something left its baseline and the alerting signal is back; causes are still listed.
- `cause_found`: otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.analyzers import fault_of, finding_kind, is_training
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_kinds import TRAINING_HEALTHY
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.alert_history import FLAPPING, STOPPED
from faultline.analysis.metrics.alert_threshold import read_threshold, signal_points
from faultline.analysis.metrics.recovery import PERSISTS, AlertState
from faultline.analysis.ranking.alert_gate import AlertGate, GateState
from faultline.analysis.ranking.missing_evidence import (
    comparable,
    has_service_rows,
    missing_evidence,
    unshown,
)
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.vocabulary import Cause, Finding, Verdict

WEAK = 0.25
"""Below this score the first suspect cannot be distinguished from noise."""
QUIET = 0.75
"""Confidence in "nothing is wrong" when the alerting signal itself was seen; half of it
otherwise."""
EXPLAINED = 0.85
"""And when the alert's own past says why it fired: its monitor flaps, or its threshold is in the
normal range."""
SURE = 0.7
"""Of an alert that names no service, while no front door is seen out of its past, a cause is named
from this confidence on. In 86 healthy stretches of two recorded systems whose alerts name none, 55
were given a cause before and 24 with it; four of their 48 incidents are lost."""
FELT = 0.65
"""And from this strength on requests are clearly slower or failing, where metrics are all there is
against the first cause. Of the same stretches 6 of 26 are left with it, and no incident is lost: in
the other 20 a memory or disk series had moved while no request showed it."""
NAMES_NOTHING = "The alert names no service, and no front door was seen out of its past."
DISPUTED = 0.6
"""A symptom of at least this strength contradicts a calm alerting signal."""
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
SLOW, LEAST_SLOW, Z_LIMIT = 0.05, 2, 1.645
"""Failed requests add up, so any more of them are real. Slow ones have to be more than chance:
points beyond the baseline's 95th percentile, more often than a binomial count at 5 % would have it
(one-sided, 5 %)."""
UNKNOWN_GATE = AlertGate(GateState.UNKNOWN)


@dataclass(frozen=True)
class Conclusion:
    """Verdict, confidence in it, and for insufficient evidence what is missing."""

    verdict: Verdict
    confidence: float
    missing: tuple[str, ...] = ()


def conclude(
    case: Case,
    causes: Sequence[Cause],
    findings: Sequence[Finding],
    state: AlertState,
    top: float,
    gate: AlertGate = UNKNOWN_GATE,
) -> Conclusion:
    """The verdict by the rules above; `top` is the first suspect's score."""
    compared = _compared_tables(case, findings)
    missing = missing_evidence(case, compared, findings, causes)
    unknown = Conclusion(Verdict.INSUFFICIENT_EVIDENCE, 0.0, missing)
    strong = top >= WEAK and bool(causes)
    if gate.names_nothing and _is_doubtful(case, causes, findings):
        return Conclusion(Verdict.INSUFFICIENT_EVIDENCE, 0.0, (NAMES_NOTHING, *missing))
    if not compared and not strong:
        return unknown

    kinds = {finding.kind for finding in findings}
    if FLAPPING in kinds and _nothing_persists(case, findings, state):
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, EXPLAINED)
    if causes and state.recovered and (strong or _clearly_left(state)):
        return Conclusion(Verdict.RECOVERED, causes[0].confidence)

    unseen = STOPPED in kinds or unshown(case) is not None
    real = _is_real(case, findings, state, gate)
    calm = (state.never_left or gate.is_calm) and not real and not unseen
    if calm:
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, _confidence_in_calm(kinds))
    if causes and (strong or real):
        return Conclusion(Verdict.CAUSE_FOUND, causes[0].confidence)
    if real or unseen:
        return unknown

    # A healthy trace of the job itself outweighs tables that are missing.
    healthy = HEALTHY in kinds and not state.findings
    if healthy or _is_fully_covered(case, state, compared):
        return Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET / 2)
    return unknown


def _is_doubtful(case: Case, causes: Sequence[Cause], findings: Sequence[Finding]) -> bool:
    """Whether the first cause may be any service's trouble. A training job's is the job's."""
    if not causes:
        return False
    first = causes[0]
    cited = [finding for finding in findings if finding.id in first.findings]
    of_job = case.alert.job is not None or bool(case.trace_files)
    if of_job or any(is_training(finding) for finding in cited):
        return False
    if first.confidence < SURE:
        return True
    by_metrics_alone = all(finding_kind(finding.kind).tables == ("metrics",) for finding in cited)
    return by_metrics_alone and not _is_felt(case, first, findings)


def _is_felt(case: Case, cause: Cause, findings: Iterable[Finding]) -> bool:
    """Whether requests to the cause's subject, or to what calls it, clearly fail or are slow."""
    above = read_topology(case).upstream(cause.subject)
    for finding in findings:
        fault = fault_of(finding)
        if fault is None or fault.alerts_as is None or finding.strength < FELT:
            continue
        if finding.subject == cause.subject or finding.subject in above:
            return True
    return False


def _compared_tables(case: Case, findings: Sequence[Finding]) -> set[str]:
    """The tables of which something could be compared with normal."""
    compared = set(comparable(case))
    # Traces need no baseline: their ranks are compared with each other.
    if case.trace_files and findings:
        compared.add("traces")
    return compared


def _clearly_left(state: AlertState) -> bool:
    return any(finding.strength >= PERSISTS for finding in state.findings)


def _confidence_in_calm(kinds: Iterable[str]) -> float:
    explained = any(finding_kind(kind).explains_alert for kind in kinds)
    return EXPLAINED if explained else QUIET


def _is_fully_covered(case: Case, state: AlertState, compared: Collection[str]) -> bool:
    """Whether silence means that nothing is wrong: no gap, and the alert's own signal and service
    are in the tables."""
    if case.gaps or "metrics" not in compared:
        return False
    if case.alert.signal and not state.comparable:
        return False
    if state.findings and not state.recovered:
        return False
    return has_service_rows(case)


def _nothing_persists(case: Case, findings: Sequence[Finding], state: AlertState) -> bool:
    """The alerting signal is where it was or is not known, and no clear symptom is left."""
    back = state.never_left or state.recovered or not state.findings
    if not back or state.persisting:
        return False
    # Whether something is clearly wrong although the monitor flaps.
    return not any(_contradicts_calm(finding, state) for finding in findings) and not _really_out(
        case
    )


def _is_real(case: Case, findings: Sequence[Finding], state: AlertState, gate: AlertGate) -> bool:
    """What the alert observed happened, even where the alerting signal did not leave its
    baseline."""
    if gate.state is GateState.OUT or _really_out(case):
        return True
    return (state.never_left or gate.is_calm) and _real_below(case, findings, state)


def _really_out(case: Case) -> bool:
    """The alert observed, and the series shows, what the baseline never had."""
    reading = read_threshold(case)
    return reading is not None and reading.really_out


def _real_below(case: Case, findings: Sequence[Finding], state: AlertState) -> bool:
    """The alerting signal is a little worse than usual while a service that it calls clearly shows
    the same."""
    alert = case.alert
    signal_class = classify(alert.signal) if alert.signal else SignalClass.OTHER
    alike = SAME_BELOW.get(signal_class)
    if alike is None or not alert.service:
        return False
    shown = _clearly_showing(alike, findings, state)
    shown.discard(alert.service)
    if not shown:
        return False
    below = read_topology(case).downstream(alert.service)
    return not shown.isdisjoint(below) and _worse(case, signal_class)


def _clearly_showing(alerts_as: str, findings: Sequence[Finding], state: AlertState) -> set[str]:
    """The subjects of clear faults that alerts would speak of in these words."""
    subjects = set()
    for finding in findings:
        fault = fault_of(finding)
        if fault is None or fault.alerts_as != alerts_as:
            continue
        clear = finding.strength >= CLEAR and finding.id not in state.usual
        if clear and not finding.details.recovered:
            subjects.add(finding.subject)
    return subjects


def _worse(case: Case, signal_class: SignalClass) -> bool:
    """Whether more fails than usual; or whether more of the window's points than chance would have
    it are slow."""
    points = signal_points(case)
    if points is None or not len(points.before[1]) or not len(points.now[1]):
        return False
    before, now = points.before[1], points.now[1]
    more = float(np.mean(now) - np.median(before))
    if signal_class is SignalClass.AVAILABILITY:
        return more < 0
    if signal_class is SignalClass.ERRORS:
        return more > 0
    slow = int((now > np.quantile(before, 1 - SLOW)).sum())
    expected = SLOW * len(now)
    by_chance = expected + Z_LIMIT * math.sqrt(expected * (1 - SLOW))
    return slow >= max(LEAST_SLOW, by_chance)


def _contradicts_calm(finding: Finding, state: AlertState) -> bool:
    if finding.strength < DISPUTED or finding.id in state.usual:
        return False
    wrong = finding.details.bad or is_training(finding)
    return bool(wrong) and not finding.details.recovered
