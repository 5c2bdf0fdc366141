"""What is said to a question: by its kind, from the investigation it is about, within what the
asker may see."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import capitalised, plain
from faultline.bot.answer.exports.formats import export
from faultline.bot.answer.lines import at, span_of
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.slack.target import TARGET
from faultline.bot.conversation.answered_case import AnsweredCase, load_case
from faultline.bot.conversation.answering import (
    FollowUpRequest,
    Reply,
    answer_from_case,
    finished,
)
from faultline.bot.conversation.correction import Correction
from faultline.bot.conversation.handover import handover
from faultline.bot.conversation.help_text import HELP
from faultline.bot.conversation.pictures import drawn
from faultline.bot.conversation.starting import start_investigation
from faultline.bot.conversation.status import Health, status_text
from faultline.bot.conversation.teams_posts import ChatPosts
from faultline.bot.conversation.trace_request import about_trace
from faultline.bot.conversation.visibility import ConversationVisibility
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.first_contact import tells_of_trouble
from faultline.bot.intake.questions.slack_question import AnswerText
from faultline.bot.intake.questions.subjects import window_of
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.policy.people import HOUR, person, too_many_investigations
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.conversations import Conversations, Question
from faultline.bot.store.follow_ups import FollowUps, FollowUpScope
from faultline.bot.store.listing import NO_ANSWER, Labels
from faultline.bot.store.quotas import PersonActs
from faultline.bot.store.store import StoredInvestigation

if TYPE_CHECKING:
    # Late otherwise: loading the model's client takes a second.
    from faultline.bot.conversation.model_answers import AnsweredByModel

R = TypeVar("R")

_ID = re.compile(r"\b\d{8}-\d{6}-[0-9a-f]{6}\b")
"""`faultline.bot.store.store.new_investigation_id`."""
SEARCH_DEPTH = 50
PEOPLE = "people"
"""Stage of the progress lines that say who did what."""
log = logging.getLogger("faultline.conversation")


class Replies:
    """Words the answer to any question; posts nothing."""

    def __init__(
        self,
        context: WorkerContext,
        conversations: Conversations,
        posts: ChatPosts,
        visibility: ConversationVisibility,
    ) -> None:
        self._context = context
        self._conversations = conversations
        self._furthers = FollowUps(context.store.engine)
        self._posts = posts
        self._visibility = visibility
        self._health = Health(context.connectors)

    async def reply(self, question: Question) -> AnswerText | None:
        """The answer; None when nothing is to be said."""
        if question.kind in ("quiet", "listen"):
            return await self._silence(question)
        if question.kind == "status":
            return await self._status(question)
        if question.kind == "handover":
            return await handover(question, self._context, self._visibility)
        if question.kind == "help":
            return HELP
        if question.kind == "limited":
            limit = self._posts.questions_per_hour
            return AnswerText(
                lead=f"This thread has reached its limit of {limit} questions per hour. Ask again "
                "later."
            )
        if question.kind == "investigate":
            return await self._investigate(question)
        return await self._about_an_investigation(question)

    async def chart(self, answer: AnswerText) -> bytes | None:
        """The picture that belongs to the answer: of a finding or of a series."""
        if answer.investigation_id is None or not (answer.chart or answer.picture):
            return None
        try:
            return await self._in_folder(answer.investigation_id, partial(drawn, answer))
        except (FaultlineError, OSError) as error:
            log.warning("picture of %s: %s", answer.investigation_id, error)
            return None

    async def exported(self, answer: AnswerText) -> bytes | None:
        """The file that is attached to the answer."""
        if answer.investigation_id is None or answer.export is None:
            return None
        try:
            return await self._in_folder(
                answer.investigation_id, lambda folder: export(folder, answer.export or "")
            )
        except (FaultlineError, OSError) as error:
            log.warning("export of %s: %s", answer.investigation_id, error)
            return None

    async def _silence(self, question: Question) -> AnswerText:
        quiet = question.kind == "quiet"
        silence = self._conversations.silence
        await in_store(silence, question.channel, question.thread, question.who, quiet=quiet)
        if quiet:
            return AnswerText(
                lead="I'll only answer when mentioned in this thread. Say listen to undo."
            )
        return AnswerText(lead="I'll answer questions in this thread again, without a mention.")

    async def _status(self, question: Question) -> AnswerText:
        store, dm = self._context.store, question.surface in ("dm", "pane")
        if dm:
            some = await self._latest(question)
        else:
            ids = await in_store(self._conversations.in_channel, question.channel, SEARCH_DEPTH)
            some = await in_store(store.some, ids)
        here = await self._visibility.visible(question, some, SEARCH_DEPTH)
        visibility = self._visibility.visibility_of(question)
        counts = {s: await in_store(store.count, s, visibility) for s in ("running", "accepted")}
        waiting = await in_store(self._conversations.waiting)
        checks = await self._health.checks()
        where = "of public channels and those started here" if dm else "of this channel"
        # This question is among those that wait.
        return status_text(counts, max(0, waiting - 1), checks, here, where=where)

    async def _investigate(self, question: Question) -> AnswerText:
        command = command_in(question.text)
        text = command.argument if command else ""
        if not text:
            return AnswerText(lead="Say what: investigate checkout errors since 10:05")
        return await self._start(question, text)

    async def _start(self, question: Question, text: str) -> AnswerText:
        if (too_many := await self._too_many(question)) is not None:
            return too_many
        started = await in_store(
            start_investigation,
            question,
            text,
            self._context.settings,
            self._context.store,
            self._posts.source,
            self._posts.reply_to(question),
        )
        return AnswerText(
            lead="I'm looking into it and will answer in this thread.", investigation_id=started
        )

    async def _too_many(self, question: Question) -> AnswerText | None:
        """Count one more investigation for whoever asks; the answer where that is too many."""
        people = self._context.settings.people
        who = self._posts.asker(question)
        most, acts = people.investigations_per_hour, PersonActs(self._context.store.engine)
        if await in_store(acts.count, who, "investigate", question.id, most, HOUR):
            return None
        return AnswerText(lead=too_many_investigations(most))

    async def _about_an_investigation(self, question: Question) -> AnswerText | None:
        about, newer_runs = await self._investigation(question)
        mentioned = question.surface != "thread"
        if about is None:
            return await self._about_a_trace(question, mentioned=mentioned)
        no_answer = await self._without_answer(about)
        if no_answer is not None:
            return no_answer

        def answer(folder: Path) -> tuple[AnsweredCase, Reply]:
            answered = load_case(
                about, folder, self._context.settings, now=datetime.now(UTC), newer_runs=newer_runs
            )
            catalogue = tuple(self._context.settings.services)
            return answered, answer_from_case(answered, question.text, catalogue, for_us=mentioned)

        answered, reply = await self._in_folder(about.id, answer)
        by_model = None
        # The model's budget is for questions that are addressed to the bot.
        if mentioned and not reply.exact:
            by_model = await self._by_model(question, about)
        if by_model is not None:
            if by_model.follow_up:
                follow_up = FollowUpRequest(None, by_model.follow_up)
                return await self._start_follow_up(question, answered, follow_up)
            # A failure of the model is worth saying only where the case has no answer either.
            if by_model.stands or (by_model.was_called and not reply.useful):
                return by_model.text
        if reply.follow_up is not None:
            return await self._start_follow_up(question, answered, reply.follow_up)
        reply = await self._settled(question, answered, reply)
        if not reply.useful and not mentioned:
            return None
        if by_model is not None:
            # Say that the model was asked, though its answer does not hold.
            more = (*reply.text.more, by_model.text.lead)
            return reply.text.model_copy(update={"more": more})
        return reply.text

    async def _settled(self, question: Question, answered: AnsweredCase, reply: Reply) -> Reply:
        """The reply after what it takes: sources are read again, a correction is recorded."""
        if reply.look is not None:
            look_answer = await reply.look(self._context.connectors)
            text = finished(answered, look_answer.text)
            reply = replace(reply, text=text, useful=look_answer.useful)
        if reply.correction is not None:
            await self._record(question, answered, reply.correction)
        return reply

    async def _about_a_trace(self, question: Question, *, mentioned: bool) -> AnswerText | None:
        """In the thread of a trace answer that is meant; elsewhere an investigation is asked
        for."""
        for earlier in await in_store(self._conversations.earlier, question):
            if earlier.kind == "trace" and earlier.answer is not None:
                return about_trace(AnswerText.model_validate(earlier.answer), question.text)
        if not mentioned:
            return None
        if question.surface != "mention" and tells_of_trouble(
            question.text, self._context.settings
        ):
            return await self._start(question, question.text)
        return await self._which(question)

    async def _record(
        self, question: Question, answered: AnsweredCase, correction: Correction
    ) -> None:
        """Keep what somebody said of the answer, and show it under the answer's message. Said
        again, by a second worker or a second time, it is kept once."""
        store, about = self._context.store, answered.investigation
        labels, who = Labels(store.engine), self._posts.name_of(question)
        await in_store(
            partial(labels.write, right=correction.right, cause=correction.cause, who=who), about.id
        )
        judgement = "right" if correction.right else "wrong"
        phrase = f": the cause was {correction.cause}" if correction.cause else ""
        what = f"{capitalised(person(who))} said that the answer is {judgement}{phrase}"
        await in_store(
            partial(store.add_progress, key=f"{PEOPLE}:{question.id}"), about.id, PEOPLE, what
        )
        case = answered.case
        answer = Answer(answered.diagnosis, answered.report, case.evidence, case.gaps, None)
        await self._posts.refresh(Outcome(about, answer))

    async def _by_model(
        self, question: Question, about: StoredInvestigation
    ) -> AnsweredByModel | None:
        """Where a model is configured, it is asked what no command answers exactly."""
        if self._context.settings.model.name is None:
            return None
        # Late: loading the client takes a second.
        from faultline.bot.conversation.model_answers import answer_by_model, budget_refusal

        used_up = await budget_refusal(question, self._context)
        if used_up is not None:
            return used_up
        earlier = await in_store(self._conversations.earlier, question)
        async with self._context.checkout(about.id) as folder:
            return await answer_by_model(question, earlier, folder, about.id, self._context)

    async def _start_follow_up(
        self, question: Question, answered: AnsweredCase, follow_up: FollowUpRequest
    ) -> AnswerText:
        """Start a further investigation in the same thread, once, whoever asks again."""
        limit, since = self._posts.further_per_hour, datetime.now(UTC) - HOUR
        count = await in_store(self._posts.further_since, question, since)
        if count >= limit:
            sentence = (
                f"This thread has reached its limit of {limit} follow-ups per hour. Ask again "
                f"later."
            )
            return AnswerText(lead=sentence, investigation_id=answered.investigation.id)
        if (too_many := await self._too_many(question)) is not None:
            return too_many
        incident = answered.case.scope.incident
        window = (
            window_of(follow_up.span, incident, question.requested_at) if follow_up.span else None
        )
        scope = FollowUpScope(window, follow_up.services)
        started, _ = await in_store(
            self._furthers.start,
            answered.investigation,
            scope,
            key=question.id,
            question=question.text,
            who=self._posts.name_of(question),
            reply_to=self._posts.reply_to(question),
        )
        scope_parts = []
        if window is not None:
            scope_parts.append(
                f"{at(window.start)} to {at(window.end)}, {span_of(window.end - window.start)}"
            )
        if follow_up.services:
            scope_parts.append(", ".join(plain(s, 60) for s in follow_up.services[:5]))
        return AnswerText(
            lead=f"I hadn't collected that. Starting a follow-up on {'; '.join(scope_parts)}.",
            more=(f"A follow-up of {answered.investigation.id}; I'll answer in this thread",),
            investigation_id=started,
        )

    async def _without_answer(self, about: StoredInvestigation) -> AnswerText | None:
        """How an investigation stands that has failed or still runs; None for any other."""
        if about.status in ("failed", "joined"):
            headline = plain(about.headline or "The investigation failed", 400)
            return AnswerText(lead=headline, investigation_id=about.id)
        if about.status not in ("accepted", "running"):
            return None
        lines = await in_store(self._context.store.progress, about.id)
        last = plain(lines[-1].text, 200) if lines else "waiting for a worker"
        more = ("I'll answer in this thread; ask again then",)
        return AnswerText(
            lead=f"I am still investigating; last: {last}.", more=more, investigation_id=about.id
        )

    async def _investigation(self, question: Question) -> tuple[StoredInvestigation | None, bool]:
        """The one that is named, or the newest of the thread that came to an answer; and whether a
        newer one runs."""
        named = _ID.search(question.text)
        if named is not None:
            # An id must not open what the asker may not see.
            investigation = await in_store(self._context.store.get, named[0])
            if investigation and await self._visibility.may_tell(question, investigation):
                return investigation, False
            return None, False
        some = await self._discussed(question)
        if not some:
            return None, False
        done = [investigation for investigation in some if investigation.status == "done"]
        if not done:
            return some[0], False
        answers = [investigation for investigation in done if investigation.verdict != NO_ANSWER]
        answered = (answers or done)[0]
        runs = some[0].status in ("accepted", "running")
        return answered, runs and some[0].id != answered.id

    async def _discussed(self, question: Question) -> list[StoredInvestigation]:
        """The investigations of the thread, the newest first; where a conversation in private has
        none, the last that it was about."""
        store = self._context.store
        ids = list(await in_store(self._posts.investigations_in, question))
        some = await in_store(store.some, ids, self._visibility.visibility_of(question))
        if some or question.surface not in ("dm", "pane"):
            return some
        questions = await in_store(self._conversations.earlier, question)
        spoken = [q.investigation_id for q in questions if q.investigation_id]
        investigations = await in_store(store.some, spoken[:1])
        return await self._visibility.visible(question, investigations, 1)

    async def _which(self, question: Question) -> AnswerText:
        """Asked outside of any investigation's thread: which ones may be asked about here."""
        some = await self._latest(question)
        visible = await self._visibility.visible(
            question, [i for i in some if i.status == "done"], 5
        )
        code = tuple(
            f"{investigation.id}  {plain(investigation.alert.title, 120)}"
            for investigation in visible
        )
        if not code:
            return AnswerText(
                lead="Which investigation? Ask in its thread.", more=("help tells what I can do",)
            )
        more = (f"For example: why, {visible[0].id}", "help tells what I can do")
        return AnswerText(
            lead="Which investigation? Name it, or ask in its thread:", code=code, more=more
        )

    async def _latest(self, question: Question) -> list[StoredInvestigation]:
        """The newest investigations; with several workspaces, those posted to the question's, so
        that the others' do not push them out."""
        settings, visibility = self._context.settings, self._visibility.visibility_of(question)
        workspace = settings.slack.instance.name
        if len(settings.instances("slack")) < 2:
            return await in_store(self._context.store.latest, SEARCH_DEPTH, visibility)
        target = TARGET.scoped_to(settings).target_name
        in_workspace = self._conversations.in_workspace
        ids = await in_store(in_workspace, workspace, target, SEARCH_DEPTH)
        return await in_store(self._context.store.some, ids, visibility)

    async def _in_folder(self, investigation_id: str, read: Callable[[Path], R]) -> R:
        def work() -> R:
            with self._context.cases.checkout(investigation_id) as folder:
                return read(folder)

        return await in_thread(work)
