"""`topology`: who calls a service and whom it calls, with the findings about each."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from analysis.requests.topology import read_topology
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
    below, above = graph.downstream(service, HOPS), graph.upstream(service, HOPS)
    if len(below) + len(above) <= 2:
        raise NotFound(f"nothing is known of who calls {service} and whom it calls")
    rows = [_row(bench, service, "itself", 0)]
    rows += [_row(bench, name, "called by it", hops) for name, hops in below.items() if hops]
    rows += [_row(bench, name, "calls it", hops) for name, hops in above.items() if hops]
    left_out = len(rows) - MAX_NEIGHBOURS
    note = f"{left_out} more services" if left_out > 0 else ""
    return Found(rows[:MAX_NEIGHBOURS], from_evidence(bench.case.evidence, "topology"), note)


def _row(bench: Bench, name: str, relation: str, hops: int) -> dict[str, Any]:
    own = [f for f in bench.diagnosis.findings if f.subject == name and not is_memory(f)]
    own.sort(key=lambda f: -f.strength)
    return {
        "service": name,
        "is": relation,
        "hops": hops,
        "findings": [f.id for f in own[:MAX_FINDINGS]],
        "first_onset": moment(min((f.onset for f in own if f.onset), default=None)),
        "has_metrics": bool((bench.case.metrics["service"] == name).any()),
        "has_logs": bool((bench.case.logs["service"] == name).fill_null(False).any()),
    }


TOPOLOGY = Tool(
    "topology",
    "Who calls a service and whom it calls, within two hops, with the findings and data that the "
    "case has of each.",
    TopologyArguments,
    topology,
)
