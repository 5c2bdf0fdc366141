"""Rounds of an investigation, rounds.json: what connectors were asked about after the first
analysis, and where evidence pointed that nobody was asked about."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultline.analysis.vocabulary import Frozen

ROUNDS_FILE = "rounds.json"


FollowedKind = Literal["service", "node", "volume", "repository"]
"""What a connector can be asked about again. Databases, caches and queues are services to those who
call them."""


class Lead(Frozen):
    """A service, a node, a volume or a repository to which the evidence points and about which
    nobody was asked yet."""

    subject: str
    """Its name; of a volume its namespace and claim: "shop/data-orders-0"; of a repository its
    address."""
    because: str
    """Why, as a phrase: "called by checkout"."""
    kind: FollowedKind = "service"
    links: tuple[str, ...] = ()
    """Links of a service's changes: they may name its repository."""
    service: str = ""
    """Of a repository, the service whose workload names it."""


REPOSITORY_OF = "repository of "
"""Begins the details of evidence that name the repository of a service."""


class Round(Frozen):
    """What was asked once the rounds before it were analysed. The first round is the scope's."""

    number: int = Field(ge=2)
    leads: tuple[Lead, ...]
    connectors: tuple[str, ...]


class Rounds(Frozen):
    """The rounds after the first. `left` are the leads that were not followed, and `why_left` says
    why."""

    rounds: tuple[Round, ...] = ()
    left: tuple[Lead, ...] = ()
    why_left: str | None = None

    @property
    def subjects(self) -> frozenset[str]:
        """All that was asked about in these rounds."""
        return frozenset(pointer.subject for each in self.rounds for pointer in each.leads)
