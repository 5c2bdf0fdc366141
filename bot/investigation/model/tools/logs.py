"""`logs`: log lines as templates with their counts in incident and baseline, or single lines around
a time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

import polars as pl
from pydantic import AwareDatetime, Field

from faultline.analysis.case.tables import ORIGIN
from faultline.analysis.case.windows import log_windows
from faultline.analysis.kinds.finding_details import LineDetails, ObservationDetails
from faultline.analysis.logs.counts import distinct_lines, row_items
from faultline.analysis.logs.templates import template_counts
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    MOST_ROWS,
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    first_of,
    from_evidence,
    has,
    iso,
    moment,
    observation,
    quoted,
    short_names,
    window_of,
)
from faultline.bot.runtime.threads import in_thread

LONGEST = timedelta(hours=24)
AROUND = timedelta(minutes=5)
BAD = re.compile(r"(?i)^(err|error|fatal|crit|critical|alert|emerg|emergency|panic|severe)")
NARROW = "narrow with service, contains, level, place, start or end"
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


class LogArguments(Arguments):
    show: Literal["templates", "lines"] = Field(
        default="templates",
        description="templates: kinds of lines, counted against the baseline. lines: single lines.",
    )
    service: str | None = Field(default=None, description="The service, or null for all.")
    contains: str | None = Field(
        default=None, description="Words as they stand in the lines, any case, or null."
    )
    level: str | None = Field(
        default=None, description="A level such as WARN, or 'error' for all that are errors."
    )
    place: str | None = Field(
        default=None, description="A pod, host, zone or other attribute of the lines, or null."
    )
    around: AwareDatetime | None = Field(
        default=None, description="Of lines: 5 minutes before and after, ISO 8601. Else null."
    )
    start: AwareDatetime | None = Field(
        default=None, description="Of lines: from; null with start and end for the incident."
    )
    end: AwareDatetime | None = Field(default=None, description="Of lines: until, or null.")
    skip: int = Field(
        default=0, ge=0, le=1_000_000, description="Of lines: how many to leave out, to page on."
    )


async def logs(model_session: ModelSession, arguments: LogArguments) -> CallResult:
    """The templates of the matching lines, most in the incident first; or the lines by time."""
    service = case_service(model_session, arguments.service) if arguments.service else None
    if not model_session.case.logs.height:
        raise InvalidCall("the case holds no logs: `collect` may bring some")
    provenance = (
        f"{from_evidence(model_session.case.evidence, 'logs')}; quoted parts are foreign text"
    )
    lines = await in_thread(_matching, model_session, service, arguments)
    if arguments.show == "lines":
        rows, cut = await in_thread(_lines, model_session, lines, arguments)
    else:
        rows, cut = await in_thread(_templates, model_session, lines)
    if not rows:
        services = model_session.case.logs["service"].drop_nulls().unique().to_list()
        if service is not None and service not in services:
            there = short_names(services, 20) or "none"
            nothing = (
                f"the case holds no logs of {service}: `collect` may; there are logs of {there}"
            )
        else:
            nothing = "no line matches in that time"
        raise InvalidCall(nothing)
    return CallResult(rows, provenance, cut=cut)


def _matching(
    model_session: ModelSession, service: str | None, arguments: LogArguments
) -> pl.DataFrame:
    lines = model_session.case.logs
    if service is not None:
        lines = lines.filter(pl.col("service") == service)
    for column, part in (("message", arguments.contains), ("attributes", arguments.place)):
        if part:
            # A literal: a pattern of the model's could take for ever.
            text = pl.col(column).fill_null("").str.to_lowercase()
            lines = lines.filter(text.str.contains(part.lower(), literal=True))
    if arguments.level:
        level = pl.col("level").fill_null("")
        # "error" means every level that is one, whatever the system calls it.
        if BAD.match(arguments.level):
            lines = lines.filter(level.str.contains(BAD.pattern))
        else:
            requested_level = arguments.level.lower()
            lines = lines.filter(level.str.to_lowercase().str.starts_with(requested_level))
    return lines


def _lines(
    model_session: ModelSession, lines: pl.DataFrame, arguments: LogArguments
) -> tuple[list[Row], str]:
    start, end = arguments.start, arguments.end
    if arguments.around is not None:
        try:
            start, end = arguments.around - AROUND, arguments.around + AROUND
        except OverflowError:
            raise InvalidCall("`around` is at the edge of what a time can be") from None
    window = window_of(model_session, start, end, LONGEST)
    inside = lines.filter(pl.col("time").is_between(window.start, window.end)).sort("time")
    shown = inside.slice(arguments.skip, MOST_ROWS)
    rows = [_line(model_session, row) for row in shown.iter_rows(named=True)]
    left_out = inside.height - arguments.skip - len(rows)
    cut = f"{left_out} more; skip={arguments.skip + len(rows)}, or {NARROW}" if left_out > 0 else ""
    return rows, cut


def _line(model_session: ModelSession, row: Mapping[str, Any]) -> Row:
    service = str(row["service"] or "")
    quote = quoted(str(row["message"] or ""))
    phrase = f"{plain(service) or 'a line of no service'}"
    # `%f` gives microseconds: keep the milliseconds.
    phrase += f" logged at {row['time']:%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
    level = f" {plain(row['level'], 12)}" if row["level"] else ""
    evidence_ids = (row[ORIGIN],) if row[ORIGIN] else model_session.case.evidence_ids("logs")
    finding = observation(
        service,
        "logs",
        f"{phrase}{level}: {_brief(quote)}.",
        ObservationDetails(
            about="log_line",
            time=iso(row["time"]),
            quote=quote,
            trace_id=plain(row["trace_id"] or "", 64),
        ),
        evidence=evidence_ids,
        numbers=_quoted_numbers(quote),
        series={"table": "logs", "service": service} if service else {},
    )
    trace = f" trace {plain(row['trace_id'], 64)}" if row["trace_id"] else ""
    text = f"{row['time']:%H:%M:%S.%f}"[:-3] + f" {plain(service)}{level}{trace}"
    return Row(text, quote, finding)


def _brief(quote: str) -> str:
    return f'"{plain(quote, 120)}"'


def _templates(model_session: ModelSession, lines: pl.DataFrame) -> tuple[list[Row], str]:
    if not lines.height:
        return [], ""
    table = template_counts(distinct_lines(lines, log_windows(model_session.case))).sort(
        ["n", "n_before", "text"], descending=[True, True, False], maintain_order=True
    )
    shown, cut = first_of(list(table.iter_rows(named=True)), NARROW)
    return [_template(model_session, row) for row in shown], cut


def _template(model_session: ModelSession, row: dict[str, Any]) -> Row:
    n, before = int(row["n"]), int(row["n_before"])
    finding = _template_finding(model_session, row)
    text = f"{plain(str(row['service']))}{' error' if row['is_error'] else ''} lines: {n} in the "
    text += f"incident, {before} in the baseline"
    if row["first"] is not None:
        text += f", first at {moment(row['first'])}"
    analysis_finding = _analysis_finding(model_session, str(row["service"]), str(row["text"]))
    text += f" (see {analysis_finding.id})" if analysis_finding is not None else ""
    assert isinstance(finding.details, ObservationDetails)
    return Row(text, finding.details.quote, finding)


def _analysis_finding(model_session: ModelSession, service: str, template: str) -> Finding | None:
    for finding in model_session.diagnosis.findings:
        details = LineDetails.of(finding)
        # Details hold the first 400 characters of a template.
        if finding.subject == service and details and details.template == template[:400]:
            return finding
    return None


def _template_finding(model_session: ModelSession, row: dict[str, Any]) -> Finding:
    n, before, text = int(row["n"]), int(row["n_before"]), plain(str(row["text"]), 120)
    word = "error line" if row["is_error"] else "line"
    service, example = str(row["service"]), quoted(str(row["example"]))
    return observation(
        service,
        "logs",
        f"{counted(n, word)} in {plain(service)} in the incident, {before} in the "
        f'baseline: "{text}".',
        ObservationDetails(
            about="log_template",
            template=str(row["text"])[:400],
            example=plain(str(row["example"]), 300),
            quote=example,
            time=iso(row["first"]) if row["first"] is not None else "",
        ),
        evidence=row_items(row, model_session.case.evidence_ids("logs")),
        numbers={"count": n, "baseline_count": before, **_quoted_numbers(text)},
        # Only lines of a kind that the baseline lacks have an onset.
        onset=row["first"] if n and not before else None,
        series={"table": "logs", "service": service},
    )


def _quoted_numbers(text: str) -> dict[str, float]:
    """Numbers of foreign text, which may be quoted with it and never claimed."""
    matches = _NUMBER.findall(text)[:20]
    return {f"quoted_{place}": float(digits) for place, digits in enumerate(matches, start=1)}


LOGS = Tool(
    "logs",
    "Log lines: templates counted in incident and baseline, or single lines around a time, "
    "filtered by service, words, level, place.",
    LogArguments,
    logs,
    has("logs"),
)
