"""The facts of a case about objects, grouped by what they accuse."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import SignatureDetails, StateFactDetails
from faultline.analysis.kinds.state_fault import Depth, StateFault
from faultline.analysis.kinds.state_faults import (
    OF_NAMESPACES,
    OF_NODES,
    OF_PROVIDERS,
    OF_USERS,
    RESOLVER_FAILING,
    STATE_FAULTS,
)
from faultline.analysis.states.resolver_facts import resolver_facts
from faultline.analysis.states.state_fact import StateFact
from faultline.analysis.vocabulary import Finding

MAX_FACTS = 5000
"""Rows that are read; a cluster of thousands of unwell pods says the same thing many times."""


@dataclass(frozen=True)
class FactGroup:
    """Everything that says the same of one subject, the earliest first."""

    fault: StateFault
    subject: str
    facts: tuple[StateFact, ...]

    @property
    def services(self) -> frozenset[str]:
        """The services that it bears on."""
        return frozenset(fact.service for fact in self.facts if fact.service)

    @property
    def places(self) -> frozenset[str]:
        """Where its objects are: nodes of pods, zones of nodes."""
        return frozenset(fact.place for fact in self.facts if fact.place)

    @property
    def called_as(self) -> tuple[str, ...]:
        """Of a provider: what services call it by."""
        if self.fault.name not in OF_PROVIDERS:
            return ()
        names = [name.strip() for fact in self.facts for name in fact.field.split(",")]
        return tuple(dict.fromkeys(filter(None, names)))

    @property
    def objects(self) -> tuple[str, ...]:
        """Each object once."""
        return tuple(dict.fromkeys(fact.object for fact in self.facts))

    @property
    def since(self) -> datetime | None:
        """Since when the first of its objects is so."""
        times = [fact.since for fact in self.facts if fact.since is not None]
        return min(times, default=None)

    @property
    def is_unwell_instance(self) -> bool:
        """Whether it speaks of pods that do not serve."""
        return self.fault.depth is not Depth.SETTING and self.facts[0].kind == "Pod"


def fact_groups(case: Case) -> list[FactGroup]:
    """The facts that hold before the incident ends, by fact and subject, in a fixed order."""
    facts = []
    claimants = {*case.topology["callee"], *case.states["service"].drop_nulls()}
    for row in case.states.head(MAX_FACTS).iter_rows(named=True):
        fact = _read(row)
        # A fact that begins after the incident cannot have raised its alert.
        if fact is not None and not (
            fact.since is not None and fact.since > case.scope.incident.end
        ):
            facts.append(_with_claimant(fact, claimants))
    facts += resolver_facts(case, facts)
    services = _services_by_object(facts)
    grouped: dict[tuple[str, str], list[StateFact]] = defaultdict(list)
    for fact in facts:
        grouped[fact.fault.name, _subject(fact, services)].append(fact)
    groups = []
    for (name, subject), state_facts in sorted(grouped.items()):
        # Pods that were evicted last week say nothing of the one that was evicted now.
        recent = [fact for fact in state_facts if not is_history(fact.since, case)]
        ordered = tuple(sorted(recent or state_facts, key=_order))
        groups.append(FactGroup(STATE_FAULTS[name], subject, ordered))
    return groups


def is_history(since: datetime | None, case: Case) -> bool:
    """Whether it was so all through the baseline, in which all was well."""
    begins = [window.start for window in case.scope.baseline]
    return since is not None and bool(begins) and since < min(begins)


def _read(row: Mapping[str, Any]) -> StateFact | None:
    """A fact of a name that nobody knows says nothing."""
    fault = STATE_FAULTS.get(row["fact"])
    if fault is None:
        # A newer version may write facts that this one does not know.
        return None
    return StateFact(
        fault=fault,
        kind=row["kind"],
        name=row["name"],
        namespace=row["namespace"] or "",
        service=row["service"] or None,
        place=row["place"] or None,
        field=row["field"] or "",
        value=row["value"] or "",
        expected=row["expected"] or "",
        since=row["since"],
        query=row["query"] or "",
        restored_by=row["restored_by"] or "",
    )


def _with_claimant(fact: StateFact, services: Collection[str]) -> StateFact:
    """The fact with its service, where it is about a claim of a StatefulSet's: an exporter knows
    the claim alone, which Kubernetes calls `<volume>-<StatefulSet>-<number>`."""
    if fact.service or fact.kind != "PersistentVolumeClaim":
        return fact
    whose = fact.name.rpartition("-")[0]
    owners = [name for name in services if whose.endswith(f"-{name.lower()}")]
    if not fact.name.rpartition("-")[2].isdigit() or not owners:
        return fact
    return replace(fact, service=max(owners, key=lambda name: (len(name), name)))


def _services_by_object(facts: Iterable[StateFact]) -> Mapping[str, set[str]]:
    services: dict[str, set[str]] = defaultdict(set)
    for fact in facts:
        if fact.service:
            services[fact.object].add(fact.service)
    return services


def _subject(fact: StateFact, services: Mapping[str, set[str]]) -> str:
    """What the fact accuses: the node, the provider, the user, the namespace, or the service that
    the object belongs to. An object of several services, or of none, is accused itself."""
    if fact.fault.name in OF_NODES | OF_PROVIDERS | OF_USERS | {RESOLVER_FAILING}:
        return fact.name
    if fact.fault.name in OF_NAMESPACES:
        return f"namespace/{fact.namespace or fact.name}"
    # The same object may belong to several services; then it stands for itself.
    service = services.get(fact.object, set())
    if len(service) == 1:
        return next(iter(service))
    return f"{fact.kind.lower()}/{fact.name}"


def _order(fact: StateFact) -> tuple[bool, float, str, str]:
    at = fact.since.timestamp() if fact.since else 0.0
    return fact.since is None, at, fact.object, fact.value


def unwell_instances(groups: Sequence[FactGroup]) -> dict[str, str]:
    """The node of each pod that does not serve, by the pod; "" where it is on none."""
    places: dict[str, str] = {}
    for group in groups:
        if group.is_unwell_instance:
            for fact in group.facts:
                # A later row may lack the place that an earlier one had.
                places[fact.object] = fact.place or places.get(fact.object, "")
    return places


# Log lines that say what an object's state says: they are the same evidence, reported twice.
#
# Connectors make log lines of a cluster's events and conditions. As lines they speak for the
# service that the pod or the node's pods are of; the state says whose fault it is and since when.


def without_what_states_tell(findings: Sequence[Finding]) -> list[Finding]:
    """The findings without known failures in lines that only repeat a state."""
    state_failures = set(_state_failures(findings))
    remaining_findings = []
    for finding in findings:
        details = SignatureDetails.of(finding)
        if details is None or (finding.subject, details.signature) not in state_failures:
            remaining_findings.append(finding)
    return remaining_findings


def _state_failures(findings: Iterable[Finding]) -> Iterable[tuple[str, str]]:
    """(service, known failure) of every fact."""
    for finding in findings:
        details = StateFactDetails.of(finding)
        fault = STATE_FAULTS.get(details.fact) if details else None
        if details is None or fault is None:
            continue
        for service in (finding.subject, *details.services):
            for signature in fault.signatures:
                yield service, signature
