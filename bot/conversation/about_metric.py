"""Answers about a named metric: its values before and in the incident, and its picture."""

from __future__ import annotations

from collections.abc import Sequence

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


def metric(answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str]) -> AnswerText:
    """Before and after, of each series that is named."""
    case_series = named_series(answered, tokens, services)
    if not case_series and not _names_a_metric(tokens):
        # Those of the service that is named; else those that the answer rests on.
        case_series = series_of(answered, services) if services else telling_series(answered)
    if not case_series:
        return _no_such_metric(answered, tokens, services)
    lines = []
    for series in case_series[:MOST]:
        levels = levels_of(answered, series)
        lines.append(
            answered.statement(
                capitalised(levels.sentence),
                ((levels.finding.id,) if levels.finding is not None else ()),
            )
        )
    sentence = f"{lines[0].text}."
    # The quantile that was asked for may not be collected: say so first.
    quantile = quantile_in(tokens)
    if quantile is not None and quantile not in case_series[0].name:
        sentence = f"I have no {quantile}. {sentence}"
    more = [plain(f"To see it, ask: graph {case_series[0].name}", 160)]
    if len(case_series) > MOST:
        more.insert(0, f"{counted(len(case_series) - MOST, 'more such metric')} on the page")
    return AnswerText(lead=sentence, lines=tuple(lines[1:]), more=tuple(more))


def picture(
    answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str], strange: Sequence[str]
) -> AnswerText:
    """The named series as a picture; without a name, that of the service, or the one that
    decided. `strange` words name something that is not there."""
    series = named_series(answered, tokens, services)
    if not series and not _names_a_metric(tokens):
        series = series_of(answered, services) if services else []
        if not series and not strange:
            series = _decisive(answered)
    if not series:
        return _no_such_metric(answered, tokens, services)
    levels = levels_of(answered, series[0])
    more = []
    if len(series) > 1:
        more.append(plain(f"Also measured: {offered(series[1 : 1 + MOST])}", 300))
    return AnswerText(
        lead=plain(f"{capitalised(levels.sentence)}.", 400),
        more=tuple(more),
        picture=(series[0].service, series[0].signal),
    )


def _names_a_metric(tokens: Sequence[str]) -> bool:
    return "per" in tokens or bool(metric_classes(tokens))


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
    answered: AnsweredCase, tokens: Sequence[str], services: Sequence[str]
) -> AnswerText:
    """What there is instead."""
    metric_word = next((word for word in tokens if word in METRIC_WORDS), "such")
    sentence = f"I have no {metric_word} metric in this investigation."
    have = in_order(answered, all_series(answered))
    if services:
        sentence = (
            f"I have no {metric_word} metric of {plain(services[0], 60)} in this investigation."
        )
        have = series_of(answered, services)
    if not have:
        return AnswerText(lead=sentence)
    return AnswerText(lead=sentence, lines=(AnswerLine(text=offered(have), bold="I have"),))
