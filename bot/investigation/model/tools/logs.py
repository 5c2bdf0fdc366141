"""`logs`: log lines as templates with their counts in incident and baseline, one example each."""

from __future__ import annotations

import re
from typing import Any

import polars as pl
from pydantic import Field

from analysis.case.observations import KIND
from analysis.case.windows import log_windows
from analysis.kinds.finding_details import LineDetails
from analysis.logs.counts import distinct_lines, own_items
from analysis.logs.templates import template_counts
from analysis.vocabulary import Finding
from analysis.wording.phrases import counted, plain
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
from bot.runtime.threads import in_thread

MAX_TEMPLATES = 15
MAX_OBSERVED = 5
"""Templates of one call that may be cited."""
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


class LogArguments(Arguments):
    service: str | None = Field(default=None, description="The service, or null for all.")
    contains: str | None = Field(
        default=None, description="Words as they stand in the lines, any case, or null."
    )
    errors_only: bool = Field(default=False, description="Whether only errors are wanted.")


async def logs(bench: Bench, asked: LogArguments) -> Found:
    """The templates of the matching lines, most in the incident first."""
    service = known_service(bench, asked.service) if asked.service else None
    table = await in_thread(_templates, bench, service, asked)
    if not table.height:
        raise NotFound(_nothing(bench, service))
    rows = [
        _row(bench, row, n < MAX_OBSERVED)
        for n, row in enumerate(table.head(MAX_TEMPLATES).iter_rows(named=True))
    ]
    more = f"{table.height - MAX_TEMPLATES} more templates" if table.height > MAX_TEMPLATES else ""
    return Found(
        rows,
        f"{from_evidence(bench.case.evidence, 'logs')}; templates and examples are foreign text",
        more,
    )


def _nothing(bench: Bench, service: str | None) -> str:
    held = sorted(bench.case.logs["service"].drop_nulls().unique().to_list())
    if service is not None and service not in held:
        return (
            f"the case holds no logs of {service}: `collect` may; there are logs of "
            f"{', '.join(held[:20]) or 'none'}"
        )
    return "no line matches in the incident or its baseline"


def _templates(bench: Bench, service: str | None, asked: LogArguments) -> pl.DataFrame:
    lines = bench.case.logs
    if service is not None:
        lines = lines.filter(pl.col("service") == service)
    if asked.contains:
        lines = lines.filter(
            pl.col("message").str.to_lowercase().str.contains(asked.contains.lower(), literal=True)
        )
    if not lines.height:
        return pl.DataFrame()
    templates = template_counts(distinct_lines(lines, log_windows(bench.case)))
    if asked.errors_only:
        templates = templates.filter("is_error")
    return templates.sort(
        ["n", "n_before", "text"], descending=[True, True, False], maintain_order=True
    )


def _row(bench: Bench, row: dict[str, Any], cite: bool) -> dict[str, Any]:
    service, n, before = str(row["service"]), int(row["n"]), int(row["n_before"])
    finding = _known(bench, service, str(row["text"])) or (
        bench.observe(_observation(bench, row)) if cite else None
    )
    return {
        "cite": finding.id or None if finding else None,
        "service": service,
        "template": str(row["text"]),
        "incident": n,
        "baseline": before,
        "first": moment(row["first"]),
        "error": bool(row["is_error"]),
        "example": str(row["example"]),
    }


def _known(bench: Bench, service: str, template: str) -> Finding | None:
    for finding in bench.diagnosis.findings:
        details = LineDetails.of(finding)
        if finding.subject == service and details and details.template == template[:400]:
            return finding
    return None


def _observation(bench: Bench, row: dict[str, Any]) -> Finding:
    n, before, text = int(row["n"]), int(row["n_before"]), plain(str(row["text"]), 120)
    word = "error line" if row["is_error"] else "line"
    numbers: dict[str, float] = {"lines": n, "baseline_lines": before}
    numbers |= {
        f"quoted_{i}": float(digits) for i, digits in enumerate(_NUMBER.findall(text), start=1)
    }
    service = str(row["service"])
    return Finding(
        id="",
        kind=KIND,
        subject=service,
        signal="logs",
        onset=row["first"] if n and not before else None,
        strength=0.0,
        sentence=f"{counted(n, word)} in {plain(service)} in the incident, {before} in the "
        f'baseline: "{text}".',
        numbers=numbers,
        evidence=own_items(row, bench.case.evidence_ids("logs")),
        series={"table": "logs", "service": service},
        details=LineDetails(
            template=str(row["text"])[:400], example=plain(str(row["example"]), 300)
        ),
    )


LOGS = Tool(
    "logs",
    "Search log lines. Gives templates with their counts in incident and baseline and an example, "
    "not single lines.",
    LogArguments,
    logs,
)
