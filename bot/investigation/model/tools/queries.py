"""`collect`: a new query through a configured connector; what it brings becomes evidence and is
analysed.

The model names a connector, services that the case or the catalogue knows, and perhaps times. It
chooses no address, no query language and no credentials: those are the connector's own, as are its
deadline and limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pydantic import AwareDatetime, Field

from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Diagnosis, Finding, Scope, Window
from faultline.analysis.wording.phrases import number, plain
from faultline.bot.investigation.model.model_session import ModelSession, NewEvidence
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    askable,
    case_service,
    moment,
    span_of,
)
from faultline.connectors.shared.contract.base import Connector

MAX_SERVICES = 5
MAX_ASKS = 12
"""New queries in one conversation."""
LONGEST = timedelta(hours=24)
EARLIEST = timedelta(days=2)
"""How long before the incident's window a query may begin."""
MAX_NEW = 40


class CollectArguments(Arguments):
    connector: str = Field(description="Name of a connector.")
    services: list[str] = Field(
        min_length=1, max_length=MAX_SERVICES, description="Services it is to be asked about."
    )
    start: AwareDatetime | None = Field(
        default=None, description="Null: the incident and its baseline. Else ISO 8601."
    )
    end: AwareDatetime | None = Field(default=None, description="Null, or the end with `start`.")


async def collect(model_session: ModelSession, arguments: CollectArguments) -> CallResult:
    """What a new query brought: rows, gaps, and what the analysis made of them."""
    able = askable(model_session.connectors)
    connector = next((c for c in able if c.name == arguments.connector), None)
    if connector is None:
        raise InvalidCall(
            f"no such connector; there are {', '.join(c.name for c in able) or 'none'}"
        )
    if model_session.queries_made >= MAX_ASKS:
        raise InvalidCall(f"{MAX_ASKS} new queries were made, which is the limit")
    scope = _scope(model_session, arguments)
    new_evidence = await model_session.ask(connector, model_session.case.alert, scope)
    where = (
        f"{connector.name}, asked now about {', '.join(scope.services)}, "
        f"{span_of([scope.incident])}"
    )
    return CallResult(
        _rows(new_evidence), where, _what_changed(new_evidence), evidence_name=new_evidence.ask
    )


def _scope(model_session: ModelSession, arguments: CollectArguments) -> Scope:
    scope = model_session.case.scope
    services = tuple(
        dict.fromkeys(case_service(model_session, name) for name in arguments.services)
    )
    # Only what the model asks for: no traces of the job, and nothing that runbooks add.
    update: dict[str, Any] = {
        "services": services,
        "job": None,
        "training": None,
        "queries": (),
        "log_words": None,
    }
    if arguments.start is not None or arguments.end is not None:
        incident = scope.incident
        first, last = arguments.start or incident.start, arguments.end or incident.end
        if (
            not incident.start - EARLIEST <= first < last <= incident.end + timedelta(hours=1)
            or last - first > LONGEST
        ):
            raise InvalidCall(
                f"the window must lie between {moment(incident.start - EARLIEST)} and "
                f"{moment(incident.end)}, "
                "begin before it ends and be at most 24 hours long"
            )
        update |= {
            "incident": Window(start=first, end=last),
            # Only the new window is queried. The case keeps the baseline that it has.
            "baseline": (),
        }
        update |= {"baseline_logs": None, "baseline_spans": None}
    return scope.model_copy(update=update)


def _rows(new_evidence: NewEvidence) -> list[Row]:
    rows = [Row(f"{count} rows of {name}") for name, count in sorted(new_evidence.rows.items())]
    for item in new_evidence.evidence[:MAX_NEW]:
        cut = f", cut: {plain(item.cut, 100)}" if item.cut else ""
        rows.append(Row(f"{item.id}: {item.rows} rows of {item.kind}{cut}; asked", item.query))
    for gap in new_evidence.gaps[:MAX_NEW]:
        rows.append(Row(f"missing {gap.kind}:", gap.reason))
    ordered = sorted(new_evidence.new, key=lambda finding: -finding.strength)
    return rows + [_finding(finding) for finding in ordered[:MAX_NEW]]


def _finding(finding: Finding) -> Row:
    onset = f"; onset {moment(finding.onset)}" if finding.onset is not None else ""
    return Row(
        f"{finding.sentence}{onset}; strength {number(finding.strength, 2)}", finding=finding
    )


def _what_changed(new_evidence: NewEvidence) -> str:
    before, after = new_evidence.before, new_evidence.after
    phrase = f"New findings: {len(new_evidence.new)}. "
    if _top(before) != _top(after) or before.verdict != after.verdict:
        subject, kind, change = _top(after)
        first = (
            f"the first cause is {kind} of {subject}{f', change {change}' if change else ''}"
            if subject
            else ""
        )
        phrase += (
            f"Code's decision changed: verdict "
            f"{after.verdict.value}{'; ' + first if first else ''}."
        )
    else:
        phrase += "Code's verdict and first cause are as before."
    gone = [f.id for f in before.findings if f.id not in {g.id for g in after.findings}]
    return phrase + (f" No longer there: {', '.join(gone[:MAX_NEW])}." if gone else "")


def _top(diagnosis: Diagnosis) -> tuple[str, str, str]:
    top = min(diagnosis.causes, key=lambda c: c.rank, default=None)
    return (top.subject, top.kind, top.change or "") if top else ("", "", "")


def collect_tool(connectors: Sequence[Connector]) -> Tool:
    """The tool, naming what can be asked. Raises EvidenceError without a connector."""
    able = askable(connectors)
    if not able:
        raise EvidenceError("connectors", "none can be asked")
    names = "; ".join(f"{c.name}: {', '.join(c.kinds)}" for c in able)
    return Tool(
        "collect",
        "Ask a connector for services that were not asked about yet, or for other times. What it "
        "brings becomes "
        f"evidence, is analysed by code, and new findings get ids. Connectors: {names}.",
        CollectArguments,
        collect,
    )
