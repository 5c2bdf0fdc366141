"""From metrics: a surge of requests at the edge before everything behind it saturates, and nodes
that run full."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from analysis.analyzers import fault_of
from analysis.case.folder import Case
from analysis.kinds.fault_kinds import DEMAND, INFRASTRUCTURE, RESOURCE
from analysis.kinds.finding_details import NoChangeDetails
from analysis.kinds.signals import SignalClass
from analysis.metrics.shifts import KIND as METRIC_SHIFT
from analysis.metrics.shifts import metric_shifts, shift_class
from analysis.requests.topology import Topology
from analysis.vocabulary import Finding
from analysis.wording.phrases import number, plain, rounded

SURGE = 1.8
"""Requests at 1.8 times the baseline or more are a surge: autoscalers plan for less (own)."""
FIRM = 3.0
"""And from three times on nothing else needs to be looked for."""
OFFERED = re.compile(
    r"(?i)request|rps|qps|hits|invocation|sessions|connections|messages?_(in|received)|ingest"
    r"|incoming|visits"
)
NOT_OFFERED = re.compile(
    r"(?i)db_|quer|per_request|error|fail|retr|5xx|4xx|duration|latency|queue|bytes|cache"
    r"|out(going|bound)"
)
"""What is asked of a service, and what it only does to answer."""
NODE_SIGNAL = re.compile(r"(?i)^(node|host|machine|vm|instance|kubelet)[_.]|steal|_node_")
LATER = timedelta(seconds=60)


def metric_reasons(
    case: Case, topology: Topology, found: Sequence[Finding] | None = None
) -> list[Finding]:
    """Findings `demand` and `infrastructure` from series that left their baseline, `found` where it
    is at hand."""
    known = metric_shifts(case) if found is None else [f for f in found if f.kind == METRIC_SHIFT]
    shifts = [f for f in known if f.details.bad]
    return [*_demand(shifts, case, topology), *_nodes(shifts)]


def _demand(shifts: Sequence[Finding], case: Case, topology: Topology) -> Iterator[Finding]:
    surges = {
        f.subject: f
        for f in sorted(shifts, key=lambda f: (f.effect or 0.0, f.signal or ""))
        if _surges(f)
    }
    measured = {
        s
        for s, signal in _series(case)
        if OFFERED.search(signal) and not NOT_OFFERED.search(signal)
    }
    for service, surge in sorted(surges.items()):
        if any(
            c in measured and c not in surges for c in topology.upstream(service) if c != service
        ):
            continue
        if any(c in surges for c in topology.callers(service)):
            continue
        behind = {service, *topology.downstream(service)}
        strained = [
            f for f in shifts if (f.subject in behind or not topology.services) and _strain(f)
        ]
        if not strained or min(f.onset for f in strained if f.onset) + LATER < (
            surge.onset or case.alert.started_at
        ):
            continue
        yield _surge_finding(service, surge, surges, behind, known=service in topology.services)


def _surges(finding: Finding) -> bool:
    signal = finding.signal or ""
    offered = OFFERED.search(signal) is not None and not NOT_OFFERED.search(signal)
    rose = (
        finding.details.direction == "up"
        and finding.effect_unit == "x"
        and (finding.effect or 0) >= SURGE
    )
    return (
        offered
        and rose
        and shift_class(finding) in (SignalClass.TRAFFIC, SignalClass.NETWORK, SignalClass.OTHER)
    )


def _strain(finding: Finding) -> bool:
    kind = shift_class(finding)
    symptom = kind in (
        SignalClass.LATENCY,
        SignalClass.ERRORS,
        SignalClass.QUEUE,
        SignalClass.CPU,
        SignalClass.MEMORY,
    )
    return finding.onset is not None and symptom and finding.details.direction == "up"


def _surge_finding(
    service: str, surge: Finding, surges: Mapping[str, Finding], behind: set[str], *, known: bool
) -> Finding:
    ratio = float(surge.effect or SURGE)
    followers = sorted(s for s in surges if s in behind and s != service)
    strength = (
        0.6
        + 0.25 * min(1.0, (ratio - SURGE) / (FIRM - SURGE))
        + (0.1 if followers or not known else 0.0)
    )
    shown = {"ratio": rounded(ratio, 3)}
    said = (
        f"{plain(service)} gets {number(ratio, 3)} times the requests of before, from no service "
        "that is known"
    )
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
        sentence=f"{said}.",
        numbers=shown,
        evidence=surge.evidence,
        series=surge.series,
        details=NoChangeDetails(reason="surge", services=tuple(sorted(behind)), nodes=(), bad=True),
    )


def _nodes(shifts: Sequence[Finding]) -> Iterator[Finding]:
    """A node's own resources ran full."""
    for finding in shifts:
        if NODE_SIGNAL.search(finding.signal or "") and fault_of(finding) is RESOURCE:
            yield finding.model_copy(
                update={
                    "kind": INFRASTRUCTURE.name,
                    "strength": round(0.7 * finding.strength, 4),
                    "details": NoChangeDetails(
                        reason="node",
                        services=(finding.subject,),
                        nodes=(finding.subject,),
                        bad=True,
                    ),
                }
            )


def _series(case: Case) -> list[tuple[str, str]]:
    found = case.metrics.select("service", "signal").unique().drop_nulls().sort("service", "signal")
    return [(str(service), str(signal)) for service, signal in found.iter_rows()]
