"""What fails without any change of ours: a provider is down, data is bad, a node fails, demand
surges.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from faultline.analysis.analyzers import fault_of
from faultline.analysis.case.folder import Case
from faultline.analysis.changes.alternative_lines import line_reasons
from faultline.analysis.changes.symptoms import FailingLine, failing_lines, failing_operations
from faultline.analysis.kinds.fault_kinds import DEMAND, INFRASTRUCTURE, RESOURCE
from faultline.analysis.kinds.finding_details import NoChangeDetails
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.metrics.shifts import metric_shifts, shift_class
from faultline.analysis.requests.topology import Topology, read_topology
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

# From metrics: a surge of requests at the edge before everything behind it saturates, and nodes
# that run full.

SURGE = 1.8
"""Requests at 1.8 times the baseline or more are a surge: autoscalers plan for less. The figure is
an assumption."""
FIRM = 3.0
"""From three times on, nothing else needs to be looked for."""
OFFERED = re.compile(
    r"(?i)request|rps|qps|hits|invocation|sessions|connections|messages?_(in|received)|ingest"
    r"|incoming|visits"
)
NOT_OFFERED = re.compile(
    r"(?i)db_|quer|per_request|error|fail|retr|5xx|4xx|duration|latency|queue|bytes|cache"
    r"|out(going|bound)|active|in_?flight|pending|concurren|busy"
)
"""What is asked of a service, and what it only does to answer. Requests under way pile up where
answers take longer."""
NODE_SIGNAL = re.compile(r"(?i)^(node|host|machine|vm|instance|kubelet)[_.]|steal|_node_")
LATER = timedelta(seconds=60)
REQUESTS = (SignalClass.TRAFFIC, SignalClass.NETWORK, SignalClass.OTHER)
STRAINED = (
    SignalClass.LATENCY,
    SignalClass.ERRORS,
    SignalClass.QUEUE,
    SignalClass.CPU,
    SignalClass.MEMORY,
)


def metric_reasons(
    case: Case, topology: Topology, findings: Sequence[Finding] | None = None
) -> list[Finding]:
    """Findings `demand` and `infrastructure` from series that left their baseline, `findings` where
    it is at hand."""
    metric_findings = (
        metric_shifts(case) if findings is None else [f for f in findings if f.kind == METRIC_SHIFT]
    )
    shifts = [f for f in metric_findings if f.details.bad]
    return [*_demand(shifts, case, topology), *_nodes(shifts)]


def _demand(shifts: Sequence[Finding], case: Case, topology: Topology) -> Iterator[Finding]:
    # The largest rise of each service comes last, and is kept.
    rises = sorted(filter(_surges, shifts), key=lambda f: (f.effect or 0.0, f.signal or ""))
    surges = {finding.subject: finding for finding in rises}
    measured = {service for service, signal in _series(case) if _is_offered(signal)}
    strains = _strains(shifts)
    for service, surge in sorted(surges.items()):
        if _comes_from_a_caller(service, surges, measured, topology):
            continue
        in_topology = service in topology.services
        behind = {service, *topology.downstream(service)}
        began = surge.onset or case.alert.started_at
        # Without a known graph any service may be behind it.
        everywhere = not topology.services
        onsets = [onset for subject, onset in strains if everywhere or subject in behind]
        # What was strained well before the surge has another reason.
        if onsets and min(onsets) + LATER >= began:
            yield _surge_finding(service, surge, surges, behind, in_topology=in_topology)


def _comes_from_a_caller(
    service: str, surges: Mapping[str, Finding], measured: Collection[str], topology: Topology
) -> bool:
    """Whether a caller has the surge as well; or one above it has none, so that the surge begins
    inside."""
    if any(caller in surges for caller in topology.callers(service)):
        return True
    for above in topology.upstream(service):
        if above != service and above in measured and above not in surges:
            return True
    return False


def _is_offered(signal: str) -> bool:
    """Whether the signal counts what is asked of a service."""
    return OFFERED.search(signal) is not None and not NOT_OFFERED.search(signal)


def _surges(finding: Finding) -> bool:
    if not _is_offered(finding.signal or "") or shift_class(finding) not in REQUESTS:
        return False
    if finding.details.direction != "up" or finding.effect_unit != "x":
        return False
    return (finding.effect or 0) >= SURGE


def _strains(shifts: Iterable[Finding]) -> list[tuple[str, datetime]]:
    """The services that show that they have too much to do, and since when."""
    strains = []
    for finding in shifts:
        if finding.onset is None or finding.details.direction != "up":
            continue
        if shift_class(finding) in STRAINED:
            strains.append((finding.subject, finding.onset))
    return strains


def _surge_finding(
    service: str,
    surge: Finding,
    surges: Mapping[str, Finding],
    behind: set[str],
    *,
    in_topology: bool,
) -> Finding:
    ratio = float(surge.effect or SURGE)
    followers = sorted(s for s in surges if s in behind and s != service)
    strength = 0.6 + 0.25 * min(1.0, (ratio - SURGE) / (FIRM - SURGE))
    if followers or not in_topology:
        strength += 0.1
    return Finding(
        id="",
        kind=DEMAND.name,
        subject=service,
        signal=surge.signal,
        onset=surge.onset,
        onset_uncertainty_s=surge.onset_uncertainty_s,
        effect=surge.effect,
        effect_unit="x",
        strength=round(min(0.95, strength), 4),
        sentence=f"{plain(service)} gets {number(ratio, 3)} times its usual requests, and no known "
        "service sends them.",
        numbers={"ratio": rounded(ratio, 3)},
        evidence=surge.evidence,
        series=surge.series,
        details=NoChangeDetails(reason="surge", services=tuple(sorted(behind)), nodes=(), bad=True),
    )


def _nodes(shifts: Sequence[Finding]) -> Iterator[Finding]:
    """A node's own resources ran full."""
    for finding in shifts:
        if not NODE_SIGNAL.search(finding.signal or "") or fault_of(finding) is not RESOURCE:
            continue
        node = (finding.subject,)
        details = NoChangeDetails(reason="node", services=node, nodes=node, bad=True)
        strength = round(0.7 * finding.strength, 4)
        kind = INFRASTRUCTURE.name
        update = {"kind": kind, "strength": strength, "details": details}
        yield finding.model_copy(update=update)


def _series(case: Case) -> list[tuple[str, str]]:
    pairs = case.metrics.select("service", "signal").unique().drop_nulls().sort("service", "signal")
    return [(str(service), str(signal)) for service, signal in pairs.iter_rows()]


# What fails without any change of ours: a provider is down, data is bad, a node fails, demand
# surged.
#
# `no_change_reasons` gives each as a finding with its evidence. Such a finding is evidence against
# a change only if the change's own text does not bear on what fails (see `nearby_changes`): a
# change that writes more also reaches a quota, and one that retries also causes a request surge.


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
