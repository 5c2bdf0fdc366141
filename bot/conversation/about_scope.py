"""Answers about the impact, what was checked, and what is missing."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from faultline.analysis.changes.nearby import RULED_OUT
from faultline.analysis.vocabulary import Evidence
from faultline.analysis.wording.amounts import amount, unit_of
from faultline.analysis.wording.names import signal_name, subject_name
from faultline.analysis.wording.phrases import counted, number, plain
from faultline.bot.answer.foreign_text import safe_url, single_line
from faultline.bot.answer.lines import SHOWN_BY, at
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText

MOST = 8


def impact(answered: AnsweredCase) -> AnswerText:
    """Who and what is affected."""
    case_impact = answered.diagnosis.impact
    lines = [answered.statement(case_impact.sentence, case_impact.findings[:3])]
    if case_impact.services:
        shown = ", ".join(single_line(service, 60) for service in case_impact.services[:MOST])
        left = len(case_impact.services) - MOST
        if left > 0:
            shown += f" and {left} more"
        lines.append(answered.statement(shown, bold="Services"))
    if case_impact.since is not None:
        lines.append(answered.statement(at(case_impact.since), bold="Since"))
    for name, value in sorted(case_impact.numbers.items()):
        if name in _NUMBER_SENTENCES:
            lines.append(answered.statement(_NUMBER_SENTENCES[name].format(number(value, 2))))
    more = () if "users" in case_impact.numbers else ("How many users that are was not measured",)
    phrase = "Affected, as far as it was measured:"
    return AnswerText(lead=phrase, lines=tuple(lines[:MOST]), more=more)


def missing(answered: AnsweredCase) -> AnswerText:
    """What could not be collected, and what would be needed."""
    lines = [answered.statement(text) for text in answered.diagnosis.missing]
    for gap in answered.case.gaps:
        lines.append(
            answered.statement(gap.reason, bold=single_line(f"{gap.source} {gap.kind}", 60))
        )
    for item in answered.case.evidence:
        if item.cut:
            of = single_line(f"{item.source} {item.kind}", 60)
            lines.append(answered.statement(f"not all of it: {item.cut}", bold=of))
    if not lines:
        return AnswerText(
            lead="Nothing that was asked for is missing.", lines=checked(answered).lines[:4]
        )
    more = (f"{len(lines) - MOST} more on the page",) if len(lines) > MOST else ()
    return AnswerText(lead="What I could not see:", lines=tuple(lines[:MOST]), more=more)


def checked(answered: AnsweredCase) -> AnswerText:
    """What was asked of which source, and which services look fine."""
    most_rows_first = sorted(answered.case.evidence, key=lambda evidence: -(evidence.rows or 0))
    lines = [_collected(item) for item in most_rows_first[:MOST]]
    window = answered.case.scope.incident
    fine = fine_services(answered)
    if fine:
        shown = ", ".join(plain(service, 60) for service in fine[:MOST])
        lines.append(answered.statement(shown, bold="Looks fine"))
    findings = counted(len(answered.findings), "finding")
    phrase = f"I looked at {window.start:%H:%M} to {window.end:%H:%M} UTC and made {findings}:"
    return AnswerText(lead=phrase, lines=tuple(lines))


def alert(answered: AnsweredCase) -> AnswerText:
    """What the alert watches, and when it fired."""
    fired = answered.case.alert
    lines = []
    if fired.service and fired.signal:
        watched = f"{signal_name(fired.signal)} of {subject_name(fired.service)}"
        if fired.threshold is not None:
            watched += f", threshold {amount(fired.threshold, unit_of(fired.signal, None))}"
        lines.append(AnswerLine(text=watched, bold="Watches"))
    if fired.summary:
        lines.append(AnswerLine(text=single_line(fired.summary, 300), bold="It says"))
    links = [(single_line(x.title, 40), safe_url(x.url)) for x in fired.links[:2]]
    where = f"from {single_line(fired.source, 40)}, fired at {at(fired.started_at)}"
    safe = tuple((title, url) for title, url in links if url)
    lines.append(AnswerLine(text=where, bold="Sent", links=safe))
    return AnswerText(lead=f"The alert: {single_line(fired.title, 200)}", lines=tuple(lines))


def _collected(item: Evidence) -> AnswerLine:
    """What was asked, how much came, and where it can be opened."""
    text = single_line(item.query, 160)
    if item.rows:
        text += f" ({counted(item.rows, 'row')})"
    label = single_line(f"{item.source} {item.kind}", 60)
    address = safe_url(item.link)
    if not address:
        return AnswerLine(text=text, bold=label)
    called = SHOWN_BY.get(item.kind, "evidence")
    return AnswerLine(text=text, bold=label, links=((called, address),))


def calls(answered: AnsweredCase, services: Sequence[str]) -> AnswerText:
    """Who calls whom, of the service that is named or of the alert's."""
    service = services[0] if services else answered.case.alert.service or ""
    name, table = single_line(service, 60), answered.case.topology
    callers = table.filter(pl.col("callee") == service)["caller"].unique().sort().to_list()
    callees = table.filter(pl.col("caller") == service)["callee"].unique().sort().to_list()
    if not callers and not callees:
        how = "Connect traces, or list depends_on for it in the settings"
        return AnswerText(lead=f"I don't know what calls {name}, nor what it calls.", more=(how,))
    lines = [AnswerLine(text=_some(callers), bold=f"Calls {name}")]
    lines.append(AnswerLine(text=_some(callees), bold=f"{name} calls"))
    return AnswerText(lead=f"What I know of {name}:", lines=tuple(lines))


def _some(services: Sequence[str]) -> str:
    shown = ", ".join(subject_name(service) for service in services[:MOST])
    return shown or "nothing that I know of"


def fine_services(answered: AnsweredCase) -> list[str]:
    """Services with series that no finding is about."""
    table = answered.case.metrics
    if not table.height:
        return []
    measured = table.filter(pl.col("value").is_finite())
    services = measured["service"].drop_nulls().unique().sort()
    # A change that was ruled out leaves its service fine.
    with_findings = {f.subject for f in answered.findings.values() if f.kind != RULED_OUT}
    return [service for service in services.to_list() if service not in with_findings]


_NUMBER_SENTENCES = {
    "failed_percent": "{} % of requests failed",
    "failed_requests": "About {} requests failed",
    "users": "{} users are named in error lines",
    "affected_callers": "{} callers show symptoms",
}
