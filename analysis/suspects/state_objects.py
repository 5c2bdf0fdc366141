"""Objects as suspects: a service depends on the node, the namespace and the route that it needs, as
it does on what it calls."""

from __future__ import annotations

from collections.abc import Iterable

from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.vocabulary import Finding


def with_objects(topology: Topology, findings: Iterable[Finding]) -> Topology:
    """The graph with each object that a fact accuses below the services that it bears on."""
    edges = set(topology.edges)
    for finding in findings:
        details = StateFactDetails.of(finding)
        if details is None:
            continue
        for service in details.services:
            if service != finding.subject:
                edges.add((service, finding.subject))
    if edges == set(topology.edges):
        return topology
    return topology_of(sorted(edges))
