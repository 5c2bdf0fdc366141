"""The graph of calls between services: the known ones, and those seen from a caller.

The known graph gains the calls that a caller's own metrics name by their peer, and those that its
failing lines name. Such a call may add a path; nothing is cleared because one is missing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.suspects.error_lines import ErrorLines

PEER_LABELS = (
    "peer",
    "peer_service",
    "peer.service",
    "server",
    "server_address",
    "server.address",
    "server_service",
    "destination",
    "destination_workload",
    "destination_app",
    "destination_service_name",
    "upstream",
    "target",
)
"""Labels in which a caller's metrics name the callee: OpenTelemetry, Istio, Envoy, Tempo."""


def peer_of(labels: Mapping[str, str]) -> str | None:
    """The service that a series of calls is about; None where it is about its own service."""
    for name in PEER_LABELS:
        if labels.get(name):
            return labels[name]
    return None


def with_observed_calls(
    topology: Topology, series: Iterable[Deviation], lines: Iterable[ErrorLines]
) -> Topology:
    """The known graph and the calls that callers' metrics and failing lines name."""
    edges: set[tuple[str | None, str | None]] = set(topology.edges)
    for deviation in series:
        edges.add((deviation.service, peer_of(deviation.labels)))
    for line in lines:
        # Lines that came in the baseline alone show no call of the incident.
        if line.lines:
            edges.add((line.writer, line.names))
    return topology_of(edges)


@dataclass(frozen=True)
class Reach:
    """What the alerting service reaches, and how strongly trouble is seen along the way."""

    hops: Mapping[str, int]
    strength: Mapping[str, float]
    """In [0, 1]: the least trouble along the best path from the alert, 1 for the alerting service
    itself. Without an alerting service every service has 1."""

    def to(self, service: str) -> float:
        """The strength of the path to a service."""
        return self.strength.get(service, 0.0)


MAX_ROUNDS = 6
"""Paths are strengthened this often; longer ones than that are not followed."""


def reach_of(
    service: str | None,
    graph: Topology,
    services: Iterable[str],
    through: Mapping[tuple[str, str], float],
) -> Reach:
    """The reach of the alerting service; `through` is the trouble in [0, 1] of each call."""
    if service is None:
        return Reach({}, dict.fromkeys(services, 1.0))
    strength = {service: 1.0}
    waiting = deque([(service, 0)])
    while waiting:
        caller, distance = waiting.popleft()
        if distance == MAX_ROUNDS:
            continue
        for callee in graph.callees(caller):
            # A path is as strong as its weakest call.
            trouble = min(strength[caller], through.get((caller, callee), 0.0))
            if trouble > strength.get(callee, 0.0):
                strength[callee] = trouble
                waiting.append((callee, distance + 1))
    return Reach(graph.downstream(service), strength)
