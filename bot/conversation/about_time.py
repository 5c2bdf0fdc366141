"""Answers about time: since when, is it over, what changed before it, in which order, and did it
happen before."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import polars as pl

from analysis.case.earlier import KIND as EARLIER
from analysis.case.earlier import RECORD
from analysis.changes.nearby import NEAR, RULED_OUT
from analysis.kinds.finding_details import change_named, changes_named
from analysis.metrics.recovery import KIND as CAME_BACK
from analysis.vocabulary import Finding, Verdict
from analysis.wording.phrases import counted, plain
from bot.answer.lines import at, span_of
from bot.conversation.answered_case import AnsweredCase
from bot.intake.questions.slack_question import AnswerLine, AnswerText

MOST = 8
BEFORE = timedelta(hours=6)
"""Changes older than this are not weighed: `analysis.changes.nearby`."""
FRESH = timedelta(minutes=10)
"""A case that ends longer ago says nothing about now."""


def since(answered: AnsweredCase) -> AnswerText:
    """When it began, and what began with it."""
    alert, diagnosis, first = answered.case.alert, answered.diagnosis, answered.first
    onset = diagnosis.impact.since or (first.onset if first else None)
    if onset is None:
        return AnswerText(
            lead=f"The alert fired at {at(alert.started_at)}; when the trouble itself began was "
            "not found.",
            lines=tuple(answered.said(m, bold="Missing") for m in diagnosis.missing[:3]),
        )
    before = alert.started_at - onset
    order = "before the alert" if before > timedelta(0) else "after the alert"
    lead = f"Since {at(onset)}, {span_of(before)} {order}."
    if abs(before) < timedelta(seconds=1):
        lead = f"Since {at(onset)}, when the alert fired."
    cited = [*diagnosis.impact.findings, *(first.findings if first else ())]
    told = [
        f
        for f in answered.some(cited)
        if f.onset is not None and f.onset >= onset and f.kind != NEAR
    ]
    lines = tuple(answered.line(f, clock(f.onset)) for f in sorted(told, key=_onset)[:4] if f.onset)
    return AnswerText(lead=lead, lines=lines, more=_uncertainty(told))


def still(answered: AnsweredCase) -> AnswerText:
    """Whether it is over, as far as the case goes, and how old that is."""
    end = answered.case.scope.incident.end
    age = max(answered.now - end, timedelta(0))
    back = [f for f in answered.findings.values() if f.kind == CAME_BACK]
    out = [f for f in answered.some(answered.diagnosis.impact.findings) if not f.details.recovered]
    if answered.diagnosis.verdict is Verdict.RECOVERED or back:
        lead, lines = f"It had recovered by {clock(end)} UTC.", [answered.line(f) for f in back[:3]]
    elif answered.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        lead, lines = f"Nothing was wrong in what I saw until {clock(end)} UTC.", []
    elif out:
        lead = f"It was still going on at {clock(end)} UTC, where my data ends."
        lines = [answered.line(f, "Still out") for f in out[:3]]
    else:
        lead, lines = (
            f"I cannot say: no symptom was measured until {clock(end)} UTC, where my data ends.",
            [],
        )
    resolved = answered.investigation.resolved_at
    if resolved is not None:
        lines.append(answered.said(f"The alert itself was resolved at {at(resolved)}"))
    more = (
        [f"That was {span_of(age)} ago. To look at now, ask: what about the last 30 minutes?"]
        if age > FRESH
        else []
    )
    return AnswerText(lead=lead, lines=tuple(lines), more=tuple(more))


def changes(answered: AnsweredCase) -> AnswerText:
    """The changes before the onset: the one to blame, those that are near, and those ruled out."""
    first = answered.first
    near = [f for f in answered.findings.values() if f.kind == NEAR]
    blamed = [f for f in near if first and first.change and change_named(f) == first.change]
    others = [f for f in near if f not in blamed]
    ruled_out = [f for f in answered.findings.values() if f.kind == RULED_OUT]
    lines = [answered.line(f, "To blame") for f in blamed]
    lines += [answered.line(f, "Near") for f in others]
    lines += [answered.line(f, "Ruled out") for f in ruled_out]
    told = changes_named([*near, *ruled_out])
    rest = list(_other_changes(answered, told))
    lead = _changes_lead(answered, bool(blamed), len(near) + len(ruled_out) + len(rest))
    shown = (*lines, *rest)
    more = (f"{len(shown) - MOST} more on the page",) if len(shown) > MOST else ()
    return AnswerText(lead=lead, lines=tuple(shown[:MOST]), more=more)


def timeline(answered: AnsweredCase) -> AnswerText:
    """What began when, the alert among it."""
    first, alert = answered.first, answered.case.alert
    cited = [*(first.findings if first else ()), *answered.diagnosis.impact.findings]
    rows = [(f.onset, answered.line(f, clock(f.onset))) for f in answered.some(cited) if f.onset]
    rows.append(
        (
            alert.started_at,
            answered.said(f"The alert fired: {alert.title}", bold=clock(alert.started_at)),
        )
    )
    back = [
        (f.onset, answered.line(f, clock(f.onset)))
        for f in answered.findings.values()
        if f.kind == CAME_BACK and f.onset
    ]
    ordered = [line for _, line in sorted([*rows, *back], key=lambda row: row[0])]
    return AnswerText(lead="In the order of their onsets (UTC):", lines=tuple(ordered[:12]))


def before(answered: AnsweredCase) -> AnswerText:
    """What memory knows: how often, and whether an earlier cause shows again."""
    told = [f for f in answered.findings.values() if f.kind in (EARLIER, RECORD)]
    if told:
        return AnswerText(
            lead="What I remember; it is no evidence:",
            lines=tuple(answered.line(f) for f in told[:5]),
        )
    asked = answered.case.earlier.asked_at is not None
    if not asked:
        return AnswerText(lead="I did not look into earlier investigations for this one.")
    return AnswerText(
        lead="Not that I know: I remember no earlier investigation of this alert or its services."
    )


def clock(time: datetime | None) -> str:
    """`14:02:10`."""
    return f"{time:%H:%M:%S}" if time else ""


def _other_changes(answered: AnsweredCase, told: set[str]) -> Iterator[AnswerLine]:
    """Changes of the case that no finding speaks of, the latest before the end first."""
    table, window = answered.case.changes, answered.case.scope.incident
    if not table.height:
        return
    onset = answered.diagnosis.impact.since or answered.case.alert.started_at
    near = table.filter(pl.col("time") >= onset - BEFORE, pl.col("time") <= window.end).sort(
        "time", descending=True
    )
    for row in near.head(4 * MOST).iter_rows(named=True):
        if str(row["id"]) not in told:
            by = f" by {plain(str(row['author']), 40)}" if row.get("author") else ""
            what = (
                f"{plain(str(row['kind']), 20)} {plain(str(row['id']), 40)} of "
                f"{plain(str(row['service']), 60)}"
            )
            title = f": {plain(str(row['title']), 80)}" if row.get("title") else ""
            yield AnswerLine(text=f"{what}{by}{title}", bold=clock(row["time"]))


def _changes_lead(answered: AnsweredCase, blamed: bool, known: int) -> str:
    if blamed:
        return (
            f"One of the {known} changes that I know of is to blame:"
            if known > 1
            else "One change, and it is to blame:"
        )
    if known:
        none = (
            "none that the first cause rests on"
            if answered.first
            else "none that is to blame for anything"
        )
        return f"{counted(known, 'change')} around it, and {none}:"
    asked = any(e.kind == "changes" for e in answered.case.evidence)
    gaps = [g for g in answered.case.gaps if g.kind == "changes"]
    if gaps:
        return (
            f"I do not know: changes from {plain(gaps[0].source, 40)} could not be had "
            f"({plain(gaps[0].reason, 160)})."
        )
    return (
        "None that I know of before the onset."
        if asked
        else "I do not know: no source of changes was asked."
    )


def _uncertainty(told: list[Finding]) -> tuple[str, ...]:
    known = [f.onset_uncertainty_s for f in told if f.onset_uncertainty_s]
    return (
        (f"Onsets are known to about {span_of(timedelta(seconds=max(known)))}.",) if known else ()
    )


def _onset(finding: Finding) -> float:
    return finding.onset.timestamp() if finding.onset else 0.0
