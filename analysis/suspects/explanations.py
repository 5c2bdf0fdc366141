"""What each service's findings say about it: its own fault, or a symptom that a callee explains.

Own trouble (resources, lost time on the calls into it, its own time, a straggling rank) speaks for
a service by itself. A symptom (latency, errors, availability, broken request paths) travels from
callee to caller, so it speaks for a service only as far as no service it calls explains it. The
weights were set on recorded fault cases.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from analysis.analyzers import fault_kind, fault_of, is_training
from analysis.kinds.fault_kinds import FaultKind
from analysis.kinds.finding_details import JobDetails
from analysis.kinds.signals import SignalClass, classify
from analysis.logs.templates import UNKNOWN_SERVICE
from analysis.metrics.explained_share import Measured
from analysis.metrics.shifts import KIND as METRIC_SHIFT
from analysis.requests.front_doors import front_doors
from analysis.requests.topology import Topology, topology_of
from analysis.suspects.victims import (
    discount_load,
    discount_not_propagated,
    discount_symptoms,
    later,
    onset_of,
)
from analysis.vocabulary import Alert, Finding

CLEAR_STRAGGLER = 0.25
"""A rank that holds up the others, when at least this clear, is the root: their waits, and the
job's slow steps, are its effect."""
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
"""Each is held against all that it calls. An incident in more services than this is told by its
loudest."""


@dataclass
class Suspect:
    """One service with what speaks for it; scores are in [0, 1]."""

    subject: str
    score: float = 0.0
    raw_scores: dict[str, float] = field(default_factory=dict)
    """By the name of a fault, what its findings alone say."""
    scores: dict[str, float] = field(default_factory=dict)
    """The same, less what other suspects explain."""
    findings: list[Finding] = field(default_factory=list)
    explained_by: str | None = None
    onset: datetime | None = None

    @property
    def is_root(self) -> bool:
        """Whether it comes first whatever the others score: it clearly holds up all other ranks."""
        if not self.is_rank:
            return False
        holding = [score for name, score in self.raw_scores.items() if fault_kind(name).holds_up]
        return max(holding, default=0.0) >= CLEAR_STRAGGLER

    @property
    def is_rank(self) -> bool:
        """Whether it is one rank of a training job."""
        return self.subject.startswith("rank ")

    @property
    def main_fault(self) -> str:
        """The name of the fault that speaks most for it."""
        return max(sorted(self.scores), key=lambda name: self.scores[name], default="other")


def weigh_suspects(
    findings: Sequence[Finding], topology: Topology, alert: Alert, known: Measured | None = None
) -> list[Suspect]:
    """All services with a bad finding, the likeliest culprit first. Deterministic: ties by name."""
    known = known or Measured()
    wanted = classify(alert.signal) if alert.signal else None
    largest = _largest_moves(findings)
    doors = front_doors(topology)
    names = doors | rank_names(findings)
    topology = (
        topology_of((doors.get(a, a), doors.get(b, b)) for a, b in topology.edges)
        if doors
        else topology
    )
    loud = _loudest(_by_subject(findings, names), {alert.service, doors.get(alert.service or "")})
    suspects = {s: _suspect(s, own, wanted, largest) for s, own in loud.items()}
    own = {subject: _own_score(suspect) for subject, suspect in suspects.items()}
    services = topology.services
    reach = (
        topology.downstream(alert.service) if alert.service in services and alert.service else {}
    )
    discount_not_propagated(suspects, topology, known, alert)
    discount_symptoms(suspects, own, topology, known)
    for suspect in suspects.values():
        discount_load(suspect, suspects, topology)
        suspect.score = _joined(suspect.scores.values())
        if reach and suspect.subject not in reach and suspect.subject in services:
            suspect.score *= ELSEWHERE
        if services and suspect.subject not in services:
            suspect.score *= IDLE
        suspect.onset = onset_of(suspect.findings)
    _prefer_the_earliest(list(suspects.values()))
    return sorted(suspects.values(), key=lambda s: (not s.is_root, -round(s.score, 6), s.subject))


def _by_subject(findings: Iterable[Finding], names: Mapping[str, str]) -> dict[str, list[Finding]]:
    out: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.subject != UNKNOWN_SERVICE and fault_of(finding) is not None:
            out[names.get(finding.subject, finding.subject)].append(finding)
    return {s: out[s] for s in sorted(out)}


def _loudest(
    by_subject: dict[str, list[Finding]], always: Container[str | None]
) -> dict[str, list[Finding]]:
    """The subjects with the strongest findings, and those that are `always` weighed."""
    if len(by_subject) <= MAX_SUSPECTS:
        return by_subject
    ordered = sorted(by_subject, key=lambda s: (-_joined(f.strength for f in by_subject[s]), s))
    kept = {*ordered[:MAX_SUSPECTS], *(s for s in by_subject if s in always)}
    return {s: own for s, own in by_subject.items() if s in kept}


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
        jobs = (alert.service, alert.job, details.job if details else None)
        edges |= {(job, finding.subject) for job in jobs if job and job != finding.subject}
        if fault_kind(finding.kind).holds_up and finding.subject.startswith("rank "):
            edges |= {(rank, finding.subject) for rank in names.values() if rank != finding.subject}
    return topology_of(sorted(edges)) if edges != set(topology.edges) else topology


def _largest_moves(findings: Iterable[Finding]) -> dict[str, float]:
    """Per signal of a resource or of availability the largest move of any service.

    A small move of a resource beside it is the load, not the cause. Failures thin out from callee
    to caller, which answers other requests too.
    """
    moves: dict[str, float] = {}
    for finding in findings:
        fault = fault_of(finding)
        if finding.kind == METRIC_SHIFT and fault is not None and fault.sized_by_move:
            signal = finding.signal or ""
            moves[signal] = max(moves.get(signal, 0.0), _move(finding))
    return moves


def _move(finding: Finding) -> float:
    return abs(finding.numbers.get("incident", 0.0) - finding.numbers.get("baseline", 0.0))


def _suspect(
    subject: str, findings: list[Finding], wanted: SignalClass | None, largest: dict[str, float]
) -> Suspect:
    suspect = Suspect(
        subject,
        findings=sorted(findings, key=lambda f: (-f.strength, f.kind, f.signal or "", f.sentence)),
    )
    grouped: dict[str, list[float]] = defaultdict(list)
    for finding in suspect.findings:
        fault = fault_of(finding)
        if fault is None:
            continue
        strength = finding.strength * _relevance(finding, fault, wanted)
        signal = finding.signal or ""
        if fault.sized_by_move and largest.get(signal):
            strength *= math.sqrt(_move(finding) / largest[signal])
        grouped[fault.name].append(strength)
    for name, strengths in grouped.items():
        together = _joined([0.9 * max(strengths), 0.1 * _joined(strengths)])
        suspect.raw_scores[name] = fault_kind(name).weight * together
    suspect.scores = dict(suspect.raw_scores)
    return suspect


def _own_score(suspect: Suspect) -> float:
    """What speaks for the faults that it has by itself."""
    return _joined(v for name, v in suspect.scores.items() if fault_kind(name).own)


def _relevance(finding: Finding, fault: FaultKind, wanted: SignalClass | None) -> float:
    """What the finding keeps: less once it has recovered, or where alerts of its class differ."""
    factor = RECOVERED if finding.details.recovered else 1.0
    if wanted is SignalClass.LATENCY and fault.alerts_as == "failures":
        factor *= OTHER_CLASS
    failing = wanted in (SignalClass.ERRORS, SignalClass.AVAILABILITY)
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
    for p in parts:
        left *= 1.0 - min(max(p, 0.0), 0.999)
    return 1.0 - left
