"""Where instances are in trouble: a node, a zone or a cluster beside the others, at the same time.

A place is suspected where the instances of several services are out of their noise there and those
of the same services elsewhere are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.kinds.signals import SignalClass
from analysis.suspects.deviations import NOT_SERVING, Deviation

PLACE_LABELS = (
    "node",
    "k8s_node_name",
    "k8s.node.name",
    "kubernetes_node",
    "host",
    "zone",
    "availability_zone",
    "cloud.availability_zone",
    "region",
    "cloud.region",
    "cluster",
    "k8s_cluster_name",
    "k8s.cluster.name",
)
"""Labels that name where an instance runs: OpenTelemetry, kube-state-metrics, cloud vendors."""
LEAST_SERVICES = 2
"""Trouble of one service alone is the service's, wherever it runs."""
WORST_ELSEWHERE = 0.7
"""An instance elsewhere that is nearly as bad is evidence against the place."""
DIFFERENT = 0.1
"""From this difference on a service is counted as troubled there."""

ServiceSignal = tuple[str, SignalClass]


@dataclass(frozen=True)
class Place:
    """One place with what distinguishes it; shares are in [0, 1]."""

    kind: str
    """The label: "node", "zone", ..."""
    name: str
    contrast: float
    """Mean over its services: how much worse their instances are there than elsewhere."""
    share: float
    """Of its services, how many are worse there."""
    second: float
    """The contrast of the service that is second worst there."""
    services: tuple[str, ...]
    """Those that are worse there, the worst first."""
    known_services: int


def places(rows: Sequence[tuple[Deviation, float]]) -> list[Place]:
    """Every place that can be compared with others of its kind. `rows` are series with how far they
    explain the alert, in [0, 1]."""
    by_kind: dict[str, dict[ServiceSignal, list[tuple[str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for one, weight in rows:
        if one.signal_class in NOT_SERVING:
            continue
        for kind in PLACE_LABELS:
            if one.labels.get(kind):
                signal = (one.service, one.signal_class)
                by_kind[kind][signal].append((one.labels[kind], weight))
    found = []
    for kind, signals in sorted(by_kind.items()):
        found += _compared(kind, signals)
    return found


def _compared(
    kind: str, signals: Mapping[ServiceSignal, Sequence[tuple[str, float]]]
) -> list[Place]:
    contrasts: dict[str, dict[str, float]] = defaultdict(dict)
    for (service, _), instances in signals.items():
        for name, contrast in _contrasts(instances):
            before = contrasts[name].get(service, -1.0)
            contrasts[name][service] = max(before, contrast)
    return [
        _place(kind, name, by_service)
        for name, by_service in sorted(contrasts.items())
        if len(by_service) >= LEAST_SERVICES
    ]


def _contrasts(instances: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Per place how much worse this signal is there than elsewhere; empty in a single place."""
    weights: dict[str, list[float]] = defaultdict(list)
    for name, weight in instances:
        weights[name].append(weight)
    found = []
    for name, inside in weights.items():
        outside = [w for other, others in weights.items() if other != name for w in others]
        if outside:
            elsewhere = max(float(np.mean(outside)), WORST_ELSEWHERE * max(outside))
            found.append((name, float(np.mean(inside)) - elsewhere))
    return found


def _place(kind: str, name: str, by_service: Mapping[str, float]) -> Place:
    ordered = sorted(by_service.items(), key=lambda item: (-item[1], item[0]))
    worse = [service for service, contrast in ordered if contrast > DIFFERENT]
    return Place(
        kind=kind,
        name=name,
        contrast=float(np.mean([max(0.0, contrast) for _, contrast in ordered])),
        share=len(worse) / len(ordered),
        second=ordered[1][1],
        services=tuple(worse),
        known_services=len(ordered),
    )


def placed_share(service: str, found: Iterable[Place]) -> float:
    """How far the service's trouble is confined to a place that other services share, in [0, 1]."""
    shared = [one.contrast for one in found if one.second > DIFFERENT and service in one.services]
    return max(shared, default=0.0)
