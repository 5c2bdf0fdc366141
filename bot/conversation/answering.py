"""A question to a case, answered by code alone: understood by the intent table, or told that it is
not.

Pure. `useful` says whether the case itself answered: without that, nobody who did not mention us
hears from us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import polars as pl

from analysis.wording.phrases import counted, plain
from bot.answer.lines import at
from bot.conversation import about_cause, about_rows, about_scope, about_subject, about_time
from bot.conversation.answered_case import AnsweredCase
from bot.conversation.explain import explain
from bot.intake.questions.follow_up_scope import AskedSpan, asked_span, asks_to_include
from bot.intake.questions.intents import SAID_AS, Intent, Understood, strange_words, understand
from bot.intake.questions.slack_question import AnswerText
from bot.intake.questions.subjects import Subject, asks_about, subject_of
from bot.store.follow_ups import MAX_SERVICES

OF_THE_CASE: Mapping[Intent, Callable[[AnsweredCase], AnswerText]] = {
    Intent.CAUSE: about_cause.cause,
    Intent.WHY: about_cause.why,
    Intent.AGAINST: about_cause.against,
    Intent.SUSPECTS: about_cause.suspects,
    Intent.NEXT: about_cause.next_steps,
    Intent.SINCE: about_time.since,
    Intent.STILL: about_time.still,
    Intent.CHANGES: about_time.changes,
    Intent.TIMELINE: about_time.timeline,
    Intent.BEFORE: about_time.before,
    Intent.IMPACT: about_scope.impact,
    Intent.MISSING: about_scope.missing,
    Intent.CHECKED: about_scope.checked,
}
OF_A_SUBJECT = frozenset(
    {Intent.UNKNOWN, Intent.WHY, Intent.CAUSE, Intent.STILL, Intent.CHECKED, Intent.SUBJECT}
)
"""Questions that are about their subject, where they name one: "why not the database?", "is
payments ok?"."""
CAN_ANSWER = (
    "why · what speaks against it · what changed · who is affected · since when · is it over · "
    "show logs of a service · slowest calls · other suspects · what is missing · what next · "
    "happened before · "
    "explain F1"
)


MANY_STRANGE = 2
"""From so many words on that nobody knows, a question may be about something else."""


@dataclass(frozen=True)
class FollowUpWanted:
    """What a further investigation shall look at."""

    span: AskedSpan | None
    services: tuple[str, ...]


@dataclass(frozen=True)
class Reply:
    """An answer, whether the case gave it, and what has to be looked up instead."""

    text: AnswerText
    useful: bool
    intent: Intent
    follow_up: FollowUpWanted | None = None


def answer_from_case(
    answered: AnsweredCase, question: str, catalogue: tuple[str, ...] = (), *, for_us: bool = True
) -> Reply:
    """The answer by the table. `catalogue` names services beyond the case's own; `for_us`: it was
    addressed to us."""
    understood = understand(question)
    names = (*answered.services, *(s for s in catalogue if s not in answered.services))
    subject = subject_of(question, names)
    follow_up = _follow_up(answered, question, subject, for_us=for_us)
    if follow_up is not None:
        return Reply(
            AnswerText(lead="I look."), useful=True, intent=Intent.FURTHER, follow_up=follow_up
        )
    if understood.intent is Intent.EXPLAIN:
        return _reply(answered, explain(answered, understood.findings), understood.intent)
    reply = _by_intent(
        answered, question, understood, subject or subject_of(question, answered.signals)
    )
    strange = strange_words(understood, (*names, *answered.signals))
    if strange < MANY_STRANGE or reply.intent not in SAID_AS:
        return reply
    taken = f"I took this for: {SAID_AS[reply.intent]}?"
    return replace(
        reply, useful=False, text=reply.text.model_copy(update={"more": (taken, *reply.text.more)})
    )


def not_in_the_case(answered: AnsweredCase) -> AnswerText:
    """Said when a question is not understood: what there is, and what can be asked."""
    case = answered.case
    have = [
        counted(len(answered.findings), "finding"),
        counted(len(answered.causes), "suspect"),
        *(counted(table.height, name) for name, table in _tables(answered) if table.height),
    ]
    window = case.scope.incident
    lines = (
        answered.said(
            f"{', '.join(have)}, {at(window.start)} to {window.end:%H:%M:%S}", bold="I have"
        ),
    )
    lookup = "To look elsewhere: what about the last 6 hours · check payments too"
    return AnswerText(
        lead="I cannot answer that from the case.", lines=lines, more=(f"Ask: {CAN_ANSWER}", lookup)
    )


def _by_intent(
    answered: AnsweredCase, question: str, understood: Understood, subject: Subject | None
) -> Reply:
    intent = understood.intent
    about_it = subject is not None and (subject.known or asks_about(question))
    if (
        subject is not None
        and about_it
        and intent in OF_A_SUBJECT
        and not _is_the_cause(answered, subject, intent)
    ):
        useful = about_subject.knows(answered, subject)
        return _reply(
            answered, about_subject.about(answered, subject), Intent.SUBJECT, useful=useful
        )
    if intent is Intent.LOGS:
        text = about_rows.logs(answered, subject, question)
        return _reply(answered, text, intent, useful=bool(text.lines or text.code))
    if intent is Intent.SLOW:
        text = about_rows.slow(answered, subject)
        return _reply(answered, text, intent, useful=bool(text.lines))
    if intent in OF_THE_CASE:
        return _reply(answered, OF_THE_CASE[intent](answered), intent)
    return _reply(answered, not_in_the_case(answered), Intent.UNKNOWN, useful=False)


def _reply(
    answered: AnsweredCase, text: AnswerText, intent: Intent, *, useful: bool = True
) -> Reply:
    more = text.more
    if answered.newer_runs:
        more = (
            *more,
            "A further investigation of this thread is still running; this is what I knew before "
            "it",
        )
    told = text.model_copy(update={"investigation_id": answered.investigation.id, "more": more})
    return Reply(told, useful=useful, intent=intent)


def _is_the_cause(answered: AnsweredCase, subject: Subject, intent: Intent) -> bool:
    """ "Why checkout?" of the blamed service asks for the cause's evidence, not about the
    service."""
    first = answered.first
    own = {first.subject, answered.case.alert.service} if first else {answered.case.alert.service}
    return intent in (Intent.WHY, Intent.CAUSE, Intent.STILL) and bool(own & set(subject.names))


def _follow_up(
    answered: AnsweredCase, question: str, subject: Subject | None, *, for_us: bool
) -> FollowUpWanted | None:
    """A longer time, or more services than the case has: by "check ... too", of services that
    somebody knows."""
    span = asked_span(question)
    include = asks_to_include(question)
    known = subject.names if subject else ()
    if not known and include and for_us and subject is not None and subject.is_service:
        known = (subject.said,)
    if span is None and not include:
        return None
    unseen = tuple(
        n for n in known if include and not about_subject.knows(answered, Subject(n, (n,)))
    )
    if span is None and not unseen:
        return None
    return FollowUpWanted(span, tuple(plain(n, 200) for n in (unseen or known))[:MAX_SERVICES])


def _tables(answered: AnsweredCase) -> list[tuple[str, pl.DataFrame]]:
    case = answered.case
    return [
        ("metric point", case.metrics),
        ("log line", case.logs),
        ("span", case.spans),
        ("change", case.changes),
    ]
