"""Answers about how far it reaches, what was looked at, and what is missing."""

from __future__ import annotations

from collections import Counter

import polars as pl

from analysis.changes.nearby import RULED_OUT
from analysis.wording.phrases import counted, number, plain
from bot.answer.foreign_text import one_line
from bot.answer.lines import at
from bot.conversation.answered_case import AnsweredCase
from bot.intake.questions.slack_question import AnswerText

MOST = 8


def impact(answered: AnsweredCase) -> AnswerText:
    """Who and what is affected."""
    told = answered.diagnosis.impact
    lines = [answered.said(told.sentence, told.findings[:3])]
    if told.services:
        shown = ", ".join(one_line(s, 60) for s in told.services[:MOST])
        left = len(told.services) - MOST
        lines.append(
            answered.said(f"{shown}{f' and {left} more' if left > 0 else ''}", bold="Services")
        )
    if told.since is not None:
        lines.append(answered.said(at(told.since), bold="Since"))
    numbers = {k: v for k, v in told.numbers.items() if k in _SAID}
    lines += [answered.said(number(v), bold=_SAID[k]) for k, v in sorted(numbers.items())]
    return AnswerText(lead="Affected, as far as it was measured:", lines=tuple(lines[:MOST]))


def missing(answered: AnsweredCase) -> AnswerText:
    """What could not be had, and what would be needed."""
    lines = [answered.said(m) for m in answered.diagnosis.missing]
    lines += [
        answered.said(g.reason, bold=one_line(f"{g.source} {g.kind}", 60))
        for g in answered.case.gaps
    ]
    cut = [e for e in answered.case.evidence if e.cut]
    lines += [
        answered.said(f"not all of it: {e.cut}", bold=one_line(f"{e.source} {e.kind}", 60))
        for e in cut
    ]
    if not lines:
        return AnswerText(
            lead="Nothing that was asked for is missing.", lines=checked(answered).lines[:4]
        )
    more = (f"{len(lines) - MOST} more on the page",) if len(lines) > MOST else ()
    return AnswerText(lead="What I could not see:", lines=tuple(lines[:MOST]), more=more)


def checked(answered: AnsweredCase) -> AnswerText:
    """What was asked of whom, and which services look fine."""
    rows: Counter[tuple[str, str]] = Counter()
    for item in answered.case.evidence:
        rows[(item.source, item.kind)] += item.rows or 0
    lines = [
        answered.said(
            f"{counted(n, 'row')}" if n else "collected", bold=one_line(f"{source} {kind}", 60)
        )
        for (source, kind), n in rows.most_common(MOST)
    ]
    window = answered.case.scope.incident
    fine = fine_services(answered)
    if fine:
        lines.append(
            answered.said(
                f"{', '.join(plain(s, 60) for s in fine[:MOST])}", bold="Looked at and found fine"
            )
        )
    findings = counted(len(answered.findings), "finding")
    lead = f"{at(window.start)} to {window.end:%H:%M:%S}, {findings}:"
    return AnswerText(lead=lead, lines=tuple(lines))


def fine_services(answered: AnsweredCase) -> list[str]:
    """Services with series that no finding is about."""
    table = answered.case.metrics
    if not table.height:
        return []
    seen = (
        table.filter(pl.col("value").is_finite())["service"].drop_nulls().unique().sort().to_list()
    )
    troubled = {f.subject for f in answered.findings.values() if f.kind != RULED_OUT}
    return [s for s in seen if s not in troubled]


_SAID = {
    "failed_percent": "Failed requests, %",
    "failed_requests": "Failed requests, about",
    "users": "Users named in error lines",
    "affected_callers": "Callers with symptoms",
}
