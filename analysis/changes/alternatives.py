"""What fails without any change of ours: a provider is down, data is bad, a node fails,
demand surged.

`no_change_reasons` gives each as a finding with its evidence. Such a finding is evidence against
a change only if the change's own text does not bear on what fails (see `nearby_changes`): a change
that writes more also reaches a quota, and one that retries also causes a request surge.
"""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.case.folder import Case
from faultline.analysis.changes.alternative_lines import line_reasons
from faultline.analysis.changes.alternative_metrics import metric_reasons
from faultline.analysis.changes.evidence import FailingLine, failing_lines, failing_operations
from faultline.analysis.kinds.finding_details import NoChangeDetails
from faultline.analysis.requests.topology import Topology, read_topology
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding


def no_change_reasons(
    case: Case,
    topology: Topology | None = None,
    lines: Sequence[FailingLine] | None = None,
    shifts: Sequence[Finding] | None = None,
) -> list[Finding]:
    """Findings `external_dependency`, `data_problem`, `infrastructure` and `demand`, the strongest
    first.

    What is at hand is not worked out again: the graph, the failing lines, the series that left
    their baseline.
    """
    graph = read_topology(case) if topology is None else topology
    failures = failing_lines(case) if lines is None else lines
    findings = [
        *line_reasons(case, graph, failures, failing_operations(case)),
        *metric_reasons(case, graph, shifts),
    ]
    return sorted(findings, key=lambda f: (-f.strength, f.kind, f.subject, f.sentence))


def reason_for(
    reasons: Sequence[Finding], suspects: Sequence[Suspect], topology: Topology
) -> Finding | None:
    """The strongest reason that concerns the first suspect: it, what it calls, or (a surge) who
    calls it, has it."""
    if not suspects:
        return None
    first = suspects[0].subject
    near = {first, *topology.downstream(first), *topology.upstream(first)}
    concerned = [f for f in reasons if f.subject == first or near & _services_of(f)]
    return next(iter(concerned), None)


def _services_of(reason: Finding) -> set[str]:
    details = NoChangeDetails.of(reason)
    return set(details.services) if details else set()
