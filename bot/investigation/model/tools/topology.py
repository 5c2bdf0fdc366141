"""`topology`: the callers and callees of a service, with the findings about each."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from faultline.analysis.kinds.finding_details import ObservationDetails, change_named
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.writer.built_in import is_memory
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    first_of,
    from_evidence,
    moment,
    observation,
)

HOPS = 2
MOST_FINDINGS = 4


class TopologyArguments(Arguments):
    service: str = Field(description="The service in the middle.")


async def topology(model_session: ModelSession, arguments: TopologyArguments) -> CallResult:
    """Callers and callees within two hops."""
    service = case_service(model_session, arguments.service)
    graph = read_topology(model_session.case)
    callees = _without_start(graph.downstream(service, HOPS))
    callers = _without_start(graph.upstream(service, HOPS))
    if not callees and not callers:
        raise InvalidCall(f"nothing is known of who calls {service} and whom it calls")
    rows = [Row(f"{plain(service)} itself{_state(model_session, service)}")]
    for name, hops in callees.items():
        rows.append(_row(model_session, service, name, hops, "calls"))
    for name, hops in callers.items():
        rows.append(_row(model_session, service, name, hops, "is called by"))
    shown, cut = first_of(rows, "ask about a service nearer to what you look for")
    return CallResult(shown, from_evidence(model_session.case.evidence, "topology"), cut=cut)


def _without_start(reached: Mapping[str, int]) -> dict[str, int]:
    """What a walk reaches besides its start, which is at 0 hops."""
    return {name: hops for name, hops in reached.items() if hops}


def _row(model_session: ModelSession, service: str, name: str, hops: int, how: str) -> Row:
    phrase = f"{plain(service)} {how} {plain(name)}"
    phrase += " through another service" if hops > 1 else ""
    finding = observation(
        service,
        "calls",
        f"{phrase}.",
        ObservationDetails(about="call", labels={"to" if how == "calls" else "from": name}),
        # Calls may be known from spans alone.
        evidence=model_session.case.evidence_ids("topology")
        or model_session.case.evidence_ids("spans"),
        numbers={"hops": hops},
    )
    return Row(f"{phrase}{_state(model_session, name)}", finding=finding)


def _state(model_session: ModelSession, name: str) -> str:
    """What was found of a service, and which data there is of it."""
    findings = findings_about(model_session, name)
    # A change is not a symptom: its time does not say when the trouble began.
    onsets = [f.onset for f in findings if f.onset is not None and change_named(f) is None]
    phrase = f"; findings {', '.join(f.id for f in findings[:MOST_FINDINGS])}" if findings else ""
    phrase += f"; first onset {moment(min(onsets))}" if onsets else ""
    has_it = [
        kind
        for kind in ("metrics", "logs", "spans")
        if (getattr(model_session.case, kind)["service"] == name).fill_null(value=False).any()
    ]
    return f"{phrase}; {'has ' + ', '.join(has_it) if has_it else 'no data of it'}"


def findings_about(model_session: ModelSession, name: str) -> list[Finding]:
    """What was found of a service in this case, the strongest first."""
    findings = []
    for finding in model_session.diagnosis.findings:
        if finding.subject == name and not is_memory(finding):
            findings.append(finding)
    findings.sort(key=lambda finding: -finding.strength)
    return findings


def _offered(model_session: ModelSession) -> bool:
    return bool(read_topology(model_session.case).services)


TOPOLOGY = Tool(
    "topology",
    "Who calls a service and whom it calls, within two hops, with the findings and data that the "
    "case has of each.",
    TopologyArguments,
    topology,
    _offered,
)
