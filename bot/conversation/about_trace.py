"""Questions about a trace answer: its own sentences, those first that a question is about."""

from __future__ import annotations

from faultline.bot.intake.questions.request_kind import SMALL, RequestKind, understand
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.words import words

_STEPS = frozenset({RequestKind.NEXT, RequestKind.ACTION, RequestKind.HYPOTHETICAL})
OFFERS = ("which rank is it?", "what should I do?", "where does the time go?")
DO = "Do"


def about_trace(answer: AnswerText, question: str) -> AnswerText:
    """What the trace doctor said about it; all of it where no sentence is closer than another."""
    request = understand(question)
    stems = {_stem(word) for word in request.words if word not in SMALL}
    if request.kind in _STEPS:
        steps = tuple(line for line in answer.lines if line.bold == DO)
        return _excerpt("The trace report recommends:", steps, answer)
    lines = [line for line in answer.lines if stems & _stems(line.text)]
    if lines:
        return _excerpt("From the trace report:", tuple(lines), answer)
    if request.kind is RequestKind.UNKNOWN:
        offers = tuple(AnswerLine(text=offer, bold="Ask") for offer in OFFERS)
        return AnswerText(
            lead="I can't answer that from the traces. I answer questions about the report above:",
            lines=offers,
        )
    return _excerpt(answer.lead, answer.lines, answer)


def _excerpt(opening: str, lines: tuple[AnswerLine, ...], answer: AnswerText) -> AnswerText:
    if not lines:
        return AnswerText(lead="The trace report recommends nothing.", lines=answer.lines[:3])
    return AnswerText(lead=opening, lines=lines, more=answer.more)


def _stems(text: str) -> set[str]:
    return {_stem(word) for word in words(text)}


def _stem(word: str) -> str:
    return word.removesuffix("s")
