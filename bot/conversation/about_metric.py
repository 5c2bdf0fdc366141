"""Answers about a named metric: its values before and in the incident, and its picture."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.vocabulary import Finding
from analysis.wording.phrases import capitalised, counted, plain
from bot.conversation.answered_case import AnsweredCase
from bot.conversation.measured import (
    CaseSeries,
    all_series,
    in_order,
    levels_of,
    named_series,
    offered,
    series_of,
    telling_series,
)
from bot.intake.questions.slack_question import AnswerLine, AnswerText
from bot.intake.questions.subjects import METRIC_WORDS, metric_classes, quantile_in

MOST = 4


def metric(answered: AnsweredCase, said: Sequence[str], services: Sequence[str]) -> AnswerText:
    """Before and after, of each series that is named."""
    found = named_series(answered, said, services)
    if not found and not metric_classes(said) and "per" not in said:
        found = series_of(answered, services) if services else telling_series(answered)
    if not found:
        return _no_such_metric(answered, said, services)
    told = [levels_of(answered, one) for one in found[:MOST]]
    lines = [answered.said(capitalised(t.sentence), _cited(t.finding)) for t in told]
    left = len(found) - MOST
    more = (f"{counted(left, 'more such metric')} on the page",) if left > 0 else ()
    see = f"To see it, ask: graph {found[0].name}"
    lead = f"{lines[0].text}."
    quantile = quantile_in(said)
    if quantile is not None and quantile not in found[0].name:
        lead = f"I have no {quantile}. {lead}"
    return AnswerText(lead=lead, lines=tuple(lines[1:]), more=(*more, plain(see, 160)))


def picture(
    answered: AnsweredCase, said: Sequence[str], services: Sequence[str], strange: Sequence[str]
) -> AnswerText:
    """The named series as a picture; without a name, the one that decided."""
    found = named_series(answered, said, services)
    if not found and services:
        found = series_of(answered, services)
    if not found and strange:
        return _no_such_metric(answered, said, services)
    if not found:
        found = _decisive(answered)
    if not found:
        return AnswerText(lead="I can't draw that: no metrics were collected for this answer.")
    told = levels_of(answered, found[0])
    others = found[1 : 1 + MOST]
    more = (plain(f"Also measured: {offered(others)}", 300),) if others else ()
    return AnswerText(
        lead=plain(f"{capitalised(told.sentence)}.", 400),
        more=more,
        picture=(found[0].service, found[0].signal),
    )


def _decisive(answered: AnsweredCase) -> list[CaseSeries]:
    """The series of the finding that is drawn beside the answer; else the alert's."""
    chart = answered.view.chart
    if chart is not None and chart.signal is not None:
        drawn = CaseSeries(chart.subject, chart.signal)
        if drawn in all_series(answered):
            return [drawn]
    return in_order(answered, all_series(answered))[:1]


def _no_such_metric(
    answered: AnsweredCase, said: Sequence[str], services: Sequence[str]
) -> AnswerText:
    words = [word for word in said if word in METRIC_WORDS] or ["such"]
    have = series_of(answered, services) if services else in_order(answered, all_series(answered))
    of = f" of {plain(services[0], 60)}" if services else ""
    lead = f"I have no {words[0]} metric{of} in this investigation."
    if not have:
        return AnswerText(lead=lead)
    return AnswerText(lead=lead, lines=(AnswerLine(text=offered(have), bold="I have"),))


def _cited(finding: Finding | None) -> tuple[str, ...]:
    return (finding.id,) if finding is not None else ()
