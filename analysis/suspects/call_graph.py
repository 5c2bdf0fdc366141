"""The graph of calls between services: the known ones, and those seen from a caller.

The known graph gains the calls that a caller's own metrics name by their peer, and those that its
failing lines name. Such a call may add a path; nothing is cleared because one is missing.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import log_windows
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.kinds.state_faults import FAMILY_OF, OF_PROVIDERS
from faultline.analysis.logs.named_peers import failing_rows
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.states.weighing import CALLED_ONLY
from faultline.analysis.suspects.error_lines import ErrorLines
from faultline.analysis.vocabulary import Finding


def with_observed_calls(
    topology: Topology, calls: Iterable[tuple[str, str]], lines: Iterable[ErrorLines]
) -> Topology:
    """The known graph and the calls that callers' metrics and failing lines name."""
    edges: set[tuple[str | None, str | None]] = {*topology.edges, *calls}
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


# Incidents that providers report, tied to the services that call the provider.
#
# A status page says that something is wrong at a provider, and not which services it hurts. At any
# time some provider has an incident, so one beside the alert is no evidence. It becomes a possible
# cause only where the alerting service, or one that it calls, is known to call the provider, or
# logs failures that name it.

ENOUGH_LINES = 3
"""Fewer failing lines that name a provider are an accident, as in `changes.alternative_lines`."""


def tied_to_calls(findings: Sequence[Finding], topology: Topology, case: Case) -> list[Finding]:
    """The findings. Incidents of providers that are called accuse the provider, by the name under
    which it is called; the others accuse nobody."""
    result = []
    for finding in findings:
        details = StateFactDetails.of(finding)
        if details is not None and details.fact in OF_PROVIDERS:
            result.append(_tied(finding, details, topology, case))
        else:
            result.append(finding)
    return result


def _tied(finding: Finding, details: StateFactDetails, topology: Topology, case: Case) -> Finding:
    # The alerting service and all that it calls; without one, the services in scope.
    alerting = case.alert.service
    concerned = set(case.scope.services) if not alerting else set(topology.downstream(alerting))
    called = _called(details.called_as, topology, concerned)
    callers = {caller for name in called for caller in topology.callers(name)} & concerned
    naming = _naming(details.called_as, case) & concerned
    services = callers | naming | set(details.services)
    if not services:
        return finding
    strength = finding.strength / CALLED_ONLY if naming else finding.strength
    change = {
        "kind": FAMILY_OF[details.fact],
        "subject": called[0] if called else finding.subject,
        "strength": strength,
        "details": details.model_copy(update={"services": tuple(sorted(services))}),
    }
    return finding.model_copy(update=change)


def _called(names: Iterable[str], topology: Topology, concerned: set[str]) -> list[str]:
    """The nodes of the graph that are the provider, sorted: of one of its names, or a host below
    one of its domains."""
    folded_names = [name.casefold() for name in names]
    nodes = []
    for node in sorted(topology.services):
        folded = node.casefold()
        is_it = any(folded == name or folded.endswith(f".{name}") for name in folded_names)
        if is_it and not concerned.isdisjoint(topology.callers(node)):
            nodes.append(node)
    return nodes


def _naming(names: Iterable[str], case: Case) -> set[str]:
    """The services with failing lines in the incident that name one of its domains. A name without
    a dot may be any word."""
    domains = [name for name in names if "." in name]
    if not domains or not case.logs.height:
        return set()
    any_of = "|".join(re.escape(domain) for domain in domains)
    # Not within a longer name: `x.com` is no part of `netflix.com`.
    contains = pl.col("message").str.contains(rf"(?i)(?:^|[^\w-])(?:{any_of})(?:[^\w-]|$)")
    during = case.logs.filter(log_windows(case).in_search("time"))
    naming = failing_rows(during).filter(contains)
    counts = naming.group_by("service").len().filter(pl.col("len") >= ENOUGH_LINES)
    return set(counts["service"].drop_nulls().to_list())
