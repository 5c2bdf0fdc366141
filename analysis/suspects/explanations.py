"""What each service's findings say about it: a culprit's own trouble, or a victim's symptom
explained by a callee.

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

from analysis.logs.signature_findings import KIND as SIGNATURE
from analysis.logs.templates import NEW, SURGE, UNKNOWN_SERVICE, VANISHED
from analysis.metrics.explained_share import Measured
from analysis.metrics.shifts import KIND as METRIC_SHIFT
from analysis.metrics.shifts import shift_class
from analysis.metrics.signals import RESOURCES, SYMPTOMS, SignalClass, classify, is_headroom
from analysis.requests.call_patterns import FAN_OUT, RETRIES, UNREACHED
from analysis.requests.critical_path import KIND as CRITICAL_PATH
from analysis.requests.error_origin import KIND as ERROR_ORIGIN
from analysis.requests.flow import KIND as FLOW_BREAK
from analysis.requests.front_doors import front_doors
from analysis.requests.span_shifts import ERRORS as SPAN_ERRORS
from analysis.requests.span_shifts import GAP, OWN_TIME
from analysis.requests.topology import Topology, topology_of
from analysis.suspects.training_causes import TRAINING_CAUSES
from analysis.suspects.victims import (
    discount_load,
    discount_symptoms,
    discount_unfelt,
    later,
    onset_of,
)
from analysis.vocabulary import Alert, Finding

WEIGHTS = {
    "resource": 0.9,
    "network": 0.85,
    "own_time": 0.6,
    "flow_break": 0.9,
    "critical_path": 0.5,
    "error_origin": 0.7,
    "fan_out": 0.5,
    "log_errors": 0.75,
    "log_flow": 0.45,
    "span_errors": 0.6,
    "latency": 0.6,
    "errors": 0.6,
    "availability": 0.6,
    "restarts": 0.7,
    "queue": 0.45,
    "traffic": 0.3,
    "other": 0.3,
} | {kind: cause.weight for kind, cause in TRAINING_CAUSES.items()}
"""How far one kind of trouble at full strength speaks for a service, of 1."""
TRAINING = frozenset(TRAINING_CAUSES)
"""Kinds of findings from what a training job left; each is a kind of trouble by its own name."""
HOLDS_UP = frozenset(kind for kind, cause in TRAINING_CAUSES.items() if cause.held_up)
CLEAR_STRAGGLER = 0.25
"""A rank that holds up the others, when at least this clear, leads: their waits, and the job's slow
steps, are its effect."""
OWN = (
    frozenset(
        {
            "resource",
            "network",
            "own_time",
            "flow_break",
            "critical_path",
            "error_origin",
            "fan_out",
        }
    )
    | TRAINING
)
"""What a service has by itself, and its callers near and far then feel."""
ELSEWHERE = 0.6
"""A service that the alerting service does not reach by calls."""
IDLE = 0.5
"""A service that takes no part in any known call."""
OTHER_CLASS = 0.6
"""A symptom of another class than the alert's: slow where the alert says failing, or the
reverse."""
RECOVERED = 0.7
LATER = 0.85
"""A suspect whose trouble began after another's, by more than the uncertainty of both, keeps this
much."""

MAX_SUSPECTS = 300
"""Each is held against all that it calls. An incident in more services than this is told by its
loudest."""


@dataclass
class Suspect:
    """One service: its score in [0, 1], its trouble by kind (`felt`, and less what others explain),
    its onset."""

    subject: str
    score: float = 0.0
    felt: dict[str, float] = field(default_factory=dict)
    trouble: dict[str, float] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    explained_by: str | None = None
    onset: datetime | None = None

    @property
    def leads(self) -> bool:
        """Whether it comes first whatever the others' scores: it clearly holds up all other
        ranks."""
        return (
            self.is_rank
            and max((self.felt.get(kind, 0.0) for kind in HOLDS_UP), default=0.0) >= CLEAR_STRAGGLER
        )

    @property
    def is_rank(self) -> bool:
        """Whether it is one rank of a training job."""
        return self.subject.startswith("rank ")

    @property
    def main_trouble(self) -> str:
        """The kind of trouble that speaks most for it."""
        return max(sorted(self.trouble), key=lambda k: self.trouble[k], default="other")


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
    own = {s: _joined(v for k, v in x.trouble.items() if k in OWN) for s, x in suspects.items()}
    services = topology.services
    reach = (
        topology.downstream(alert.service) if alert.service in services and alert.service else {}
    )
    discount_unfelt(suspects, topology, known, alert)
    discount_symptoms(suspects, own, topology, known)
    for suspect in suspects.values():
        discount_load(suspect, suspects, topology)
        suspect.score = _joined(suspect.trouble.values())
        if reach and suspect.subject not in reach and suspect.subject in services:
            suspect.score *= ELSEWHERE
        if services and suspect.subject not in services:
            suspect.score *= IDLE
        suspect.onset = onset_of(suspect.findings)
    _prefer_the_earliest(list(suspects.values()))
    return sorted(suspects.values(), key=lambda s: (not s.leads, -round(s.score, 6), s.subject))


def trouble_of(finding: Finding) -> str | None:
    """The kind of trouble a finding speaks of; None when it speaks for nobody."""
    if finding.kind == METRIC_SHIFT:
        return _metric_trouble(finding)
    if finding.kind in TRAINING:
        return finding.kind
    if finding.kind == SIGNATURE:
        return "known_failure" if finding.details.get("own") else "log_errors"
    fixed = {
        GAP: "network",
        OWN_TIME: "own_time",
        SPAN_ERRORS: "span_errors",
        VANISHED: "log_flow",
        FLOW_BREAK: "flow_break",
        CRITICAL_PATH: "critical_path",
        ERROR_ORIGIN: "error_origin",
        FAN_OUT: "fan_out",
        RETRIES: "span_errors",
        UNREACHED: "availability",
    }
    if finding.kind in fixed:
        return fixed[finding.kind]
    if finding.kind in (NEW, SURGE):
        return "log_errors" if finding.details.get("is_error") else "log_flow"
    return None


def _metric_trouble(finding: Finding) -> str | None:
    kind = shift_class(finding)
    if kind is SignalClass.LIMIT or not finding.details.get("bad"):
        return None
    if kind in RESOURCES:
        scarcer = "down" if is_headroom(finding.signal or "") else "up"
        return "resource" if finding.details.get("direction") == scarcer else None
    if kind in SYMPTOMS or kind is SignalClass.QUEUE:
        return kind.value
    return "traffic" if kind in (SignalClass.TRAFFIC, SignalClass.NETWORK) else "other"


def _by_subject(findings: Iterable[Finding], names: Mapping[str, str]) -> dict[str, list[Finding]]:
    out: dict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.subject != UNKNOWN_SERVICE and trouble_of(finding) is not None:
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
    return {
        f"{f.details['job']}/rank {rank}": f"rank {rank}"
        for f in findings
        if f.kind in TRAINING and f.details.get("job")
        for rank in f.details.get("ranks", ())
    }


def with_ranks(topology: Topology, findings: Sequence[Finding], alert: Alert) -> Topology:
    """The graph with each rank below its job, as a callee, and a straggler below all other ranks,
    which wait for it."""
    names = rank_names(findings)
    edges = {(names.get(a, a), names.get(b, b)) for a, b in topology.edges}
    for finding in findings:
        if finding.kind in TRAINING:
            jobs = (alert.service, alert.job, str(finding.details.get("job") or ""))
            edges |= {(job, finding.subject) for job in jobs if job and job != finding.subject}
        if finding.kind in HOLDS_UP and finding.subject.startswith("rank "):
            edges |= {(rank, finding.subject) for rank in names.values() if rank != finding.subject}
    return topology_of(sorted(edges)) if edges != set(topology.edges) else topology


def _largest_moves(findings: Iterable[Finding]) -> dict[str, float]:
    """Per signal of a resource or of availability the largest move of any service.

    A small move of a resource beside it is the load, not the cause. Failures thin out from callee
    to caller, which answers other requests too.
    """
    moves: dict[str, float] = {}
    for finding in findings:
        if finding.kind == METRIC_SHIFT and trouble_of(finding) in ("resource", "availability"):
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
        trouble = trouble_of(finding)
        if trouble is not None:
            weight = finding.strength * _relevance(finding, trouble, wanted)
            if trouble in ("resource", "availability") and largest.get(finding.signal or ""):
                weight *= math.sqrt(_move(finding) / largest[finding.signal or ""])
            grouped[trouble].append(weight)
    suspect.trouble = {
        k: WEIGHTS[k] * _joined([0.9 * max(v), 0.1 * _joined(v)]) for k, v in grouped.items()
    }
    suspect.felt = dict(suspect.trouble)
    return suspect


def _relevance(finding: Finding, trouble: str, wanted: SignalClass | None) -> float:
    factor = RECOVERED if finding.details.get("recovered") else 1.0
    if wanted in (SignalClass.LATENCY,) and trouble in ("errors", "availability", "span_errors"):
        factor *= OTHER_CLASS
    if wanted in (SignalClass.ERRORS, SignalClass.AVAILABILITY) and trouble in (
        "latency",
        "network",
        "own_time",
    ):
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
