"""What a cluster says of the rollout: pods that keep crashing, images that cannot be pulled,
replicas that do not become ready.

Only what began with the deploy counts. It rolls back where the service is gone with it. Where the
old pods still serve, it keeps a rollout that never happened from being called a go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from faultline.analysis.case.folder import Case
from faultline.analysis.deploys.question import DeployQuestion
from faultline.analysis.states.facts import fact_groups
from faultline.analysis.states.findings import evidence_of, fact_sentence

MISSING = "replicas_missing"
LASTS = timedelta(minutes=5)
"""A rollout and an autoscaler leave replicas missing for as long as a pod takes to start."""
TELLING = frozenset(
    {
        MISSING,
        "rollout_stuck",
        "scaled_to_zero",
        "crash_loop",
        "image_unavailable",
        "container_refused",
        "unschedulable",
    }
)
"""Facts of `faultline.analysis.kinds.workload_faults` that keep new pods from serving."""
EARLIEST = timedelta(minutes=1)
"""The API server's clock and the pipeline's are not the same."""


@dataclass(frozen=True)
class RolloutFact:
    """One fact that began with the deploy."""

    sentence: str
    says_none: bool
    """Whether it says by itself that no instance serves."""
    evidence: tuple[str, ...]


def rollout_facts(case: Case, question: DeployQuestion) -> tuple[RolloutFact, ...]:
    """The facts about the service, those that say most first."""
    facts = list(_facts(case, question)) if case.states.height else []
    return tuple(sorted(facts, key=lambda fact: not fact.says_none))


def _facts(case: Case, question: DeployQuestion) -> Iterator[RolloutFact]:
    earliest, end = question.deployed_at - EARLIEST, question.look.end
    for group in fact_groups(case):
        since = group.since
        if group.fault.name not in TELLING or question.service not in (
            group.subject,
            *group.services,
        ):
            continue
        # Pods need minutes to start: what is missing only now may be there soon.
        latest = end - LASTS if group.fault.name == MISSING else end
        if since is not None and earliest <= since <= latest:
            evidence = evidence_of(case, group)
            # Nothing serves only if every object is at zero.
            none_left = group.fault.name == MISSING and all(
                fact.value == "0" for fact in group.facts
            )
            yield RolloutFact(
                f"{fact_sentence(group)}.",
                (none_left or group.fault.name == "scaled_to_zero"),
                evidence,
            )
