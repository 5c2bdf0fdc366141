"""A service, a place or a rank that may be the cause, and what speaks for it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from faultline.analysis.analyzers import fault_kind
from faultline.analysis.kinds.finding_details import StateFactDetails
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
