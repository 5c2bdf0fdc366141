"""`finding`: everything about a finding: its numbers, the evidence and query behind it, its series
as a sparkline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from pydantic import Field

from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain
from faultline.bot.answer.writer.earlier import is_memory
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    moment,
    quoted,
    span_of,
    sparkline,
)

MAX_DETAIL = 400
MAX_LIST = 24


class FindingArguments(Arguments):
    ids: list[str] = Field(min_length=1, max_length=6, description="Ids of findings, such as F3.")


async def findings(model_session: ModelSession, arguments: FindingArguments) -> CallResult:
    """The findings of these ids."""
    # Findings that memory brought are about earlier incidents.
    findings_by_id = {f.id: f for f in model_session.findings if not is_memory(f)}
    requested_findings = [
        findings_by_id[i]
        # Models often write an id as they see it, in brackets.
        for i in dict.fromkeys(i.strip("[]() ") for i in arguments.ids)
        if i in findings_by_id
    ]
    if not requested_findings:
        raise InvalidCall(f"no such finding; there are {', '.join(list(findings_by_id)[:60])}")
    rows = [row for finding in requested_findings for row in _rows(model_session.case, finding)]
    return CallResult(rows, "findings computed by code; quoted parts are foreign text")


def _rows(case: Case, finding: Finding) -> list[Row]:
    """Its sentence, then lines for its numbers, its details, and each query behind it."""
    phrase = f"{finding.kind} of {plain(finding.subject)}: {finding.sentence}"
    if finding.onset is not None:
        phrase += f" Onset {moment(finding.onset)}"
        uncertainty = finding.onset_uncertainty_s
        phrase += f" within {number(uncertainty, 2)} s." if uncertainty else "."
    phrase += f" Strength {number(finding.strength, 2)}."
    rows = [Row(f"{phrase} {_spark(case, finding) or ''}".strip(), finding=finding)]
    numbers = [f"{name} {number(value)}" for name, value in finding.numbers.items()]
    if numbers:
        rows.append(Row(f"{finding.id} numbers: {', '.join(numbers[:MAX_LIST])}"))
    for name, value in list(finding.details.written().items())[:MAX_LIST]:
        if value not in (None, "", [], {}):
            rows.append(Row(f"{finding.id} {plain(name, 60)}:", quoted(_short(value), MAX_DETAIL)))
    for item in [e for e in case.evidence if e.id in finding.evidence][:4]:
        window = f", {span_of([item.window])}" if item.window else ""
        text = f"{finding.id} rests on {item.id} of {plain(item.source, 60)}{window}; asked"
        rows.append(Row(text, quoted(item.query, MAX_DETAIL)))
    return rows


def _spark(case: Case, finding: Finding) -> str | None:
    series = finding.series
    if series.get("table") != "metrics":
        return None
    rows = case.metrics.filter(
        pl.col("service") == series.get("service"),
        pl.col("signal") == series.get("signal"),
        pl.col("value").is_finite(),
    )
    windows = [*case.scope.baseline[:1], case.scope.incident]
    start, end = min(w.start for w in windows), max(w.end for w in windows)
    rows = rows.filter(pl.col("time") >= start, pl.col("time") <= end)
    return sparkline(rows["time"], rows["value"], start, end) if rows.height else None


def _short(value: Any) -> str:
    """A detail in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {_short(v)}" for k, v in list(value.items())[:MAX_LIST])
    if isinstance(value, (list, tuple)):
        return ", ".join(_short(v) for v in value[:MAX_LIST])
    return number(value) if isinstance(value, float) else str(value)


FINDING = Tool(
    "finding",
    "All about findings: numbers, details, series as a sparkline over baseline and incident, "
    "evidence and queries.",
    FindingArguments,
    findings,
)
