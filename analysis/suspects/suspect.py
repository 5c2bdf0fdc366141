"""A service, a place or a rank that may be the cause, and what speaks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from faultline.analysis.analyzers import fault_kind, fault_of
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.state_fault import Depth
from faultline.analysis.kinds.state_faults import STATE_FAULTS
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.vocabulary import Finding

CLEAR_STRAGGLER = 0.25
"""A rank that delays the others, when at least this clear, is the root: their waits, and the job's
slow steps, are its effect."""


@dataclass
class Suspect:
    """One service with what speaks for it; scores are in [0, 1]."""

    subject: str
    score: float = 0.0
    """What its findings alone say, less what others explain."""
    probability: float = 0.0
    """That it is the cause, beside all other suspects and what was not seen."""
    raw_scores: dict[str, float] = field(default_factory=dict)
    """By the name of a fault, what its findings alone say."""
    scores: dict[str, float] = field(default_factory=dict)
    """The same, less what other suspects explain."""
    findings: list[Finding] = field(default_factory=list)
    explained_by: str | None = None
    onset: datetime | None = None

    @property
    def is_root(self) -> bool:
        """Whether it comes first whatever the others score: it clearly delays all other ranks."""
        if not self.is_rank:
            return False
        delaying = [
            score for name, score in self.raw_scores.items() if fault_kind(name).delays_peers
        ]
        return max(delaying, default=0.0) >= CLEAR_STRAGGLER

    @property
    def is_rank(self) -> bool:
        """Whether it is one rank of a training job."""
        return self.subject.startswith("rank ")

    @property
    def main_fault(self) -> str:
        """The name of the fault that speaks most for it."""
        return max(sorted(self.scores), key=lambda name: self.scores[name], default="other")


CLEARLY_DELAYS = 1.0
"""Added to what the findings say of a rank that clearly delays all others."""

CLEAR_SCORE = 0.7
"""A suspect whose findings say less than this is faint, however much less they say of the others.
With the loudest counted as fully guilty, thirteen of 111 recorded systems that were left out had a
wrong cause at 60 % and more, and with this two; calm systems with a cause at 50 % and more fell
from 14 to 1 %."""


def findings_shares(suspects: Sequence[Suspect]) -> dict[str, float]:
    """What the findings say about each suspect, as a share of the most that they say about one, and
    less where even that is faint."""
    most = max(max((suspect.score for suspect in suspects), default=0.0), CLEAR_SCORE)
    shares = {}
    for suspect in suspects:
        clear = CLEARLY_DELAYS if suspect.is_root else 0.0
        shares[suspect.subject] = suspect.score / most + clear
    return shares


def state_evidence(suspects: Iterable[Suspect]) -> dict[str, dict[Depth, float]]:
    """By subject, how far facts about objects speak for it, in [0, 1], by how near they are to a
    cause: squared, because weak facts are found in every cluster."""
    evidence: dict[str, dict[Depth, float]] = {}
    for suspect in suspects:
        by_depth = evidence[suspect.subject] = {}
        for finding in suspect.findings:
            fault, details = fault_of(finding), StateFactDetails.of(finding)
            if fault is None or details is None or details.fact not in STATE_FAULTS:
                continue
            raw = suspect.raw_scores.get(fault.name, 0.0)
            # What a callee explains of it is no evidence against the subject.
            left = suspect.scores.get(fault.name, 0.0) / raw if raw > 0 else 1.0
            depth = STATE_FAULTS[details.fact].depth
            share = fault.weight * finding.strength * left
            by_depth[depth] = max(by_depth.get(depth, 0.0), share**2)
    return evidence


def subjects_of_facts(evidence: Mapping[str, Mapping[Depth, float]]) -> frozenset[str]:
    """Those of which facts speak, by what `state_evidence` gives."""
    return frozenset(subject for subject, by_depth in evidence.items() if by_depth)


# Objects as suspects: a service depends on the node, the namespace and the route that it needs, as
# it does on what it calls.


def with_objects(topology: Topology, findings: Iterable[Finding]) -> Topology:
    """The graph with each object that a fact accuses below the services that it bears on."""
    edges = set(topology.edges)
    for finding in findings:
        details = StateFactDetails.of(finding)
        if details is None:
            continue
        for service in details.services:
            if service != finding.subject:
                edges.add((service, finding.subject))
    if edges == set(topology.edges):
        return topology
    return topology_of(sorted(edges))
