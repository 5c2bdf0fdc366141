"""How far a fact about an object bears on the alert: by when it began, and by what explains it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.cluster_faults import VOLUMES
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.finding_kinds import STATE_KINDS, UPSTREAM_INCIDENT
from faultline.analysis.kinds.state_fault import Depth
from faultline.analysis.kinds.state_faults import (
    FAMILY_OF,
    OF_NAMESPACES,
    OF_NODES,
    OF_PROVIDERS,
    OF_USERS,
)
from faultline.analysis.states.facts import (
    FactGroup,
    fact_groups,
    is_history,
    unwell_instances,
)
from faultline.analysis.states.state_fact import StateFact
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, plain, plain_ends

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
UNRELATED = 0.1
"""What a node, a volume or a quota keeps that no service of the alert runs on, mounts or is limited
by."""
STRANGERS = 0.3
"""Pods of others that do not run are mostly another matter, where the alerting service logs errors
itself and nothing says that it calls them."""
_ERROR_LEVELS = ("error", "fatal", "critical")
MOST_ERRORS = 200
_SHARED = OF_NODES | OF_NAMESPACES | OF_USERS | frozenset(fault.name for fault in VOLUMES)
"""What several services may use, so that its trouble is not the alerting service's by itself."""
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
_UNDER_OTHER_NAMES = frozenset(
    {
        ("scaled_to_zero", "database_unavailable"),
        ("scaled_to_zero", "queue_without_consumers"),
    }
)
"""What a workload without instances brings about under another name than its own."""
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
    if group.fault.name in _SHARED:
        strength *= UNRELATED if is_unrelated(group, case, unwell) else 1.0
    elif group.fault.depth is not Depth.SETTING and is_strangers(group, case):
        strength *= STRANGERS
    if group.fault.name in OF_PROVIDERS:
        return strength * CALLED_ONLY
    if group.fault.name not in OF_NODES:
        return strength
    if group.fault.name == "node_cordoned" and not somebody_waits(group, groups):
        return strength * NOBODY_WAITS
    placed = [node for node in unwell.values() if node]
    if placed and group.fault.name != "node_cordoned":
        inside = sum(node == group.subject for node in placed)
        strength *= UNFELT + (1 - UNFELT) * inside / len(placed)
    return strength


def is_unrelated(group: FactGroup, case: Case, unwell: Mapping[str, str]) -> bool:
    """Whether nothing ties it to the alert: neither the alert's own words, nor the alerting service
    or one that it calls."""
    alert = case.alert
    if not alert.service or group.subject in unwell.values():
        return False
    name = group.subject.rpartition("/")[2]
    if name in alert.labels.values() or name in alert.title:
        return False
    if not group.services:
        return True
    reached = called_from(alert.service, case)
    # Without known calls, any service may be one that it calls; so may one that nobody is known to
    # call: of stores and hosts outside the callers are often unknown.
    is_placed = group.fault.name in OF_NODES or not group.services.isdisjoint(
        case.topology["callee"]
    )
    return len(reached) > 1 and is_placed and not group.services & reached


def called_from(service: str, case: Case) -> frozenset[str]:
    """The service, and all that it calls, directly or not."""
    callees: dict[str, set[str]] = {}
    for caller, callee in case.topology.select("caller", "callee").iter_rows():
        callees.setdefault(caller, set()).add(callee)
    reached, waiting = {service}, [service]
    while waiting:
        new = callees.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return frozenset(reached)


def is_strangers(group: FactGroup, case: Case) -> bool:
    """Whether the alerting service, of which no calls are known, logs new errors that name none of
    the services that it is of."""
    service = case.alert.service
    if not service or not group.services or service in group.services:
        return False
    calls = case.topology
    if calls.filter((pl.col("caller") == service) | (pl.col("callee") == service)).height:
        return False
    errors = case.logs.filter(
        pl.col("service") == service, pl.col("level").str.to_lowercase().is_in(_ERROR_LEVELS)
    )
    start = case.scope.incident.start
    if not errors.height or errors.filter(pl.col("time") < start).height:
        return False
    text = " ".join(errors["message"].drop_nulls().head(MOST_ERRORS).to_list())
    return not any(name in text for name in group.services)


def somebody_waits(group: FactGroup, groups: Sequence[FactGroup]) -> bool:
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
    # An exporter often names a database after its product, and not after what runs it; a queue is
    # named after what lies in it, and not after who reads it.
    if (other.fault.name, group.fault.name) in _UNDER_OTHER_NAMES:
        times = other.since, group.since
        return times[0] is not None and times[1] is not None and times[1] - times[0] <= AT_ONCE
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
    groups = fact_groups(case)
    if not groups:
        return []
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
            value=plain_ends(_fullest(group).value, MAX_QUOTE).rstrip("."),
            expected=plain(_fullest(group).expected, MAX_QUOTE).rstrip("."),
            explained_by=weighed.explained_by,
            called_as=group.called_as[:MAX_LISTED],
            is_history=is_history(group.since, case),
            restored_by=plain(_fullest(group).restored_by, MAX_QUOTE) or None,
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
        value=plain_ends(first.value, MAX_QUOTE).rstrip("."),
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
