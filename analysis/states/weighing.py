"""How far a fact about an object bears on the alert: by when it began, and by what explains it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.finding_kinds import STATE_KINDS, UPSTREAM_INCIDENT
from faultline.analysis.kinds.state_fault import Depth
from faultline.analysis.kinds.state_faults import FAMILY_OF, OF_NAMESPACES, OF_NODES, OF_PROVIDERS
from faultline.analysis.states.facts import FactGroup, StateFact, fact_groups, unwell_instances
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, plain

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


# What the state of objects says by itself: a selector that matches nothing, a node that is not
# ready, a quota that is used up, a database without storage.
#
# Rows of the table `states` are facts that a connector read from a cluster or a cloud. They are
# weighed by when they began and by what else explains them (`faultline.analysis.states.weighing`).

MAX_STATES = 40
MAX_QUOTE = 200
MAX_LISTED = 12
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def state_findings(case: Case) -> list[Finding]:
    """One finding per fact and subject, at most forty, the strongest first."""
    if not case.states.height:
        return []
    groups = fact_groups(case)
    unwell = unwell_instances(groups)
    weighed = weighed_groups(groups, case, unwell)
    weighed.sort(key=lambda state: (-state.strength, state.group.fault.name, state.group.subject))
    return [_finding(case, state, unwell) for state in weighed[:MAX_STATES]]


ANALYZER = Analyzer(state_findings, kinds=(*STATE_KINDS.values(), UPSTREAM_INCIDENT))


def _finding(case: Case, weighed: WeighedGroup, unwell: dict[str, str]) -> Finding:
    group = weighed.group
    # Of a node, how many of the unwell pods are on it.
    placed = [node for node in unwell.values() if node]
    there = sum(node == group.subject for node in placed)
    if group.fault.name not in OF_NODES or not there:
        who_runs_there = ""
    else:
        who_runs_there = f"; {there} of {counted(len(placed), 'failing pod')} run there"
    sentence = f"{fact_sentence(group)}{who_runs_there}{_since(group, case)}."
    numbers = {}
    for i, digits in enumerate(_NUMBER.findall(sentence), start=1):
        numbers[f"quoted_{i}"] = float(digits)
    # Of a provider that no service is said to need it is only what goes on outside.
    if group.fault.name in OF_PROVIDERS and not group.services:
        kind_of = UPSTREAM_INCIDENT.name
    else:
        kind_of = FAMILY_OF[group.fault.name]
    return Finding(
        id="",
        kind=kind_of,
        subject=group.subject,
        onset=group.since,
        strength=weighed.strength,
        sentence=sentence,
        numbers=numbers,
        evidence=evidence_of(case, group),
        details=StateFactDetails(
            fact=group.fault.name,
            objects=group.objects[:MAX_LISTED],
            services=tuple(sorted(group.services))[:MAX_LISTED],
            places=tuple(sorted(group.places))[:MAX_LISTED],
            value=plain(_fullest(group).value, MAX_QUOTE).rstrip("."),
            expected=plain(_fullest(group).expected, MAX_QUOTE).rstrip("."),
            explained_by=weighed.explained_by,
            called_as=group.called_as[:MAX_LISTED],
            bad=True,
        ),
    )


def fact_sentence(group: FactGroup) -> str:
    """The fact in words, by its earliest object."""
    first, fault = _fullest(group), group.fault
    template = fault.says
    if fault.says_less and _lacks(first, fault.says):
        template = fault.says_less
    text = template.format(
        object=plain(first.object),
        value=plain(first.value, MAX_QUOTE).rstrip("."),
        expected=plain(first.expected, MAX_QUOTE).rstrip("."),
    )
    other_count = len(group.objects) - 1
    return f"{text}; same for {other_count} more" if other_count else text


def _fullest(group: FactGroup) -> StateFact:
    """The earliest fact that says most."""
    # max() takes the first of equals, and the facts are sorted by time.
    return max(group.facts, key=lambda fact: bool(fact.value) + bool(fact.expected))


def _lacks(fact: StateFact, says: str) -> bool:
    wants_value = "{value}" in says and not fact.value
    return wants_value or ("{expected}" in says and not fact.expected)


def _since(group: FactGroup, case: Case) -> str:
    """Said of what is as it is since long before."""
    since = group.since
    if since is None or case.scope.incident.start - since < OLD:
        return ""
    days = (case.scope.incident.start - since).days
    return f", for {counted(days, 'day')}"


def evidence_of(case: Case, group: FactGroup) -> tuple[str, ...]:
    """The items whose query gave these rows, which may be a log, else all about states."""
    queries = {fact.query for fact in group.facts if fact.query}
    ids = [citation.id for citation in case.evidence if citation.query in queries]
    return tuple(ids) or case.evidence_ids("states")
