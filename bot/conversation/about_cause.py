"""Answers about the cause: what it is, why, the evidence against it, the other suspects, and what
to do next."""

from __future__ import annotations

from faultline.analysis.vocabulary import Cause, Section, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.analysis.wording.phrases import counted
from faultline.bot.answer.foreign_text import sentence
from faultline.bot.answer.lines import percent
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText

MOST = 6
OPENING = 400
SUSPECTS = 4
NO_CAUSE = {
    Verdict.CAUSE_FOUND: "The case names no single cause",
    Verdict.RECOVERED: "It recovered before a cause was established",
    Verdict.NO_ACTIVE_INCIDENT: "There is no cause to name: nothing that was measured left its "
    "baseline in a way that "
    "explains the alert",
    Verdict.INSUFFICIENT_EVIDENCE: "No cause is established: there is not enough evidence",
}


def cause(answered: AnsweredCase) -> AnswerText:
    """What happened, in short: the headline, the impact, what to do."""
    view = answered.view
    impact = answered.statement(view.impact.sentence, view.impact.findings[:2], "Impact")
    steps = [
        answered.statement(step.text, step.findings[:2], "Do next") for step in view.next_steps[:1]
    ]
    sure = view.how_sure or view.verdict_label
    why = "For the evidence, ask: why?"
    opening = f"{sentence(view.headline, OPENING).rstrip('.')}."
    return AnswerText(lead=opening, lines=(impact, *steps), more=(sure, why))


def why(answered: AnsweredCase) -> AnswerText:
    """What the first cause rests on."""
    first = answered.first
    if first is None:
        return AnswerText(
            lead=f"{NO_CAUSE[answered.view.verdict]}.", lines=_about_nothing(answered)
        )
    view = answered.view
    # What the answer says first, in its words; then what else the cause rests on.
    claims = view.section(Section.WHY)
    lines = [answered.statement(claim.text, claim.findings) for claim in claims]
    cited = {finding for claim in claims for finding in claim.findings}
    lines += [answered.line(f) for f in answered.some(first.findings) if f.id not in cited]
    more = []
    if len(lines) > MOST:
        more.append(f"{counted(len(lines) - MOST, 'more finding')} on the page")
    counter = len(view.really_against)
    more.append(f"{counted(counter, 'finding')} against it" if counter else "Nothing against it")
    phrase = f"{_sure(answered, first)}:"
    return AnswerText(lead=phrase, lines=tuple(lines[:MOST]), more=tuple(more))


def against(answered: AnsweredCase) -> AnswerText:
    """The evidence against the first cause, how sure it is, and what would change it."""
    first, view = answered.first, answered.view
    if first is None:
        return AnswerText(lead=f"{NO_CAUSE[view.verdict]}.", lines=tuple(_missing(answered)))
    counter = view.really_against
    lines = [answered.line(f, "Against") for f in counter[:MOST]]
    # A less likely suspect is no real alternative.
    rivals = [c for c in answered.causes[1:3] if c.confidence >= 0.1]
    lines += [
        answered.statement(
            f"{c.summary.rstrip('. ')} ({percent(c.confidence)})", c.findings[:2], "Instead?"
        )
        for c in rivals
    ]
    if view.to_tell_apart is not None:
        lines.append(answered.statement(view.to_tell_apart, bold="Would tell"))
    lines += _missing(answered)[:2]
    phrase = (
        "No evidence against it was found"
        if not counter
        else f"{counted(len(counter), 'finding')} against it"
    )
    return AnswerText(
        lead=f"{percent(first.confidence)} for {first.subject}. {phrase}.", lines=tuple(lines)
    )


def suspects(answered: AnsweredCase) -> AnswerText:
    """The causes after the first one."""
    causes = answered.causes[1 : 1 + SUSPECTS]
    if not causes:
        phrase = "There is no other suspect" if answered.first else "There is no suspect"
        return AnswerText(
            lead=f"{phrase}: nothing else that was measured explains the alert.",
            lines=_ruled_out(answered),
        )
    lines = [
        answered.statement(
            f"{c.summary.rstrip('. ')} ({percent(c.confidence)})",
            c.findings[:3],
            f"{c.rank}. {c.subject}",
        )
        for c in causes
    ]
    left = len(answered.causes) - 1 - len(causes)
    more = (f"{left} more on the page",) if left > 0 else ()
    first = answered.first
    text = f"After {first.subject} ({percent(first.confidence)}):" if first else "Suspects:"
    return AnswerText(lead=text, lines=tuple(lines), more=more)


def next_steps(answered: AnsweredCase) -> AnswerText:
    """What to do, what would tell the first two causes apart."""
    view, first = answered.view, answered.first
    steps = (*view.next_steps[:4], *view.routing)
    lines = [answered.statement(step.text, step.findings[:2]) for step in steps]
    if view.to_tell_apart is not None:
        lines.append(answered.statement(view.to_tell_apart, bold="To be surer"))
    if not lines:
        lines = _missing(answered)
    phrase = "What follows from the findings:" if lines else "No step follows from the findings."
    if lines and first is None:
        phrase = f"{NO_CAUSE[answered.view.verdict]}. What would help:"
    return AnswerText(lead=phrase, lines=tuple(lines), more=("I change nothing myself.",))


def _sure(answered: AnsweredCase, first: Cause) -> str:
    name, sure = subject_name(first.subject), percent(first.confidence)
    if answered.view.suspected_only:
        return f"No cause is established; I suspect {name} ({sure})"
    return f"I blame {name} ({sure})"


def _ruled_out(answered: AnsweredCase) -> tuple[AnswerLine, ...]:
    return tuple(answered.line(f, "Ruled out") for f in answered.view.ruled_out)[:SUSPECTS]


def _missing(answered: AnsweredCase) -> list[AnswerLine]:
    return [answered.statement(m, bold="Missing") for m in answered.view.missing[:4]]


def _about_nothing(answered: AnsweredCase) -> tuple[AnswerLine, ...]:
    lines = [answered.line(f) for f in answered.some(answered.view.impact.findings)]
    return (*lines[:3], *_missing(answered)[:3])
