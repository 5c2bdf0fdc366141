"""Answers about the impact, what was checked, and what is missing."""

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
        shown = ", ".join(one_line(service, 60) for service in told.services[:MOST])
        left = len(told.services) - MOST
        if left > 0:
            shown += f" and {left} more"
        lines.append(answered.said(shown, bold="Services"))
    if told.since is not None:
        lines.append(answered.said(at(told.since), bold="Since"))
    for name, value in sorted(told.numbers.items()):
        if name in _SAID:
            lines.append(answered.said(number(value), bold=_SAID[name]))
    return AnswerText(lead="Affected, as far as it was measured:", lines=tuple(lines[:MOST]))


def missing(answered: AnsweredCase) -> AnswerText:
    """What could not be collected, and what would be needed."""
    lines = [answered.said(text) for text in answered.diagnosis.missing]
    for gap in answered.case.gaps:
        lines.append(answered.said(gap.reason, bold=one_line(f"{gap.source} {gap.kind}", 60)))
    for item in answered.case.evidence:
        if item.cut:
            of = one_line(f"{item.source} {item.kind}", 60)
            lines.append(answered.said(f"not all of it: {item.cut}", bold=of))
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
    lines = []
    for (source, kind), count in rows.most_common(MOST):
        collected = counted(count, "row") if count else "collected"
        lines.append(answered.said(collected, bold=one_line(f"{source} {kind}", 60)))
    window = answered.case.scope.incident
    fine = fine_services(answered)
    if fine:
        shown = ", ".join(plain(service, 60) for service in fine[:MOST])
        lines.append(answered.said(shown, bold="Looked at and found fine"))
    findings = counted(len(answered.findings), "finding")
    lead = f"{at(window.start)} to {window.end:%H:%M:%S}, {findings}:"
    return AnswerText(lead=lead, lines=tuple(lines))


def fine_services(answered: AnsweredCase) -> list[str]:
    """Services with series that no finding is about."""
    table = answered.case.metrics
    if not table.height:
        return []
    measured = table.filter(pl.col("value").is_finite())
    services = measured["service"].drop_nulls().unique().sort()
    with_findings = {f.subject for f in answered.findings.values() if f.kind != RULED_OUT}
    return [service for service in services.to_list() if service not in with_findings]


_SAID = {
    "failed_percent": "Failed requests, %",
    "failed_requests": "Failed requests, about",
    "users": "Users named in error lines",
    "affected_callers": "Callers with symptoms",
}
