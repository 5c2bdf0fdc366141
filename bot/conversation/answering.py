"""A question to a case, answered by code alone: first the kind of request, then what it names; what
is not understood is admitted, with questions that can be answered.

Pure, but for what has to be asked again of its source: that is left to `Reply.look`. `useful` says
whether the case itself answered: without that, nobody who did not mention us hears from us.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.exports.formats import first_clause
from faultline.bot.conversation import (
    about_acting,
    about_cause,
    about_metric,
    about_people,
    about_rows,
    about_scope,
    about_subject,
    about_time,
    asking_again,
    correction,
)
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.asking_again import Look
from faultline.bot.conversation.correction import Correction
from faultline.bot.conversation.help_text import HELP
from faultline.bot.conversation.measured import explain, named_series, telling_series
from faultline.bot.intake.questions.request_kind import (
    RequestKind,
    UnderstoodRequest,
    examples,
    understand,
)
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.subjects import (
    METRIC_WORDS,
    QuestionSpan,
    Subject,
    asks_about,
    asks_to_include,
    days_ago,
    span_in,
    subject_of,
    window_of,
)
from faultline.bot.intake.questions.words import in_english, listed
from faultline.bot.store.follow_ups import MAX_SERVICES

SECTIONS: Mapping[RequestKind, Callable[[AnsweredCase], AnswerText]] = {
    RequestKind.CAUSE: about_cause.cause,
    RequestKind.WHY: about_cause.why,
    RequestKind.AGAINST: about_cause.against,
    RequestKind.SUSPECTS: about_cause.suspects,
    RequestKind.NEXT: about_cause.next_steps,
    RequestKind.SINCE: about_time.since,
    RequestKind.CHANGES: about_time.changes,
    RequestKind.TIMELINE: about_time.timeline,
    RequestKind.BEFORE: about_time.before,
    RequestKind.IMPACT: about_scope.impact,
    RequestKind.MISSING: about_scope.missing,
    RequestKind.CHECKED: about_scope.checked,
    RequestKind.ALERT: about_scope.alert,
    RequestKind.POSTMORTEM: about_people.postmortem,
}
"""What a section of the answer, or all of it, says."""
OF_A_SUBJECT = frozenset(
    {
        RequestKind.UNKNOWN,
        RequestKind.WHY,
        RequestKind.CAUSE,
        RequestKind.CHECKED,
        RequestKind.IMPACT,
        RequestKind.SLOW,
    }
)
"""Questions that are about their subject, where they name one: "why not the database?", "is
payments ok?"."""
FREE_WORDS = frozenset(
    {
        RequestKind.FEEDBACK,
        RequestKind.ACTION,
        RequestKind.HYPOTHETICAL,
        RequestKind.LOGS,
        RequestKind.OWNERSHIP,
        RequestKind.STATUS_UPDATE,
        RequestKind.POSTMORTEM,
    }
)
"""Requests that may hold any words: a cause, a team, what a log line says."""
BEYOND = frozenset({RequestKind.UNKNOWN, RequestKind.SUBJECT, RequestKind.LOGS, RequestKind.SLOW})
"""Requests for which a longer time is looked up; the others are about the case's own time."""
OPEN = frozenset({RequestKind.UNKNOWN, RequestKind.SUBJECT, RequestKind.SLOW})
"""Requests that no command answers as they are meant: "could it be the database?"."""
MANY_STRANGE = 2
"""With this many unknown words a question may be about something else."""
WHETHER = listed("is are was were could can might")
NOW = listed("now currently")


@dataclass(frozen=True)
class FollowUpRequest:
    """What a further investigation shall look at."""

    span: QuestionSpan | None
    services: tuple[str, ...]


@dataclass(frozen=True)
class Reply:
    """An answer, whether the case gave it, and what has to be done for it."""

    text: AnswerText
    useful: bool
    kind: RequestKind
    follow_up: FollowUpRequest | None = None
    look: Look | None = None
    """Asks sources for the answer; `text` is empty then."""
    correction: Correction | None = None
    """What is recorded as feedback."""
    exact: bool = True
    """Whether every word of it was understood: what is not, a model may know better."""


def answer_from_case(
    answered: AnsweredCase, question: str, catalogue: tuple[str, ...] = (), *, for_us: bool = True
) -> Reply:
    """The answer. `catalogue` names services beyond the case's own; `for_us`: it was addressed to
    us. A question in another language gets the answer to the English one, where its key words
    tell which that is."""
    reply = _answer(_CaseQuestion(answered, question, catalogue, for_us=for_us))
    english = None if reply.useful or not for_us else in_english(question)
    if english is None:
        return reply
    service = _CaseQuestion(answered, question, catalogue, for_us=for_us).services[:1]
    named = " ".join([english.rstrip("?"), *service])
    # With the service first; only where that finds nothing, without it.
    for translation in (f"{named}?", english):
        answer = _answer(_CaseQuestion(answered, translation, catalogue, for_us=for_us))
        if answer.useful:
            more = (f"I took this for: {translation}", *answer.text.more)
            return replace(answer, text=answer.text.model_copy(update={"more": more}))
    return reply


def _answer(case_question: _CaseQuestion) -> Reply:
    reply = case_question.reply()
    strange = case_question.strange()
    reply = replace(
        reply,
        exact=reply.kind in FREE_WORDS or (reply.useful and not strange and reply.kind not in OPEN),
    )
    if len(strange) < MANY_STRANGE or reply.kind in FREE_WORDS or not reply.useful:
        return reply
    answered = case_question.answered
    # With more unknown words than known ones, the answer would be to another question.
    if 2 * len(strange) > case_question.request.telling():
        return _reply(answered, not_understood(answered), RequestKind.UNKNOWN, useful=False)
    taken = f"I took this for: {examples().get(reply.kind, reply.kind.value)}"
    more = (taken, *reply.text.more)
    return replace(reply, useful=False, text=reply.text.model_copy(update={"more": more}))


def not_understood(answered: AnsweredCase) -> AnswerText:
    """Said when a question is not understood: what it is about, and three that can be answered."""
    case_series = telling_series(answered)
    graph = f"graph {case_series[0].name}" if case_series else "what did you check?"
    offers = ("what happened?", "is it still happening?", graph)
    if answered.first is None:
        offers = ("what did you check?", "is it still happening?", graph)
    return AnswerText(
        lead="I can't answer that. I answer questions about this incident: "
        f"{plain(first_clause(answered.view.headline), 200)}.",
        lines=tuple(AnswerLine(text=plain(offer, 120), bold="Ask") for offer in offers),
        more=("help lists more",),
    )


class _CaseQuestion:
    """One question of one case."""

    def __init__(
        self, answered: AnsweredCase, question: str, catalogue: tuple[str, ...], *, for_us: bool
    ) -> None:
        self.answered, self.question, self.for_us = answered, question, for_us
        self.request: UnderstoodRequest = understand(question)
        changes = tuple(answered.case.changes["id"].drop_nulls().to_list())
        case_names = (*answered.services, *changes)
        self.names = (*case_names, *(s for s in catalogue if s not in case_names))
        self.subject = subject_of(question, self.names) or subject_of(question, answered.signals)
        named = self.subject.names if self.subject is not None else ()
        services = {*answered.services, *catalogue}
        self.services = tuple(name for name in named if name in services)

    def strange(self) -> tuple[str, ...]:
        """Words that nobody knows."""
        return self.request.strange((*self.names, *self.answered.signals, *METRIC_WORDS))

    def reply(self) -> Reply:
        """By the kind of the request."""
        follow_up = self._follow_up()
        if follow_up is not None:
            text = AnswerText(lead="I'm starting a follow-up.")
            return Reply(text, useful=True, kind=RequestKind.FURTHER, follow_up=follow_up)
        words = self.request.words
        match self.request.kind:
            case RequestKind.EXPLAIN:
                return self._case_reply(explain(self.answered, self.request.findings))
            case RequestKind.FEEDBACK:
                judgement, text = correction.weighed(
                    self.answered, correction.correction_in(self.question)
                )
                return replace(self._case_reply(text), correction=judgement)
            case RequestKind.HYPOTHETICAL:
                return self._case_reply(
                    about_acting.hypothetical(self.answered, words, self.subject)
                )
            case RequestKind.ACTION:
                return self._case_reply(about_acting.action(self.answered, words, self.subject))
            case RequestKind.STILL:
                return self._look_reply(asking_again.still(self.answered, words, self.services))
            case RequestKind.COMPARE:
                days = days_ago(self.question, self.answered.case.alert.started_at)
                # Today is the incident itself: compare it with the time before.
                if days == 0:
                    return self._case_reply(
                        about_metric.metric(self.answered, words, self.services)
                    )
                return self._look_reply(
                    asking_again.compare(self.answered, words, self.services, days)
                )
            case RequestKind.OWNERSHIP:
                return self._look_reply(about_people.ownership(self.answered, words, self.services))
            case _:
                return self._from_the_case()

    def _from_the_case(self) -> Reply:
        answered, kind, words = self.answered, self.request.kind, self.request.words
        if kind is RequestKind.PICTURE:
            strange = self.strange()
            return self._case_reply(about_metric.picture(answered, words, self.services, strange))
        if kind is RequestKind.STATUS_UPDATE:
            return self._case_reply(about_people.update(answered, words))
        if kind is RequestKind.CALLS:
            return self._case_reply(about_scope.calls(answered, self.services))
        if kind is RequestKind.HELP:
            return self._case_reply(HELP)
        if kind is RequestKind.DEPLOYED:
            return self._case_reply(about_people.deployed(answered, self.services))
        if kind is RequestKind.LOGS:
            text = about_rows.logs(answered, self.subject, self.question)
            return self._case_reply(text, useful=bool(text.lines or text.code))
        if kind is RequestKind.UNKNOWN and self._is_about_a_metric():
            # "error rate now" asks the source, not the case.
            if words[-1] in NOW:
                return self._look_reply(asking_again.still(answered, words, self.services))
            text = about_metric.metric(answered, words, self.services)
            return replace(self._case_reply(text), kind=RequestKind.METRIC)
        subject = self.subject
        if subject is not None and self._is_about(subject):
            useful = about_subject.knows(answered, subject)
            return _reply(
                answered,
                about_subject.about(answered, subject),
                RequestKind.SUBJECT,
                useful=useful,
            )
        if kind is RequestKind.SLOW:
            text = about_rows.slow(answered, self.subject)
            return self._case_reply(text, useful=bool(text.lines))
        if kind in SECTIONS:
            return self._case_reply(SECTIONS[kind](answered))
        return _reply(answered, not_understood(answered), RequestKind.UNKNOWN, useful=False)

    def _is_about_a_metric(self) -> bool:
        """A metric is named, and not as what is to blame ("is it the CPU?")."""
        if asks_about(self.question) and not self.services:
            return False
        words = self.request.words
        if named_series(self.answered, words, ()):
            return True
        return "per" in words or any(word in METRIC_WORDS for word in words)

    def _is_about(self, subject: Subject) -> bool:
        kind = self.request.kind
        if kind not in OF_A_SUBJECT or _is_the_cause(self.answered, subject, kind):
            return False
        if kind is RequestKind.WHY:
            return subject.is_identified or "why not" in " ".join(self.request.words)
        if kind in (RequestKind.UNKNOWN, RequestKind.CHECKED):
            return subject.is_identified or asks_about(self.question)
        if kind is RequestKind.CAUSE:
            return bool(subject.names) and self.answered.case.alert.service not in subject.names
        return bool(subject.names) and self.request.words[0] in WHETHER

    def _follow_up(self) -> FollowUpRequest | None:
        """A longer time, or more services than the case has: by "check ... too", of services that
        somebody knows."""
        subject, include = self.subject, asks_to_include(self.question)
        names = subject.names if subject else ()
        # Whoever addresses the bot may mean a service that the case does not know.
        if not names and include and self.for_us and subject is not None and subject.is_service:
            names = (subject.label,)
        unseen = tuple(name for name in names if include and not self._knows(name))
        span = self._uncovered_span()
        if span is None and not unseen:
            return None
        services = tuple(plain(name, 200) for name in (unseen or names))
        return FollowUpRequest(span, services[:MAX_SERVICES])

    def _uncovered_span(self) -> QuestionSpan | None:
        """The time that the question is about, where the case does not cover all of it."""
        span = span_in(self.question) if self.request.kind in BEYOND else None
        if span is None or span.since is None or self.request.kind is RequestKind.UNKNOWN:
            return span
        # Logs "from 14:20" are those of the case, where that lies in its time.
        scope = self.answered.case.scope
        start = window_of(span, scope.incident, scope.incident.end).start
        return span if start < scope.events_from else None

    def _knows(self, name: str) -> bool:
        return about_subject.knows(self.answered, Subject(name, (name,)))

    def _case_reply(self, text: AnswerText, *, useful: bool = True) -> Reply:
        return _reply(self.answered, text, self.request.kind, useful=useful)

    def _look_reply(self, look: Look) -> Reply:
        return replace(self._case_reply(AnswerText(lead="")), look=look)


def finished(answered: AnsweredCase, text: AnswerText) -> AnswerText:
    """The answer with the investigation it is of, and whether a newer one runs."""
    more = text.more
    if answered.newer_runs:
        more = (*more, "A follow-up of this thread is still running; this is from before it")
    return text.model_copy(update={"investigation_id": answered.investigation.id, "more": more})


def _reply(
    answered: AnsweredCase, text: AnswerText, kind: RequestKind, *, useful: bool = True
) -> Reply:
    return Reply(finished(answered, text), useful=useful, kind=kind)


def _is_the_cause(answered: AnsweredCase, subject: Subject, kind: RequestKind) -> bool:
    """ "Why checkout?" of the blamed service asks for the cause's evidence, not about the
    service."""
    first = answered.first
    cause_subjects = (
        {first.subject, answered.case.alert.service} if first else {answered.case.alert.service}
    )
    return kind is RequestKind.WHY and bool(cause_subjects & set(subject.names))
