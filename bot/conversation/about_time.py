"""Answers about time: since when, is it over, what changed before it, in which order, and did it
happen before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import polars as pl

from faultline.analysis.case.earlier import KIND as EARLIER
from faultline.analysis.case.earlier import RECORD
from faultline.analysis.changes.nearby import NEAR, RULED_OUT
from faultline.analysis.kinds.finding_details import change_named, changes_named
from faultline.analysis.metrics.recovery import KIND as CAME_BACK
from faultline.analysis.vocabulary import Finding, Verdict
from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.answer.lines import at, span_of
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText

MOST = 8
BEFORE = timedelta(hours=6)
"""Changes older than this are not weighed: `faultline.analysis.changes.nearby`."""
FRESH = timedelta(minutes=10)
"""A case that ends longer ago says nothing about now."""


def since(answered: AnsweredCase) -> AnswerText:
    """When it began, and what began with it."""
    alert, diagnosis, first = answered.case.alert, answered.diagnosis, answered.first
    onset = diagnosis.impact.since or (first.onset if first else None)
    moment = "the time you asked about" if alert.is_question else "the alert"
    if onset is None:
        fired = "You asked about what began" if alert.is_question else "The alert fired"
        return AnswerText(
            lead=f"{fired} at {at(alert.started_at)}; when the trouble itself began was not found.",
            lines=tuple(answered.statement(m, bold="Missing") for m in diagnosis.missing[:3]),
        )
    before = alert.started_at - onset
    order = f"before {moment}" if before > timedelta(0) else f"after {moment}"
    sentence = f"Since {at(onset)}, {span_of(before)} {order}."
    # "0 s before the alert" helps nobody.
    if abs(before) < timedelta(seconds=1):
        then = moment if alert.is_question else "when the alert fired"
        sentence = f"Since {at(onset)}, {then}."
    cited = [*diagnosis.impact.findings, *(first.findings if first else ())]
    findings = [f for f in answered.some(cited) if _began_with(f, onset) and f.kind != NEAR]
    findings.sort(key=_onset)
    lines = tuple(answered.line(f, clock(f.onset)) for f in findings[:4])
    return AnswerText(lead=sentence, lines=lines, more=_uncertainty(findings))


def _began_with(finding: Finding, onset: datetime) -> bool:
    return finding.onset is not None and finding.onset >= onset


def still(answered: AnsweredCase) -> AnswerText:
    """Whether it was over when the data of the case ends, and how old that data is."""
    sentence, lines = _state_at_the_end(answered)
    resolved = answered.investigation.resolved_at
    if resolved is not None:
        lines.append(answered.statement(f"The alert itself was resolved at {at(resolved)}"))
    age = max(answered.now - answered.case.scope.incident.end, timedelta(0))
    more: tuple[str, ...] = ()
    if age > FRESH:
        ago = f"That was {span_of(age)} ago."
        more = (f"{ago} To investigate what is now, ask: what about the last 30 minutes?",)
    return AnswerText(lead=sentence, lines=tuple(lines), more=more)


def _state_at_the_end(answered: AnsweredCase) -> tuple[str, list[AnswerLine]]:
    """Whether it was over when the data ends, and the findings that show it."""
    end = clock(answered.case.scope.incident.end)
    verdict = answered.diagnosis.verdict
    back = _of_kind(answered, CAME_BACK)
    if verdict is Verdict.RECOVERED or back:
        return f"It had recovered by {end} UTC.", [answered.line(f) for f in back[:3]]
    if verdict is Verdict.NO_ACTIVE_INCIDENT:
        return f"Nothing was wrong in what I saw until {end} UTC.", []
    symptoms = answered.some(answered.diagnosis.impact.findings)
    out = [f for f in symptoms if not f.details.recovered]
    if out:
        sentence = f"It was still going on at {end} UTC, where my data ends."
        return sentence, [answered.line(f, "Still out") for f in out[:3]]
    return f"I cannot say: no symptom was measured until {end} UTC, where my data ends.", []


def _of_kind(answered: AnsweredCase, *kinds: str) -> list[Finding]:
    return [f for f in answered.findings.values() if f.kind in kinds]


def changes(answered: AnsweredCase) -> AnswerText:
    """The changes before the onset: the one to blame, those that are near, and those ruled out."""
    first = answered.first
    near = _of_kind(answered, NEAR)
    blamed = []
    if first is not None and first.change:
        blamed = [f for f in near if change_named(f) == first.change]
    other_findings = [f for f in near if f not in blamed]
    ruled_out = _of_kind(answered, RULED_OUT)
    authors = _authors(answered)
    lines = [_by(answered.line(f, "To blame"), authors.get(change_named(f))) for f in blamed]
    lines += [_by(answered.line(f, "Near"), authors.get(change_named(f))) for f in other_findings]
    lines += [answered.line(f, "Ruled out") for f in ruled_out]
    reported_ids = changes_named([*near, *ruled_out])
    rest = list(_other_changes(answered, reported_ids))
    opening = _changes_opening(answered, bool(blamed), len(near) + len(ruled_out) + len(rest))
    shown = (*lines, *rest)
    more = (f"{len(shown) - MOST} more on the page",) if len(shown) > MOST else ()
    return AnswerText(lead=opening, lines=tuple(shown[:MOST]), more=more)


def _authors(answered: AnsweredCase) -> dict[str | None, str]:
    rows = answered.case.changes.select("id", "author").drop_nulls()
    return {change: plain(author, 40) for change, author in rows.iter_rows()}


def _by(line: AnswerLine, author: str | None) -> AnswerLine:
    return line.model_copy(update={"text": f"{line.text}, by {author}"}) if author else line


def timeline(answered: AnsweredCase) -> AnswerText:
    """What began when, the alert among it."""
    first, alert = answered.first, answered.case.alert
    cited = [*(first.findings if first else ()), *answered.diagnosis.impact.findings]
    fired = answered.statement(f"The alert fired: {alert.title}", bold=clock(alert.started_at))
    rows = [
        *_timed_lines(answered, answered.some(cited)),
        (alert.started_at, fired),
        *_timed_lines(answered, _of_kind(answered, CAME_BACK)),
    ]
    rows.sort(key=lambda row: row[0])
    lines = tuple(line for _, line in rows[:12])
    return AnswerText(lead="In the order of their onsets (UTC):", lines=lines)


def _timed_lines(
    answered: AnsweredCase, findings: Iterable[Finding]
) -> Iterator[tuple[datetime, AnswerLine]]:
    for finding in findings:
        if finding.onset:
            yield finding.onset, answered.line(finding, clock(finding.onset))


def before(answered: AnsweredCase) -> AnswerText:
    """What memory knows: how often, and whether it is the same cause as before."""
    findings = _of_kind(answered, EARLIER, RECORD)
    if findings:
        return AnswerText(
            lead="What I remember; it is no evidence:",
            lines=tuple(answered.line(f) for f in findings[:5]),
        )
    if answered.case.earlier.asked_at is None:
        return AnswerText(lead="I did not look into earlier investigations for this one.")
    return AnswerText(
        lead="Not that I know: I remember no earlier investigation of this alert or its services."
    )


def clock(time: datetime | None) -> str:
    """`14:02:10`."""
    return f"{time:%H:%M:%S}" if time else ""


def _other_changes(answered: AnsweredCase, reported_ids: set[str]) -> Iterator[AnswerLine]:
    """Changes of the case that no finding speaks of, the latest before the end first."""
    table, window = answered.case.changes, answered.case.scope.incident
    if not table.height:
        return
    onset = answered.diagnosis.impact.since or answered.case.alert.started_at
    near = table.filter(pl.col("time") >= onset - BEFORE, pl.col("time") <= window.end)
    # Findings cover some of these already, so read more than are shown.
    latest = near.sort("time", descending=True).head(4 * MOST)
    for row in latest.iter_rows(named=True):
        if str(row["id"]) not in reported_ids:
            yield AnswerLine(text=change_text(row), bold=clock(row["time"]))


def change_text(row: Mapping[str, Any]) -> str:
    """`deploy v2.3.1 of payments by ada: Retry declined cards`."""
    kind, name = plain(str(row["kind"]), 20), plain(str(row["id"]), 40)
    text = f"{kind} {name} of {plain(str(row['service']), 60)}"
    if row.get("author"):
        text += f" by {plain(str(row['author']), 40)}"
    if row.get("title"):
        text += f": {plain(str(row['title']), 80)}"
    return text


def _changes_opening(answered: AnsweredCase, blamed: bool, count: int) -> str:
    if blamed and count > 1:
        return f"One of the {count} changes that I know of is to blame:"
    if blamed:
        return "One change, and it is to blame:"
    if count:
        changes = counted(count, "change")
        if answered.first:
            return f"{changes} around it, and none that the first cause rests on:"
        return f"{changes} around it, and none that is to blame for anything:"
    return no_changes(answered)


def no_changes(answered: AnsweredCase, of: str = "") -> str:
    """Why no change is known: a source that failed leaves a gap even when another one was
    collected."""
    for gap in answered.case.gaps:
        if gap.kind == "changes":
            reason = f"{plain(gap.source, 40)}: {plain(gap.reason, 160)}"
            return f"I don't know{of}: I couldn't collect changes ({reason})."
    if any(e.kind == "changes" for e in answered.case.evidence):
        return f"I know of no change{of} before the onset."
    return f"I don't know{of}: no source of changes is connected."


def _uncertainty(findings: list[Finding]) -> tuple[str, ...]:
    onset_uncertainty_ses = [f.onset_uncertainty_s for f in findings if f.onset_uncertainty_s]
    if not onset_uncertainty_ses:
        return ()
    return (f"Onsets are known to about {span_of(timedelta(seconds=max(onset_uncertainty_ses)))}.",)


def _onset(finding: Finding) -> float:
    return finding.onset.timestamp() if finding.onset else 0.0
