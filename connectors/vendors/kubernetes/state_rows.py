"""What a cluster's objects show by themselves, as rows of the table `states`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import KubernetesEvent, Pod
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload

LONGEST_VALUE = 1_000
"""Characters of a message: an error that wraps others says last why, and the analysis cuts it."""


@dataclass(frozen=True)
class NamespaceContents:
    """What was found of one namespace that is in scope."""

    name: str
    pods: Mapping[str, tuple[str, Pod]]
    """By name, the service and the pod."""
    workloads: Sequence[ObservedWorkload]
    services: Mapping[tuple[str, str], str]
    """Our name of the service by kind and name of an object."""
    events: Sequence[KubernetesEvent]
    calls: Sequence[tuple[str, str]]
    """(caller, callee) as the service catalogue has them."""
    end: datetime
    """The end of the incident."""

    def pods_of(self, service: str) -> list[Pod]:
        """The pods of a service."""
        return [pod for owner, pod in self.pods.values() if owner == service]

    def events_of(self, kind: str, name: str) -> list[KubernetesEvent]:
        """The events about one object."""
        events = []
        for event in self.events:
            if event.about.kind == kind and event.about.name == name:
                events.append(event)
        return events

    def row(
        self,
        kind: str,
        name: str,
        fact: str,
        *,
        service: str | None = None,
        place: str | None = None,
        field: str | None = None,
        value: str | None = None,
        expected: str | None = None,
        since: datetime | None = None,
        restored_by: str | None = None,
    ) -> StateRow:
        """A row about an object of this namespace; foreign text is cut."""
        return StateRow(
            kind=kind,
            name=short(name, 120),
            fact=fact,
            namespace=short(self.name, 100),
            service=service,
            place=short(place, 100) if place else None,
            field=field,
            value=short(value, LONGEST_VALUE) if value else None,
            expected=short(expected, LONGEST_VALUE) if expected else None,
            since=since,
            restored_by=restored_by,
        )


def labels_text(pairs: Mapping[str, str] | None) -> str:
    """Labels for humans, in a fixed order."""
    # Sorted, so that equal facts make equal rows.
    return ", ".join(f"{key}={value}" for key, value in sorted((pairs or {}).items()))


def listed(values: Iterable[object]) -> str:
    """Values for humans, each once and in a fixed order."""
    return ", ".join(sorted({str(value) for value in values}))
