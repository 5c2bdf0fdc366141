"""`changes`: deploys, configuration, flags and merges; with an id, the change's diff line by
line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from pydantic import Field

from faultline.analysis.kinds.finding_details import ObservationDetails, change_finding
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.model.model_session import ModelSession
from faultline.bot.investigation.model.tools.contract import (
    MOST_ROWS,
    Arguments,
    CallResult,
    InvalidCall,
    Row,
    Tool,
    case_service,
    from_evidence,
    has,
    iso,
    moment,
    observation,
    quoted,
    short_names,
)
from faultline.bot.runtime.threads import in_thread

MOST_LINES = 80
"""Of a diff in one result."""
LONGEST_DIFF = 400_000
"""Characters that are read."""
_FILE = re.compile(r"(?:\+\+\+|---) (?:[ab]/)?(\S{1,300})")
_HEADER = re.compile(r"diff --git |index [0-9a-f]|new file mode|deleted file mode|similarity ")
SIDES = {"+": "added", "-": "removed"}


class ChangeArguments(Arguments):
    service: str | None = Field(default=None, description="The service, or null for all.")
    id: str | None = Field(
        default=None, description="A change's id (or how it begins) for its diff, else null."
    )
    contains: str | None = Field(
        default=None, description="With id: only lines of the diff with these words, or null."
    )
    from_line: int = Field(
        default=1, ge=1, le=10_000_000, description="With id: the first line of the diff wanted."
    )


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff: its number in the diff from 1, its file, and which side it is of."""

    number: int
    file: str
    side: str
    text: str


async def changes(model_session: ModelSession, arguments: ChangeArguments) -> CallResult:
    """The changes nearest to the alert, or one with its diff."""
    table = model_session.case.changes
    provenance = (
        f"{from_evidence(model_session.case.evidence, 'changes')}; quoted parts are foreign text"
    )
    if not table.height:
        raise InvalidCall("the case holds no changes")
    if arguments.id:
        requested_table = table.filter(pl.col("id").str.starts_with(arguments.id))
        if not requested_table.height:
            raise InvalidCall("no change of this id; `changes` without an id lists them")
        ids = requested_table["id"].unique().to_list()
        if len(ids) > 1:
            raise InvalidCall(f"several changes begin so: {short_names(ids)}")
        rows, cut = await in_thread(_diff, model_session, requested_table, arguments)
        return CallResult(rows, provenance, cut=cut)
    if arguments.service:
        service = case_service(model_session, arguments.service)
        table = table.filter(pl.col("service") == service)
        if not table.height:
            raise InvalidCall(f"no change of {service}; without a service all are listed")
    away = (pl.col("time") - model_session.case.alert.started_at).abs()
    # Choose by the distance from the alert, but show in the order of time.
    nearest = table.sort(away).head(MOST_ROWS).sort("time", descending=True)
    left_out = table.height - nearest.height
    cut = f"{left_out} further from the alert; narrow with service" if left_out else ""
    return CallResult(
        [_row(model_session, row) for row in nearest.iter_rows(named=True)], provenance, cut=cut
    )


def _row(model_session: ModelSession, row: Mapping[str, Any]) -> Row:
    """The change; `see F3` names what the analysis says of it."""
    finding = change_finding(model_session.diagnosis.findings, row["id"])
    service, kind = plain(row["service"] or "no service"), plain(row["kind"], 20)
    text = f"{moment(row['time'])} {kind} {plain(row['id'], 100)} of {service}"
    text += f" by {plain(row['author'], 60)}" if row["author"] else ""
    text += f", diff of {row['diff'].count(chr(10)) + 1} lines" if row["diff"] else ", no diff"
    text += f" (see {finding.id})" if finding is not None else ""
    quote = quoted(str(row["title"] or ""))
    return Row(text, quote, _change(model_session, row, quote))


def _change(model_session: ModelSession, row: Mapping[str, Any], quote: str) -> Finding:
    service = str(row["service"] or "")
    phrase = f"{plain(row['kind'], 20)} {plain(row['id'], 100)} of {plain(service) or 'no service'}"
    return observation(
        service,
        str(row["kind"]),
        f"{phrase} at {moment(row['time'])}.",
        ObservationDetails(
            about="change", time=iso(row["time"]), quote=quote, change=str(row["id"])
        ),
        evidence=model_session.case.evidence_ids("changes"),
        series={"table": "changes", "id": str(row["id"])},
    )


def _diff(
    model_session: ModelSession, matching_changes: pl.DataFrame, arguments: ChangeArguments
) -> tuple[list[Row], str]:
    """What each source says of the change, then the lines of the longest diff."""
    rows = []
    for row in matching_changes.iter_rows(named=True):
        head, files = _row(model_session, row), plain(str(row["files"] or ""), 400)
        rows.append(replace(head, text=f"{head.text}; files {files}" if files else head.text))
    # Several sources may tell of one change. The longest diff is the least cut.
    longest = pl.col("diff").fill_null("").str.len_bytes()
    row = matching_changes.sort(longest, descending=True).row(0, named=True)
    words = (arguments.contains or "").lower()
    lines = []
    for line in diff_lines(str(row["diff"] or "")[:LONGEST_DIFF]):
        if line.number >= arguments.from_line and words in line.text.lower():
            lines.append(line)
    rows += [_diff_row(model_session, row, line) for line in lines[:MOST_LINES]]
    left_out = len(lines) - MOST_LINES
    if left_out <= 0:
        return rows, ""
    return rows, f"{left_out} more lines; from_line={lines[MOST_LINES].number}, or contains"


def _diff_row(model_session: ModelSession, row: Mapping[str, Any], line: DiffLine) -> Row:
    quote = quoted(line.text)
    where = f"line {line.number}"
    where += f" of {plain(line.file, 120)}" if line.file else ""
    service = str(row["service"] or "")
    phrase = f"{plain(row['kind'], 20)} {plain(row['id'], 100)} has {line.side} in its diff"
    finding = observation(
        service,
        str(row["kind"]),
        f'{phrase}, {where}: "{plain(quote, 160)}".',
        ObservationDetails(
            about="diff_line",
            time=iso(row["time"]),
            quote=quote,
            change=str(row["id"]),
            file=plain(line.file, 300),
            line=line.number,
            side=line.side,
        ),
        evidence=model_session.case.evidence_ids("changes"),
        series={"table": "changes", "id": str(row["id"])},
    )
    return Row(f"{where} {line.side}", quote, finding)


def diff_lines(diff: str) -> Iterator[DiffLine]:
    """The lines of a unified diff that hold something; headers and hunk marks only tell where."""
    file, lines = "", diff.splitlines()
    for number, text in enumerate(lines, start=1):
        # Taking out an SQL comment looks like the name of a file, but no second name follows.
        following = lines[number] if number < len(lines) else ""
        is_old = text.startswith("--- ") and following.startswith("+++ ")
        is_new = text.startswith("+++ ") and number > 1 and lines[number - 2].startswith("--- ")
        if is_old or is_new:
            named = _FILE.match(text)
            # A removed file keeps the name of its old side.
            file = named[1] if named is not None and named[1] != "/dev/null" else file
        elif text.startswith("@@") or _HEADER.match(text) or not text[1:].strip():
            continue
        else:
            side = SIDES.get(text[:1], "unchanged")
            yield DiffLine(number, file, side, text[1:] if text[:1] in "+- " else text)


CHANGES = Tool(
    "changes",
    "Deploys, configuration, flags, merges, nearest to the alert; with an id the lines of the "
    "change's diff, each to be cited.",
    ChangeArguments,
    changes,
    has("changes"),
)
