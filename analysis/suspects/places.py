"""Where instances are in trouble: a node, a zone or a cluster beside the others, at the same time.

A place is suspected where the instances of several services are out of their noise there and those
of the same services elsewhere are not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from faultline.analysis.kinds.place_names import PLACE_LABELS
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.requests.topology import Topology
from faultline.analysis.suspects.deviations import NOT_SERVING, Deviation

RUNS_IN = (
    "node",
    "k8s_node_name",
    "k8s.node.name",
    "kubernetes_node",
    "host",
    "zone",
    "availability_zone",
    "cloud.availability_zone",
    "topology_kubernetes_io_zone",
    "region",
    "cloud.region",
    "cluster",
    "k8s_cluster_name",
    "k8s.cluster.name",
)
"""Labels that name where an instance runs: OpenTelemetry, kube-state-metrics, cloud vendors."""
WITH_ITS_CALLS = frozenset((*PLACE_LABELS["cluster"], *PLACE_LABELS["region"]))
"""Places that calls seldom leave: who calls a service that is in trouble there is so as well, and
nowhere else."""
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
    service_count: int


def places(rows: Sequence[tuple[Deviation, float]], graph: Topology) -> list[Place]:
    """Every place that can be compared with others of its kind. `rows` are series with how far they
    explain the alert, in [0, 1]; `graph` holds the calls between services."""
    by_kind: dict[str, dict[ServiceSignal, list[tuple[str, float]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for deviation, weight in rows:
        if deviation.signal_class in NOT_SERVING:
            continue
        for kind in RUNS_IN:
            if deviation.labels.get(kind):
                signal = (deviation.service, deviation.signal_class)
                by_kind[kind][signal].append((deviation.labels[kind], weight))
    all_places = []
    for kind, signals in sorted(by_kind.items()):
        contrasts: dict[str, dict[str, float]] = defaultdict(dict)
        for (service, _), instances in signals.items():
            for name, contrast in _contrasts(instances):
                # Of several signals the clearest speaks for the service.
                before = contrasts[name].get(service, -1.0)
                contrasts[name][service] = max(before, contrast)
        kind_places = []
        for name, by_service in sorted(contrasts.items()):
            if len(by_service) >= LEAST_SERVICES:
                kind_places.append(_place(kind, name, by_service, graph))
        all_places += kind_places
    return all_places


def _contrasts(instances: Iterable[tuple[str, float]]) -> list[tuple[str, float]]:
    """Per place how much worse this signal is there than elsewhere; empty in a single place."""
    weights: dict[str, list[float]] = defaultdict(list)
    for name, weight in instances:
        weights[name].append(weight)
    contrasts = []
    for name, inside in weights.items():
        outside = [w for other, weight in weights.items() if other != name for w in weight]
        if outside:
            # The worst instance elsewhere counts too: a mean would hide it among many good ones.
            elsewhere = max(float(np.mean(outside)), WORST_ELSEWHERE * max(outside))
            contrasts.append((name, float(np.mean(inside)) - elsewhere))
    return contrasts


def _place(kind: str, name: str, by_service: Mapping[str, float], graph: Topology) -> Place:
    ordered = sorted(by_service.items(), key=lambda item: (-item[1], item[0]))
    worse = [service for service, contrast in ordered if contrast > DIFFERENT]
    second = ordered[1][1]
    if kind in WITH_ITS_CALLS and len(_not_its_callers(worse, graph)) < LEAST_SERVICES:
        # Trouble that only travels up a chain of calls is one service's trouble.
        second = 0.0
    return Place(
        kind=kind,
        name=name,
        contrast=float(np.mean([max(0.0, contrast) for _, contrast in ordered])),
        share=len(worse) / len(ordered),
        second=second,
        services=tuple(worse),
        service_count=len(ordered),
    )


def _not_its_callers(worse: Sequence[str], graph: Topology) -> list[str]:
    """Those of the services that call none of the others."""
    services = []
    for service in worse:
        below = graph.downstream(service)
        if not any(other in below for other in worse if other != service):
            services.append(service)
    return services


def placed_share(service: str, all_places: Iterable[Place]) -> float:
    """How far the service's trouble is confined to a place that other services share, in [0, 1]."""
    shared = [
        place.contrast
        for place in all_places
        if place.second > DIFFERENT and service in place.services
    ]
    return max(shared, default=0.0)
