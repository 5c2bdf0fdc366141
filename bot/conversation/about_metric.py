"""Answers about a named metric: its values before and in the incident, and its picture."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import capitalised, counted, plain
from faultline.bot.answer.pictures.decisive_signal import decisive_finding
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.measured import (
    CaseSeries,
    all_series,
    in_order,
    levels_of,
    named_series,
    offered,
    series_of,
    telling_series,
)
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.subjects import METRIC_WORDS, metric_classes, quantile_in

MOST = 4


def metric(answered: AnsweredCase, said: Sequence[str], services: Sequence[str]) -> AnswerText:
    """Before and after, of each series that is named."""
    found = named_series(answered, said, services)
    if not found and not _names_a_metric(said):
        found = _unnamed(answered, services)
    if not found:
        return _no_such_metric(answered, said, services)
    lines = []
    for one in found[:MOST]:
        levels = levels_of(answered, one)
        lines.append(answered.said(capitalised(levels.sentence), _cited(levels.finding)))
    sentence = f"{lines[0].text}."
    quantile = quantile_in(said)
    if quantile is not None and quantile not in found[0].name:
        sentence = f"I have no {quantile}. {sentence}"
    more = [plain(f"To see it, ask: graph {found[0].name}", 160)]
    if len(found) > MOST:
        more.insert(0, f"{counted(len(found) - MOST, 'more such metric')} on the page")
    return AnswerText(lead=sentence, lines=tuple(lines[1:]), more=tuple(more))


def picture(
    answered: AnsweredCase, said: Sequence[str], services: Sequence[str], strange: Sequence[str]
) -> AnswerText:
    """The named series as a picture; without a name, that of the service, or the one that
    decided. `strange` words name something that is not there."""
    series = named_series(answered, said, services)
    if not series and not _names_a_metric(said):
        series = series_of(answered, services) if services else []
        if not series and not strange:
            series = _decisive(answered)
    if not series:
        return _no_such_metric(answered, said, services)
    levels = levels_of(answered, series[0])
    more = []
    if len(series) > 1:
        more.append(plain(f"Also measured: {offered(series[1 : 1 + MOST])}", 300))
    return AnswerText(
        lead=plain(f"{capitalised(levels.sentence)}.", 400),
        more=tuple(more),
        picture=(series[0].service, series[0].signal),
    )


def _names_a_metric(said: Sequence[str]) -> bool:
    return "per" in said or bool(metric_classes(said))


def _unnamed(answered: AnsweredCase, services: Sequence[str]) -> list[CaseSeries]:
    """Those of the service that is named; else those that the answer rests on."""
    if services:
        return series_of(answered, services)
    return telling_series(answered)


def _decisive(answered: AnsweredCase) -> list[CaseSeries]:
    """The series of the finding that is drawn beside the answer; else the alert's."""
    every = all_series(answered)
    chart = decisive_finding(answered.diagnosis)
    if chart is not None and chart.signal is not None:
        drawn = CaseSeries(chart.subject, chart.signal)
        if drawn in every:
            return [drawn]
    return in_order(answered, every)[:1]


def _no_such_metric(
    answered: AnsweredCase, said: Sequence[str], services: Sequence[str]
) -> AnswerText:
    """What there is instead."""
    wanted = next((word for word in said if word in METRIC_WORDS), "such")
    sentence = f"I have no {wanted} metric in this investigation."
    have = in_order(answered, all_series(answered))
    if services:
        sentence = f"I have no {wanted} metric of {plain(services[0], 60)} in this investigation."
        have = series_of(answered, services)
    if not have:
        return AnswerText(lead=sentence)
    return AnswerText(lead=sentence, lines=(AnswerLine(text=offered(have), bold="I have"),))


def _cited(finding: Finding | None) -> tuple[str, ...]:
    return (finding.id,) if finding is not None else ()
