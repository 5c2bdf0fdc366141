"""How far a fact about an object bears on the alert: by when it began, and by what explains it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.state_fault import Depth
from faultline.analysis.kinds.state_faults import OF_NAMESPACES, OF_NODES, OF_PROVIDERS
from faultline.analysis.states.facts import FactGroup

FRESH = timedelta(hours=1)
"""Before the incident: a setting does its harm with the next restart, and Kubernetes keeps events
for as long (kube-apiserver, --event-ttl)."""
OLD = timedelta(days=1)
OLD_WEIGHT = 0.15
"""What was so a day before the alert did not raise it, unless something else made it matter."""
UNDATED = 0.6
"""Of many objects nobody notes when a field was written."""
AFTERWARDS = timedelta(minutes=5)
AFTERWARDS_WEIGHT = 0.7
"""What begins when the alert is already known is as often its effect."""
EXPLAINED = 0.8
"""A fact keeps a fifth where one below it explains it fully, as symptoms do elsewhere."""
AT_ONCE = timedelta(minutes=10)
"""An effect may be noted that long before its cause: conditions change after a grace period."""
UNFELT = 0.5
"""A node that runs no unwell pod, where others do, harms nobody that was seen."""
NOBODY_WAITS = 0.3
"""A cordon matters to pods that look for a node."""
CALLED_ONLY = 0.5
"""What a provider's incident keeps where services call the provider, and none logs failures that
name it."""
_MISSING = frozenset(
    {
        "unschedulable",
        "replicas_missing",
        "rollout_stuck",
        "no_ready_endpoints",
        "disruption_blocked",
    }
)
"""What a node without pods brings about elsewhere."""
_WAITING = frozenset({"unschedulable", "placement_impossible"})
CLOSED = re.compile(r"(?i)unschedulable|taint")
"""How the scheduler says that a node was closed to a pod (kubernetes/pkg/scheduler/framework)."""


@dataclass(frozen=True)
class WeighedGroup:
    """A group of facts with its strength in [0, 1], and what explains it."""

    group: FactGroup
    strength: float
    explained_by: str | None = None


def weighed_groups(
    groups: Sequence[FactGroup], case: Case, unwell: Mapping[str, str]
) -> list[WeighedGroup]:
    """The groups in their order. `unwell` are the pods that do not serve, with their nodes."""
    alone = {id(group): _alone(group, groups, case, unwell) for group in groups}
    scored_groups = []
    for group in groups:
        top_share, by = 0.0, None
        for other in groups:
            share = alone[id(other)] if _explains(other, group) else 0.0
            if share > top_share:
                top_share, by = share, other.subject
        strength = alone[id(group)] * (1 - EXPLAINED * top_share)
        scored_groups.append(WeighedGroup(group, round(strength, 4), by))
    return scored_groups


def _alone(
    group: FactGroup, groups: Sequence[FactGroup], case: Case, unwell: Mapping[str, str]
) -> float:
    strength = age_weight(group.since, case)
    if group.fault.name in OF_PROVIDERS:
        return strength * CALLED_ONLY
    if group.fault.name not in OF_NODES:
        return strength
    if group.fault.name == "node_cordoned" and not _somebody_waits(group, groups):
        return strength * NOBODY_WAITS
    placed = [node for node in unwell.values() if node]
    if placed and group.fault.name != "node_cordoned":
        inside = sum(node == group.subject for node in placed)
        strength *= UNFELT + (1 - UNFELT) * inside / len(placed)
    return strength


def _somebody_waits(group: FactGroup, groups: Sequence[FactGroup]) -> bool:
    """Whether pods look for a node since this one was closed."""
    return any(
        _waits_for(group, fact_group) and _may_precede(group, fact_group) for fact_group in groups
    )


def _waits_for(node: FactGroup, pods: FactGroup) -> bool:
    """Whether these pods wait for closed nodes, and not for room alone."""
    if pods.fault.name not in _WAITING or not node.services & pods.services:
        return False
    return any(not fact.value or CLOSED.search(fact.value) for fact in pods.facts)


def age_weight(since: datetime | None, case: Case) -> float:
    """1 for what began shortly before or in the incident, falling with its age."""
    if since is None:
        return UNDATED
    if since > case.alert.started_at + AFTERWARDS:
        return AFTERWARDS_WEIGHT
    age = case.scope.incident.start - since
    if age <= FRESH:
        return 1.0
    if age >= OLD:
        return OLD_WEIGHT
    # Logarithmic: one hour matters early on, and hardly after half a day.
    passed = math.log(age / FRESH) / math.log(OLD / FRESH)
    return 1.0 - (1.0 - OLD_WEIGHT) * passed


def _explains(other: FactGroup, group: FactGroup) -> bool:
    """Whether `other` brings about what the group says."""
    if other is group or not _may_precede(other, group):
        return False
    if other.fault.name in OF_PROVIDERS:
        # The status page does not say whether an outage outside reaches a service.
        return False
    if other.subject in group.places:
        return group.fault.depth >= other.fault.depth
    if other.fault.depth >= group.fault.depth or not other.services & group.services:
        return False
    if other.fault.name in OF_NODES:
        if other.fault.name == "node_cordoned" and group.fault.name in _WAITING:
            return _waits_for(other, group)
        # Pods that run are hurt by their own node alone; those that are missing by any.
        return not group.places and group.fault.name in _MISSING
    if other.fault.name in OF_NAMESPACES:
        return group.fault.depth is Depth.EFFECT
    return True


def _may_precede(other: FactGroup, group: FactGroup) -> bool:
    if other.since is None or group.since is None:
        return True
    return other.since <= group.since + AT_ONCE
