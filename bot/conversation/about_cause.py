"""Answers about the cause: what it is, why, what speaks against it, the other suspects, and what to
do next."""

from __future__ import annotations

from analysis.vocabulary import Cause, Verdict
from bot.answer.lines import percent
from bot.conversation.held import Held
from bot.intake.questions.slack_question import AnswerLine, AnswerText

MOST = 6
SUSPECTS = 4
NO_CAUSE = {
    Verdict.CAUSE_FOUND: "The case names no single cause",
    Verdict.RECOVERED: "It recovered before a cause was established",
    Verdict.NO_ACTIVE_INCIDENT: "There is no cause to name: nothing that was measured left its "
    "baseline in a way that "
    "explains the alert",
    Verdict.INSUFFICIENT_EVIDENCE: "No cause is established: there is not enough evidence",
}


def cause(held: Held) -> AnswerText:
    """What happened, in short."""
    first = held.first
    lines = [held.said(held.view.headline, bold=held.view.verdict_label)]
    if first is not None:
        lines.append(held.said(first.summary, first.findings[:2], bold=named_cause(held)))
    lines.append(held.said(held.view.impact.sentence, held.view.impact.findings[:2], bold="Impact"))
    return AnswerText(
        lead=f"In short ({percent(held.view.confidence)} confidence):", lines=tuple(lines)
    )


def why(held: Held) -> AnswerText:
    """What the first cause rests on."""
    first = held.first
    if first is None:
        return AnswerText(lead=f"{NO_CAUSE[held.view.verdict]}.", lines=_about_nothing(held))
    view = held.view
    found = held.some(first.findings)
    more = [f"{len(found) - MOST} more findings stand on the page"] if len(found) > MOST else []
    counter = len(view.really_against)
    more.append(
        f"{counter} finding{'s' if counter != 1 else ''} against it"
        if counter
        else "Nothing found against it"
    )
    lead = f"{_sure(held, first)} {first.subject}, because of what was measured:"
    return AnswerText(lead=lead, lines=tuple(held.line(f) for f in found[:MOST]), more=tuple(more))


def against(held: Held) -> AnswerText:
    """What speaks against the first cause, how sure it is, and what would change it."""
    first, view = held.first, held.view
    if first is None:
        return AnswerText(lead=f"{NO_CAUSE[view.verdict]}.", lines=tuple(_missing(held)))
    counter = view.really_against
    lines = [held.line(f, "Against") for f in counter[:MOST]]
    rivals = [c for c in held.causes[1:3] if c.confidence >= 0.1]
    lines += [
        held.said(f"{c.summary.rstrip('. ')} ({percent(c.confidence)})", c.findings[:2], "Instead?")
        for c in rivals
    ]
    if view.to_tell_apart is not None:
        lines.append(held.said(view.to_tell_apart, bold="Would tell"))
    lines += _missing(held)[:2]
    said = (
        "Nothing that was measured speaks against it"
        if not counter
        else f"{len(counter)} findings speak against it"
    )
    said = said.replace("1 findings speak", "1 finding speaks")
    return AnswerText(
        lead=f"{percent(first.confidence)} for {first.subject}. {said}.", lines=tuple(lines)
    )


def suspects(held: Held) -> AnswerText:
    """The causes after the first one."""
    others = held.causes[1 : 1 + SUSPECTS]
    if not others:
        said = "There is no other suspect" if held.first else "There is no suspect"
        return AnswerText(
            lead=f"{said}: nothing else that was measured explains the alert.",
            lines=_ruled_out(held),
        )
    lines = [
        held.said(
            f"{c.summary.rstrip('. ')} ({percent(c.confidence)})",
            c.findings[:3],
            f"{c.rank}. {c.subject}",
        )
        for c in others
    ]
    left = len(held.causes) - 1 - len(others)
    more = (f"{left} more on the page",) if left > 0 else ()
    first = held.first
    lead = f"After {first.subject} ({percent(first.confidence)}):" if first else "Suspects:"
    return AnswerText(lead=lead, lines=tuple(lines), more=more)


def next_steps(held: Held) -> AnswerText:
    """What to do, what would tell the first two causes apart."""
    view, first = held.view, held.first
    lines = [held.said(step.text, step.findings[:2]) for step in view.next_steps[:4]]
    if view.to_tell_apart is not None:
        lines.append(held.said(view.to_tell_apart, bold="To be surer"))
    if not lines:
        lines = _missing(held)
    said = "What follows from the findings:" if lines else "No step follows from the findings."
    if lines and first is None:
        said = f"{NO_CAUSE[held.view.verdict]}. What would help:"
    return AnswerText(lead=said, lines=tuple(lines), more=("I change nothing myself.",))


def named_cause(held: Held) -> str:
    """`Cause`, or that it is only suspected."""
    return "First suspect" if held.view.suspected_only else "Cause"


def _sure(held: Held, first: Cause) -> str:
    suspected = held.view.suspected_only
    return "Not established; I suspect" if suspected else f"I blame ({percent(first.confidence)})"


def _ruled_out(held: Held) -> tuple[AnswerLine, ...]:
    return tuple(held.line(f, "Ruled out") for f in held.view.ruled_out)[:SUSPECTS]


def _missing(held: Held) -> list[AnswerLine]:
    return [held.said(m, bold="Missing") for m in held.view.missing[:4]]


def _about_nothing(held: Held) -> tuple[AnswerLine, ...]:
    told = [held.line(f) for f in held.some(held.view.impact.findings)]
    return (*told[:3], *_missing(held)[:3])
