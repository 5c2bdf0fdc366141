"""What each service's findings say about it: its own fault, or a symptom that a callee explains.

Its own faults (resources, lost time on the calls into it, its own time, a straggling rank) speak
for a service by themselves. A symptom (latency, errors, availability, broken request paths) travels
from callee to caller, so it speaks for a service only if no service that it calls explains it.
The weights were set on recorded fault cases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from faultline.analysis.alert_signal.deriving import watched_signal
from faultline.analysis.analyzers import fault_kind, fault_of, is_training
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.fault_kinds import FaultKind
from faultline.analysis.kinds.finding_details import JobDetails, MetricShiftDetails
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.logs.templates import UNKNOWN_SERVICE
from faultline.analysis.metrics.explained_share import FAILING, Measured
from faultline.analysis.metrics.shift_statistics import Floats, Ints
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.requests.topology import Topology, front_doors, topology_of
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.suspects.victims import (
    discount_load,
    discount_not_propagated,
    discount_symptoms,
    later,
    onset_of,
)
from faultline.analysis.vocabulary import Alert, Finding

ELSEWHERE = 0.6
"""A service that the alerting service does not reach by calls."""
IDLE = 0.5
"""A service that takes no part in any known call."""
OTHER_CLASS = 0.6
"""A symptom of another class than the alert's: slow where the alert says failing, or the
reverse."""
RECOVERED = 0.7
LATER = 0.85
"""A suspect whose fault began after another's, by more than the uncertainty of both, keeps this
much."""

MAX_SUSPECTS = 300
"""Each is compared with all that it calls. Of an incident in more services than this, only the
loudest are weighed."""


def weigh_suspects(
    findings: Sequence[Finding], topology: Topology, alert: Alert, measures: Measured | None = None
) -> list[Suspect]:
    """All services with a bad finding, the likeliest culprit first. Deterministic: ties by name."""
    measures = measures or Measured()
    doors = front_doors(topology)
    names = doors | rank_names(findings)
    if doors:
        # An endpoint that only callers see stands for the service behind it, here as in findings.
        edges = [(doors.get(a, a), doors.get(b, b)) for a, b in topology.edges]
        topology = topology_of(edges)
    always = {alert.service, doors.get(alert.service or "")}
    out: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.subject != UNKNOWN_SERVICE and fault_of(finding) is not None:
            out[names.get(finding.subject, finding.subject)].append(finding)
    loud = _loudest(dict(sorted(out.items())), always)
    suspects = _suspects(loud, findings, alert)
    inherent_scores = {}
    for subject, suspect in suspects.items():
        inherent = [score for name, score in suspect.scores.items() if fault_kind(name).inherent]
        inherent_scores[subject] = _joined(inherent)
    discount_not_propagated(suspects, topology, measures, alert)
    discount_symptoms(suspects, inherent_scores, topology, measures)
    discount_load(suspects, topology)
    for suspect in suspects.values():
        suspect.score = _joined(suspect.scores.values())
        suspect.score *= _place_factor(suspect.subject, topology, alert)
        suspect.onset = onset_of(suspect.findings)
    _prefer_the_earliest(list(suspects.values()))
    # Rounded, so that the last bit of a float does not decide the order.
    return sorted(suspects.values(), key=lambda s: (not s.is_root, -round(s.score, 6), s.subject))


def _suspects(
    by_subject: Mapping[str, list[Finding]], findings: Iterable[Finding], alert: Alert
) -> dict[str, Suspect]:
    requested_classify = classify(alert.signal) if alert.signal else None
    # Per signal of a resource or of availability the largest move of any service. A small move of a
    # resource beside it is the load, not the cause. Failures thin out from callee to caller, which
    # answers other requests too.
    largest: dict[str, float] = {}
    for finding in findings:
        fault = fault_of(finding)
        if finding.kind == METRIC_SHIFT and fault is not None and fault.sized_by_move:
            signal = finding.signal or ""
            largest[signal] = max(largest.get(signal, 0.0), _move(finding))
    suspects = {}
    for subject, subject_findings in by_subject.items():
        suspects[subject] = _suspect(subject, subject_findings, requested_classify, largest)
    return suspects


def _place_factor(subject: str, topology: Topology, alert: Alert) -> float:
    """What a service keeps by its place in the graph of calls; all of it where that is unknown."""
    if alert.service and alert.service not in topology.services:
        return 1.0
    if topology.services and subject not in topology.services:
        return IDLE
    if not alert.service:
        return 1.0
    return 1.0 if subject in topology.downstream(alert.service) else ELSEWHERE


def _loudest(
    by_subject: dict[str, list[Finding]], always: Container[str | None]
) -> dict[str, list[Finding]]:
    """The subjects with the strongest findings, and those that are `always` weighed."""
    if len(by_subject) <= MAX_SUSPECTS:
        return by_subject
    loudness = {}
    for subject, findings in by_subject.items():
        loudness[subject] = _joined(finding.strength for finding in findings)
    ordered = sorted(by_subject, key=lambda subject: (-loudness[subject], subject))
    selection = set(ordered[:MAX_SUSPECTS])
    selection.update(subject for subject in by_subject if subject in always)
    return {subject: findings for subject, findings in by_subject.items() if subject in selection}


def rank_names(findings: Iterable[Finding]) -> dict[str, str]:
    """The series of one rank, `job/rank 2`, belong to what its traces call `rank 2`."""
    names: dict[str, str] = {}
    for finding in findings:
        details = JobDetails.of(finding)
        if details is None or not details.job or not is_training(finding):
            continue
        for rank in details.ranks:
            names[f"{details.job}/rank {rank}"] = f"rank {rank}"
    return names


def with_ranks(topology: Topology, findings: Sequence[Finding], alert: Alert) -> Topology:
    """The graph with each rank below its job, as a callee, and a straggler below all other ranks,
    which wait for it."""
    names = rank_names(findings)
    edges = {(names.get(a, a), names.get(b, b)) for a, b in topology.edges}
    for finding in findings:
        if not is_training(finding):
            continue
        details = JobDetails.of(finding)
        callers = [alert.service, alert.job, details.job if details else None]
        if fault_kind(finding.kind).delays_peers and finding.subject.startswith("rank "):
            callers += names.values()
        for caller in callers:
            if caller and caller != finding.subject:
                edges.add((caller, finding.subject))
    return topology_of(sorted(edges)) if edges != set(topology.edges) else topology


def _move(finding: Finding) -> float:
    return abs(finding.numbers.get("incident", 0.0) - finding.numbers.get("baseline", 0.0))


def _suspect(
    subject: str,
    findings: list[Finding],
    alert_class: SignalClass | None,
    largest: dict[str, float],
) -> Suspect:
    ordered = sorted(findings, key=lambda f: (-f.strength, f.kind, f.signal or "", f.sentence))
    suspect = Suspect(subject, findings=ordered)
    grouped: dict[str, list[float]] = defaultdict(list)
    for finding in suspect.findings:
        fault = fault_of(finding)
        if fault is None:
            continue
        strength = finding.strength * _relevance(finding, fault, alert_class)
        signal = finding.signal or ""
        if fault.sized_by_move and largest.get(signal):
            # The root keeps a small move of one service in sight beside a large one of another.
            strength *= math.sqrt(_move(finding) / largest[signal])
        grouped[fault.name].append(strength)
    for name, strengths in grouped.items():
        # The strongest counts most: many weak findings must not add up to a clear one.
        together = _joined([0.9 * max(strengths), 0.1 * _joined(strengths)])
        suspect.raw_scores[name] = fault_kind(name).weight * together
    suspect.scores = dict(suspect.raw_scores)
    return suspect


def _relevance(finding: Finding, fault: FaultKind, alert_class: SignalClass | None) -> float:
    """What the finding keeps: less once it has recovered, where alerts of its class differ, or
    where it does not go with the alert in time."""
    factor = RECOVERED if finding.details.recovered else 1.0
    shift = MetricShiftDetails.of(finding)
    if shift is not None and shift.agreement is not None:
        factor *= shift.agreement
    if alert_class is SignalClass.LATENCY and fault.alerts_as == "failures":
        factor *= OTHER_CLASS
    failing = alert_class in (SignalClass.ERRORS, SignalClass.AVAILABILITY)
    if failing and fault.alerts_as == "latency":
        factor *= OTHER_CLASS
    return factor


def _prefer_the_earliest(suspects: Sequence[Suspect]) -> None:
    strong = [s for s in suspects if s.onset is not None and s.score >= 0.3]
    if not strong:
        return
    first = min(strong, key=lambda s: (s.onset, s.subject))
    for suspect in strong:
        if later(suspect.findings, first.findings):
            suspect.score *= LATER


def _joined(parts: Iterable[float]) -> float:
    """Noisy-or: 1 - product of (1 - p)."""
    left = 1.0
    for part in parts:
        # Nothing is certain: a part of 1 would make all others count for nothing.
        left *= 1.0 - min(max(part, 0.0), 0.999)
    return 1.0 - left


# When the alert was bad, and how far another series was bad at the same times.
#
# What was bad already, or is bad still, while the alert is calm does not explain it.

LEAST_SIGMAS = 2.0
"""An alerting signal that never left two sigmas has no course in time to compare with."""
LEAST_POINTS = 3
LEAST_AGREEMENT = 0.05
"""Clocks, lags and steps differ: disagreement in time alone rules nobody out."""
CALM_POINTS = 0.5
"""Without so much calm nothing can be said about what was bad while the alert was calm."""
LAGS = (-1, 0, 1)
SYMPTOM_CLASSES = frozenset({SignalClass.LATENCY}) | FAILING


@dataclass(frozen=True)
class AlertCurve:
    """How bad the alerting signal is at its times (ns), in [0, 1] of its worst."""

    times: Ints
    badness: Floats
    deviation: Deviation

    @cached_property
    def _step(self) -> int:
        return _step(self.times)

    def agreement(self, other: Deviation) -> float:
        """In [0.05, 1]: how far the series is bad while the alert is, less how far it is while the
        alert is calm.

        The best of one step earlier, none and one step later is taken.
        """
        inside = (other.times >= self.times[0]) & (other.times <= self.times[-1])
        times = other.times[inside]
        badness = np.clip(other.badness[inside], 0.0, None)
        if len(times) < LEAST_POINTS:
            # So coarse a series has no course in time.
            return 0.3
        worst = float(np.max(badness))
        if worst <= 0:
            return LEAST_AGREEMENT
        share = badness / worst
        step = max(self._step, _step(times))
        top_agreement = max(self._lagged(times + lag * step, share) for lag in LAGS)
        return float(np.clip(top_agreement, LEAST_AGREEMENT, 1.0))

    def _lagged(self, times: Ints, share: Floats) -> float:
        at = np.clip(np.searchsorted(self.times, times, side="right") - 1, 0, len(self.badness) - 1)
        bad = self.badness[at]
        calm = 1.0 - bad
        if bad.sum() <= 0:
            # The alert is never bad at these times, so nothing can agree with it.
            return 0.0
        while_bad = float((bad * share).sum() / bad.sum())
        if calm.sum() < CALM_POINTS:
            return while_bad
        return while_bad - float((calm * share).sum() / calm.sum())


def _step(times: Ints) -> int:
    return int(np.median(np.diff(times))) if len(times) > 1 else 0


def alerting_service(alert: Alert, services: Iterable[str]) -> str | None:
    """The service that the alert names, else the one of the known ones whose name is in its
    title."""
    if alert.service:
        return alert.service
    # Punctuation of titles sticks to the words.
    words = {word.strip(".,:;()[]'\"") for word in alert.title.split()}
    named = sorted((name for name in services if name in words), key=lambda n: (-len(n), n))
    return named[0] if named else None


def alerting_series(
    alert: Alert, service: str | None, deviations: Sequence[Deviation]
) -> Deviation | None:
    """The series that alerts: by its name, else the one of its service that is most out of its
    noise and of the class that the alert speaks of. None where there is none."""
    matching_deviations = [
        deviation
        for deviation in deviations
        if service is not None and deviation.service == service
    ]
    named = [
        matching_deviation
        for matching_deviation in matching_deviations
        if alert.signal and matching_deviation.signal == alert.signal
    ]
    classes = signal_classes(alert)
    alike = named or [
        matching_deviation
        for matching_deviation in matching_deviations
        if matching_deviation.signal_class in classes
    ]
    return max(alike, key=lambda deviation: (deviation.excess, deviation.signal), default=None)


def signal_classes(alert: Alert) -> frozenset[SignalClass]:
    """What the alert may be about: its signal, else what its rule or its words say, else any
    symptom."""
    if alert.signal:
        signal_class = classify(alert.signal)
    else:
        signal_class = (alert.watches or watched_signal(alert)).signal_class
    if signal_class in FAILING:
        return FAILING
    unknown = signal_class is SignalClass.OTHER and not alert.signal
    return SYMPTOM_CLASSES if unknown else frozenset({signal_class})


def alert_curve(case: Case, alerting: Deviation | None) -> AlertCurve | None:
    """The alerting signal over the incident and as long before it; None where it has no course in
    time."""
    if alerting is None:
        return None
    start = int(case.scope.incident.start.timestamp() * 1e9)
    end = int(case.scope.incident.end.timestamp() * 1e9)
    # Take as much time before it as it lasts, so that calm and trouble weigh alike.
    inside = (alerting.times >= 2 * start - end) & (alerting.times <= end)
    badness = alerting.badness[inside]
    if len(badness) < LEAST_POINTS or float(np.max(badness)) <= LEAST_SIGMAS:
        return None
    shares = np.clip(badness / float(np.max(badness)), 0.0, 1.0)
    return AlertCurve(alerting.times[inside], shares, alerting)
