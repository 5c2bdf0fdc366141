"""`topology`: who calls a service and whom it calls, with the findings about each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from analysis.requests.topology import read_topology
from analysis.vocabulary import Finding
from bot.answer.writer.earlier import is_memory
from bot.investigation.model.bench import Bench
from bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Tool,
    from_evidence,
    known_service,
    moment,
)

HOPS = 2
MAX_NEIGHBOURS = 40
MAX_FINDINGS = 4


class TopologyArguments(Arguments):
    service: str = Field(description="The service in the middle.")


async def topology(bench: Bench, asked: TopologyArguments) -> Found:
    """Callers and callees within two hops."""
    service = known_service(bench, asked.service)
    graph = read_topology(bench.case)
    callees = _others(graph.downstream(service, HOPS))
    callers = _others(graph.upstream(service, HOPS))
    if not callees and not callers:
        raise NotFound(f"nothing is known of who calls {service} and whom it calls")
    rows = [_row(bench, service, "itself", 0)]
    for name, hops in callees.items():
        rows.append(_row(bench, name, "called by it", hops))
    for name, hops in callers.items():
        rows.append(_row(bench, name, "calls it", hops))
    left_out = len(rows) - MAX_NEIGHBOURS
    note = f"{left_out} more services" if left_out > 0 else ""
    return Found(rows[:MAX_NEIGHBOURS], from_evidence(bench.case.evidence, "topology"), note)


def _others(reached: Mapping[str, int]) -> dict[str, int]:
    """What a walk reaches besides its start, which is at 0 hops."""
    return {name: hops for name, hops in reached.items() if hops}


def _row(bench: Bench, name: str, relation: str, hops: int) -> dict[str, Any]:
    own = _findings_about(bench, name)
    onsets = [finding.onset for finding in own if finding.onset is not None]
    metrics, logs = bench.case.metrics["service"], bench.case.logs["service"]
    return {
        "service": name,
        "is": relation,
        "hops": hops,
        "findings": [finding.id for finding in own[:MAX_FINDINGS]],
        "first_onset": moment(min(onsets, default=None)),
        "has_metrics": bool((metrics == name).any()),
        "has_logs": bool((logs == name).fill_null(False).any()),
    }


def _findings_about(bench: Bench, name: str) -> list[Finding]:
    """What was found of a service in this case, the strongest first."""
    own = []
    for finding in bench.diagnosis.findings:
        if finding.subject == name and not is_memory(finding):
            own.append(finding)
    own.sort(key=lambda finding: -finding.strength)
    return own


TOPOLOGY = Tool(
    "topology",
    "Who calls a service and whom it calls, within two hops, with the findings and data that the "
    "case has of each.",
    TopologyArguments,
    topology,
)
