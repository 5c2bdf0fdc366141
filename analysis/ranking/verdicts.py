"""What the investigation may conclude, and how sure it may be. docs/verdicts.md lists the rules in
their order.

- `insufficient_evidence`: too little was seen to say anything: no signal could be compared with a
  baseline, the alerting service is in no table, its signal stopped coming or does not show what the
  alert saw, it moved and nothing clear enough explains it, or no suspect is likely enough to be
  named.
- `no_active_incident`: the alerting signal was checked and stayed in its normal range; or its
  monitor flaps.
- `recovered`: something left its baseline and the alerting signal is back; causes are still listed.
- `cause_found`: otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.analyzers import fault_of, finding_kind, is_training
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import AlertHistoryDetails, StateFactDetails
from faultline.analysis.kinds.finding_kinds import (
    ALERT_OFTEN_TRUE,
    ALERT_QUERY_GONE,
    TRAINING_HEALTHY,
)
from faultline.analysis.kinds.signals import SignalClass, classify, parts_of
from faultline.analysis.metrics.alert_evaluation import Truth, alert_evaluation
from faultline.analysis.metrics.alert_history import FLAPPING, STOPPED
from faultline.analysis.metrics.alert_threshold import read_threshold, signal_points
from faultline.analysis.metrics.recovery import PERSISTS, AlertState
from faultline.analysis.metrics.series import labels_of
from faultline.analysis.ranking.alert_gate import AlertGate, GateState
from faultline.analysis.ranking.missing_evidence import (
    comparable,
    has_service_rows,
    missing_evidence,
    unshown,
)
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.vocabulary import Cause, Finding, Verdict

NAMED_FROM = 0.4
"""From here on a cause is named. Between .33 and .40 the first cause was right in 3 of 12 simulated
worlds of the training stream, three of which had no culprit to name, and in 2 of 2 recordings; of
216 healthy windows none lies there."""
NOBODY_STANDS_OUT = "No suspect is likely enough to be named as the cause."
WEAK = 0.25
"""Below this score the first suspect cannot be distinguished from noise."""
QUIET = 0.75
"""Confidence in "nothing is wrong" when the alerting signal itself was seen; half of it
otherwise."""
EXPLAINED = 0.85
"""And when the alert's own past says why it fired: its monitor flaps, or its threshold is in the
normal range."""
SURE = 0.6
"""Of an alert that names no service, while no front door is seen out of its past, a cause is named
from this confidence on. With .7, before the last fit, 55 of 86 healthy stretches of two recorded
systems whose alerts name none were given a cause without it, and 24 with it. The new weights say
less: of 21 right answers about one of these systems .7 withholds ten, .6 four and .55 two. The
healthy stretches were not counted again."""
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
ENDED = "end_state"
_CLOSED = frozenset(
    {
        "scaled_to_zero",
        "selector_matches_nothing",
        "port_not_served",
        "route_to_nothing",
        "traffic_blocked",
        "certificate_expired",
        "no_ready_endpoints",
        "database_storage_full",
        "database_unavailable",
    }
)
"""Facts by which no request arrives at a service, or a database serves none. RDS stops an instance
whose storage is full (RDS user guide, "Viewing Amazon RDS DB instance status"), and a disk that
fills up evenly never leaves its trend."""
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


@dataclass(frozen=True)
class _Evidence:
    """What the rules ask for; each answer is read when the first rule asks."""

    case: Case
    causes: Sequence[Cause]
    findings: Sequence[Finding]
    state: AlertState
    top: float
    gate: AlertGate

    @cached_property
    def compared(self) -> set[str]:
        """The tables that hold something to compare with normal."""
        compared = set(comparable(self.case))
        # Traces need no baseline: their ranks are compared with each other.
        if self.case.trace_files and self.findings:
            compared.add("traces")
        return compared

    @cached_property
    def missing(self) -> tuple[str, ...]:
        return missing_evidence(self.case, self.compared, self.findings, self.causes)

    @cached_property
    def kinds(self) -> frozenset[str]:
        return frozenset(finding.kind for finding in self.findings)

    @property
    def is_strong(self) -> bool:
        """Whether the first cause stands out from noise."""
        return self.top >= WEAK and bool(self.causes)

    @property
    def stayed(self) -> bool:
        """Whether the alerting signal stayed in its normal range, or within its noise."""
        return self.state.never_left or self.gate.is_calm

    @cached_property
    def is_real(self) -> bool:
        """What the alert observed happened, even where the alerting signal did not leave its
        baseline."""
        if self.gate.state is GateState.OUT or _really_out(self.case) or self.recurs:
            return True
        if self.is_cut_off:
            return True
        return self.stayed and _real_below(self.case, self.findings, self.state)

    @cached_property
    def recurs(self) -> bool:
        """The alert's own query was true when an instance of the service, or of one that it calls,
        ended badly. A leak that kills every half hour is no noise, however often it did before."""
        evaluation, alerting = alert_evaluation(self.case), self.case.alert.service
        if evaluation is None or evaluation.truth not in (Truth.TRUE, Truth.OVER) or not alerting:
            return False
        topology = read_topology(self.case)
        reached = {alerting, *topology.downstream(alerting)}
        for finding in self.findings:
            ended = finding.kind == ENDED and finding.strength >= DISPUTED
            is_new = finding.onset is not None and finding.onset >= self.case.scope.incident.start
            # Without known calls, any service may be one that it calls.
            if ended and is_new and (finding.subject in reached or len(reached) == 1):
                return True
        return False

    @cached_property
    def is_cut_off(self) -> bool:
        """Nothing reaches the alerting service since the incident, or it serves nothing, by what
        its objects show. Requests that never arrive fail in none of its metrics."""
        for finding in self.findings:
            state = StateFactDetails.of(finding)
            if state is None or finding.onset is None or self.case.alert.service is None:
                continue
            is_closed = state.fact in _CLOSED or (
                state.fact == "replicas_missing" and state.value == "0"
            )
            is_new = finding.onset >= self.case.scope.incident.start
            if is_closed and is_new and finding.subject == self.case.alert.service:
                return True
        return False

    @cached_property
    def is_unseen(self) -> bool:
        """The alerting signal stopped, or the series does not show what the alert observed."""
        if STOPPED in self.kinds or ALERT_QUERY_GONE.name in self.kinds:
            return True
        return unshown(self.case) is not None or self.is_unasked

    @property
    def is_unasked(self) -> bool:
        """What the alert watches is in no table: its query could not be evaluated, and no series
        that was collected is its signal."""
        if self.case.alert.query is None or self.state.comparable:
            return False
        return alert_evaluation(self.case) is None

    def blames_any_service(self) -> bool:
        """The alert names no service, and the first cause may be any service's trouble."""
        return self.gate.names_nothing and _is_doubtful(self.case, self.causes, self.findings)

    def compares_nothing(self) -> bool:
        """Nothing could be compared with a baseline, and no cause is clear."""
        return not self.compared and not self.is_strong

    def only_flaps(self) -> bool:
        """The monitor flaps, the alerting signal is where it was or is not known, and no clear
        symptom is left."""
        state = self.state
        if FLAPPING not in self.kinds or state.persisting:
            return False
        if state.findings and not (state.never_left or state.recovered):
            return False
        # Whether something is clearly wrong although the monitor flaps.
        disputed = any(_contradicts_calm(finding, state) for finding in self.findings)
        return not disputed and not _really_out(self.case)

    def is_usual_alert(self) -> bool:
        """The alert's own query was as true on most earlier days, users did not notice then, and
        nothing else is clearly wrong now."""
        often = next((f for f in self.findings if f.kind == ALERT_OFTEN_TRUE.name), None)
        if often is None:
            return False
        details = AlertHistoryDetails.of(often)
        if details is not None and details.days_felt:
            return False
        alert = self.case.alert
        for finding in self.findings:
            # Of the alerting signal itself the earlier days have told.
            is_alerting = (finding.subject, finding.signal) == (alert.service, alert.signal)
            if not is_alerting and _contradicts_calm(finding, self.state):
                return False
        return not _really_out(self.case)

    def is_over(self) -> bool:
        """The alerting signal clearly left its baseline, or a cause is clear, and it is back."""
        if not self.causes or not self.state.recovered:
            return False
        # Of many pods one moves by chance, and comes back.
        return self.is_strong or any(
            finding.strength >= PERSISTS
            and not parts_of(labels_of(finding.series.get("labels", "")))
            for finding in self.state.findings
        )

    def is_calm(self) -> bool:
        """The alerting signal stayed in its normal range, and there is no evidence against that."""
        return self.stayed and not self.is_real and not self.is_unseen

    def is_calm_and_explained(self) -> bool:
        """The alert's own past says why it fired."""
        return self.is_calm() and any(finding_kind(kind).explains_alert for kind in self.kinds)

    def has_cause(self) -> bool:
        """A cause stands out from noise, or it is the only explanation of a real alert."""
        return bool(self.causes) and (self.is_strong or self.is_real)

    def has_no_cause(self) -> bool:
        """The alert is real, or its signal cannot be seen, and no cause stands out from noise."""
        return self.is_real or self.is_unseen

    def is_silent(self) -> bool:
        """Silence means that nothing is wrong: no gap, and the alert's own signal and service are
        in the tables."""
        state = self.state
        # A healthy trace of the job itself outweighs tables that are missing.
        if HEALTHY in self.kinds and not state.findings:
            return True
        if self.case.lost or "metrics" not in self.compared:
            return False
        if self.case.alert.signal and not state.comparable:
            return False
        if self.is_unasked or self.gate.state is GateState.OUT:
            return False
        if state.findings and not state.recovered:
            return False
        return has_service_rows(self.case)


@dataclass(frozen=True)
class _Rule:
    """What is concluded where the condition holds; a confidence of None is the first cause's."""

    holds: Callable[[_Evidence], bool]
    verdict: Verdict
    confidence: float | None = 0.0
    missing: tuple[str, ...] = ()
    """What is missing by this rule, before what every verdict of insufficient evidence names."""


_RULES = (
    _Rule(_Evidence.blames_any_service, Verdict.INSUFFICIENT_EVIDENCE, missing=(NAMES_NOTHING,)),
    _Rule(_Evidence.compares_nothing, Verdict.INSUFFICIENT_EVIDENCE),
    _Rule(_Evidence.only_flaps, Verdict.NO_ACTIVE_INCIDENT, EXPLAINED),
    _Rule(_Evidence.is_usual_alert, Verdict.NO_ACTIVE_INCIDENT, EXPLAINED),
    _Rule(_Evidence.is_over, Verdict.RECOVERED, None),
    _Rule(_Evidence.is_calm_and_explained, Verdict.NO_ACTIVE_INCIDENT, EXPLAINED),
    _Rule(_Evidence.is_calm, Verdict.NO_ACTIVE_INCIDENT, QUIET),
    _Rule(_Evidence.has_cause, Verdict.CAUSE_FOUND, None),
    _Rule(_Evidence.has_no_cause, Verdict.INSUFFICIENT_EVIDENCE),
    _Rule(_Evidence.is_silent, Verdict.NO_ACTIVE_INCIDENT, QUIET / 2),
)
"""The first that holds decides."""


def conclude(
    case: Case,
    causes: Sequence[Cause],
    findings: Sequence[Finding],
    state: AlertState,
    top: float,
    gate: AlertGate = UNKNOWN_GATE,
) -> Conclusion:
    """The verdict by the rules above; `top` is the first suspect's score."""
    evidence = _Evidence(case, causes, findings, state, top, gate)
    for rule in _RULES:
        if not rule.holds(evidence):
            continue
        if rule.verdict is Verdict.INSUFFICIENT_EVIDENCE:
            return Conclusion(rule.verdict, 0.0, (*rule.missing, *evidence.missing))
        confidence = causes[0].confidence if rule.confidence is None else rule.confidence
        if rule.verdict is Verdict.CAUSE_FOUND and confidence < NAMED_FROM:
            return Conclusion(
                Verdict.INSUFFICIENT_EVIDENCE, 0.0, (NOBODY_STANDS_OUT, *evidence.missing)
            )
        return Conclusion(rule.verdict, confidence)
    return Conclusion(Verdict.INSUFFICIENT_EVIDENCE, 0.0, evidence.missing)


def _is_doubtful(case: Case, causes: Sequence[Cause], findings: Sequence[Finding]) -> bool:
    """Whether the first cause may be any service's trouble. A training job's is the job's."""
    if not causes:
        return False
    first = causes[0]
    # Confidence is about the first cause, so only what it cites can make it doubtful.
    cited = [finding for finding in findings if finding.id in first.findings]
    of_job = case.alert.job is not None or bool(case.trace_files)
    if of_job or any(is_training(finding) for finding in cited):
        return False
    if first.confidence < SURE:
        return True
    by_metrics_alone = all(finding_kind(finding.kind).tables == ("metrics",) for finding in cited)
    # Spans and logs name who fails; a metric that moved may be anybody's.
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
    # The alerting service cannot corroborate itself.
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
    # Availability is worse when it falls.
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


# How sure the answer is: the ranking's own probability, capped where the evidence cannot carry
# more.
#
# The probability was calibrated on answers of systems that were left out of the fit, among them
# ones whose cause was not to be seen (`benchmarks/suspect_weights.py`).

LOWEST, HIGHEST = 0.05, 0.95
"""No answer is certain, and none that is given is impossible."""
GAP_IN_METRICS = 0.5
"""Never more than this when the metrics, which would confirm or refute, could not be collected."""
PRESUMED_PATH = 0.85
"""Nor than this when nobody recorded the calls that lead from the alert to the cause: then the
answer says "probably". Where calls are unknown, 20 of 28 incidents of the plain rig's seeds 11 and
13 were answered right."""
SYMPTOMS_ONLY, SYMPTOMS_GONE = 0.6, 0.35
"""Nor than this when only the alerting service's own symptoms were seen, still there or gone: the
cause may be out of sight (our choice)."""


@dataclass(frozen=True)
class FirstSuspectStanding:
    """How the first suspect stands."""

    probability: float
    """Beside all other suspects and what was not seen."""
    symptoms_only: bool = False
    """It shows what the alert says already, and nothing that would tell why."""
    gone: bool = False
    """All that speaks for it is back to its baseline."""
    presumed_path: bool = False
    """The alerting service is not known to reach it by calls; that it does is presumed."""


def confidence_of(standing: FirstSuspectStanding, *, metrics_missing: bool = False) -> float:
    """The chance in [0.05, 0.95] that the first cause is the right one."""
    chance = min(HIGHEST, max(LOWEST, standing.probability))
    if standing.symptoms_only:
        chance = min(chance, SYMPTOMS_GONE if standing.gone else SYMPTOMS_ONLY)
    if standing.presumed_path:
        chance = min(chance, PRESUMED_PATH)
    return round(min(chance, GAP_IN_METRICS) if metrics_missing else chance, 3)
