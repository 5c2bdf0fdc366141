"""`finding`: everything about a finding: its numbers, the evidence and query behind it, its series
as a sparkline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl
from pydantic import Field

from analysis.case.folder import Case
from analysis.vocabulary import Finding
from bot.answer.writer.earlier import is_memory
from bot.investigation.model.bench import Bench
from bot.investigation.model.tools.found import (
    Arguments,
    Found,
    NotFound,
    Tool,
    moment,
    span_of,
    sparkline,
)

MAX_DETAIL = 400
MAX_LIST = 24


class FindingArguments(Arguments):
    ids: list[str] = Field(min_length=1, max_length=6, description="Ids of findings, such as F3.")


async def findings(bench: Bench, asked: FindingArguments) -> Found:
    """The findings of these ids."""
    known = {f.id: f for f in bench.findings if not is_memory(f)}
    wanted = [known[i] for i in dict.fromkeys(i.strip("[]() ") for i in asked.ids) if i in known]
    if not wanted:
        raise NotFound(f"no such finding; there are {', '.join(list(known)[:60])}")
    return Found(
        [_row(bench.case, f) for f in wanted],
        "findings computed by code; quoted parts are foreign text",
    )


def _row(case: Case, finding: Finding) -> dict[str, Any]:
    behind = [e for e in case.evidence if e.id in finding.evidence][:4]
    return {
        "id": finding.id,
        "kind": finding.kind,
        "subject": finding.subject,
        "signal": finding.signal,
        "sentence": finding.sentence,
        "onset": moment(finding.onset),
        "onset_uncertainty_s": finding.onset_uncertainty_s,
        "strength": finding.strength,
        "numbers": dict(finding.numbers),
        "sparkline": _spark(case, finding),
        "details": {
            str(k): _short(v) for k, v in list(finding.details.written().items())[:MAX_LIST]
        },
        "evidence": [
            {
                "id": e.id,
                "source": e.source,
                "query": e.query,
                "window": span_of([e.window]) if e.window else None,
            }
            for e in behind
        ],
    }


def _spark(case: Case, finding: Finding) -> str | None:
    given = finding.series
    if given.get("table") != "metrics":
        return None
    rows = case.metrics.filter(
        pl.col("service") == given.get("service"),
        pl.col("signal") == given.get("signal"),
        pl.col("value").is_finite(),
    )
    windows = [*case.scope.baseline[:1], case.scope.incident]
    start, end = min(w.start for w in windows), max(w.end for w in windows)
    rows = rows.filter(pl.col("time") >= start, pl.col("time") <= end)
    return sparkline(rows["time"], rows["value"], start, end) if rows.height else None


def _short(value: Any) -> Any:
    if isinstance(value, str):
        return value[:MAX_DETAIL]
    if isinstance(value, Mapping):
        return {str(k): _short(v) for k, v in list(value.items())[:MAX_LIST]}
    if isinstance(value, (list, tuple)):
        return [_short(v) for v in value[:MAX_LIST]]
    return value


FINDING = Tool(
    "finding",
    "All about findings: numbers, details, series as a sparkline over baseline and incident, "
    "evidence and queries.",
    FindingArguments,
    findings,
)
