"""The steps by which a worker answers one question. Each can be run again after a crash: it says
the same words once.

`word` decides what is said and keeps it, `post` brings it into the thread, `finish` is the end; a
trace has a step before.
"""

from __future__ import annotations

import hashlib
import logging
import re
import tempfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.answer.exports.formats import FORMATS
from faultline.bot.answer.targets.chats.target import MSTEAMS
from faultline.bot.conversation.answered_case import page_url
from faultline.bot.conversation.replies_to import Replies
from faultline.bot.conversation.teams_posts import ChatPosts
from faultline.bot.conversation.trace_request import (
    MAX_PAGE_BYTES,
    refusal,
    run_trace_doctor,
    shown_place,
)
from faultline.bot.conversation.visibility import ConversationVisibility
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.slack_question import AnswerText, target_in
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations, Question, QuestionStatus
from faultline.connectors.shared.rows.named_ids import instance_in

if TYPE_CHECKING:
    from faultline.bot.answer.targets.slack.posts import MessageRef
    from faultline.bot.conversation.slack_posts import ConversationPosts

TRACES = "traces"
REPORT = "report.html"
TOO_OLD = timedelta(hours=6)
"""A question that could not be answered within this time is not answered any more."""

log = logging.getLogger("faultline.conversation")


class Tried(TypedDict):
    """Result of one attempt; `again` is whether to retry."""

    again: bool
    why: str


@dataclass(frozen=True)
class Talk:
    """What answers the questions of one workspace or bot: with its token, by its limits."""

    posts: ChatPosts
    replies: Replies
    files: ConversationPosts | None = None
    """What puts files and pictures into a thread, in Slack."""


class ConversationSteps:
    """The steps, for one worker."""

    def __init__(self, context: WorkerContext, *, owner: str) -> None:
        self._context = context
        self._conversations = Conversations(context.store.engine)
        self._talks: dict[str, Talk] = {}
        for settings in context.settings.per_instance("slack"):
            if settings.slack.bot_token is not None:
                self._talks[settings.slack.instance.name] = self._in_slack(settings, owner)
        for settings in context.settings.per_instance("msteams"):
            target = MSTEAMS.scoped_to(settings)
            if target.configured(settings):
                self._talks[target.target_name] = self._in_teams(settings, owner)

    def _in_slack(self, settings: Settings, owner: str) -> Talk:
        # Late: each client takes a while to load, and few bots talk in both.
        from faultline.bot.conversation.slack_posts import ConversationPosts

        context = replace(self._context, settings=settings)
        posts = ConversationPosts(settings, context.store, self._conversations, owner=owner)
        visibility = ConversationVisibility(context.store, posts, settings)
        return Talk(posts, Replies(context, self._conversations, posts, visibility), posts)

    def _in_teams(self, settings: Settings, owner: str) -> Talk:
        from faultline.bot.conversation.teams_posts import TeamsPosts, TeamsVisibility

        context = replace(self._context, settings=settings)
        posts = TeamsPosts(settings, context.store, self._conversations, owner=owner)
        visibility = TeamsVisibility(context.store, posts, settings)
        return Talk(posts, Replies(context, self._conversations, posts, visibility))

    async def word(self, question_id: str) -> bool:
        """Decide on the words and keep them; False when nothing is to be said."""
        question = await self._question(question_id)
        if question is None or question.status != "asked":
            return False
        # After a crash the words may be kept already: then they stay the same.
        if question.answer is not None:
            return True
        try:
            answer = await self._talk(question).replies.reply(question)
        except SQLAlchemyError:
            # The step is tried again once the store is back.
            raise
        except Exception as error:  # the edge of an answer: it ends with an explanation
            log.exception("question %s", question_id)
            reason = (
                str(error)
                if isinstance(error, FaultlineError)
                else f"unexpected {type(error).__name__}"
            )
            answer = AnswerText(lead=f"I could not answer that: {reason}")
        if answer is None:
            await in_store(self._conversations.finish, question_id, "withdrawn")
            return False
        await self._keep(question, answer)
        return True

    async def begin_trace(self, question_id: str) -> str:
        """Say that the traces are being read, since that takes minutes."""
        question = await self._question(question_id)
        if question is None or question.status != "asked" or question.answer is not None:
            return "nothing to say"
        place = _trace_place(question)
        if refusal(place, self._context.settings.traces) is not None:
            return "refused"
        sentence = f"I'm reading the traces at {shown_place(place)}. This takes minutes."
        begun = AnswerText(lead=sentence)
        try:
            await self._talk(question).posts.post(question, begun, None)
        except ConnectorError as error:
            return str(error)
        return "begun"

    async def trace(self, question_id: str) -> bool:
        """Run the trace doctor and keep its words; False when nothing is to be said."""
        question = await self._question(question_id)
        if question is None or question.status != "asked":
            return False
        if question.answer is None:
            await self._keep(question, await self._trace_answer(question))
        return True

    async def post(self, question_id: str) -> Tried:
        """The kept words, and what is attached to them, into the thread."""
        question = await self._question(question_id)
        if question is None or question.answer is None or question.status != "asked":
            return {"again": False, "why": "nothing to post"}
        answer = AnswerText.model_validate(question.answer)
        url = (
            page_url(self._context.settings, answer.investigation_id)
            if answer.investigation_id
            else None
        )
        try:
            talk = self._talk(question)
            ref = await self._post_answer(talk, question, answer, url)
        except ConnectorError as error:
            again = error.retryable and datetime.now(UTC) - question.requested_at < TOO_OLD
            return {"again": again, "why": str(error)}
        if talk.files is not None and ref is not None:
            if answer.chart is not None or answer.picture is not None:
                await self._show_chart(talk, talk.files, question, answer, ref, url)
            if answer.export is not None:
                await self._attach_export(talk, talk.files, question, answer)
        return {"again": False, "why": "posted"}

    async def _post_answer(
        self, talk: Talk, question: Question, answer: AnswerText, url: str | None
    ) -> MessageRef | None:
        """The message, where files can be put beside it. Raises ConnectorError."""
        files = talk.files
        if files is None:
            await talk.posts.post(question, answer, url)
            return None
        ref = await files.post(question, answer, url)
        # The message says that the traces are being read: replace it with the answer.
        if question.kind == "trace":
            await files.edit(ref, answer, url)
            await self._attach_report(question, files)
        return ref

    async def finish(self, question_id: str, why: str) -> str:
        """It is answered, or abandoned."""
        status: QuestionStatus = "answered" if why == "posted" else "given_up"
        await in_store(self._conversations.finish, question_id, status)
        return status

    async def _trace_answer(self, question: Question) -> AnswerText:
        place, settings = _trace_place(question), self._context.settings.traces
        refused = refusal(place, settings)
        if refused is not None:
            return refused
        with tempfile.TemporaryDirectory(prefix="faultline-asked-trace-") as scratch:
            folder = Path(scratch)
            try:
                answer = await run_trace_doctor(place, settings, folder)
            except FaultlineError as error:
                return AnswerText(lead=f"The traces could not be analysed: {error}")
            report = folder / REPORT
            if report.exists() and report.stat().st_size <= MAX_PAGE_BYTES:
                await in_thread(self._context.cases.put, _trace_case(question), REPORT, report)
        return answer

    async def _attach_report(self, question: Question, files: ConversationPosts) -> None:
        content = await in_thread(self._context.cases.get, _trace_case(question), REPORT)
        if content is None:
            return
        with tempfile.TemporaryDirectory(prefix="faultline-report-") as scratch:
            file = Path(scratch) / REPORT
            await in_thread(file.write_bytes, content)
            await files.attach(question, file, f"{_trace_case(question)}.html", "Trace report")
        # It is posted, so the copy can go.
        await in_thread(self._context.cases.delete, _trace_case(question), "")

    async def _attach_export(
        self, talk: Talk, files: ConversationPosts, question: Question, answer: AnswerText
    ) -> None:
        """The draft as a file. As with a picture, a failure costs the file only."""
        name = FORMATS[answer.export or ""].file
        content = await talk.replies.exported(answer)
        if content is None:
            return
        with tempfile.TemporaryDirectory(prefix="faultline-export-") as scratch:
            file = Path(scratch) / name
            await in_thread(file.write_bytes, content)
            try:
                title = FORMATS[answer.export or ""].title
                await files.attach(question, file, name, title)
            except ConnectorError as error:
                log.warning("%s of %s: %s", name, question.id, error)

    async def _show_chart(
        self,
        talk: Talk,
        files: ConversationPosts,
        question: Question,
        answer: AnswerText,
        ref: MessageRef,
        url: str | None,
    ) -> None:
        """The answer stands without its picture, so a failure costs the picture only."""
        png = await talk.replies.chart(answer)
        if png is None:
            return
        try:
            await files.show_chart(ref, question, answer, url, png)
        except ConnectorError as error:
            log.warning("chart of %s: %s", question.id, error)

    async def _keep(self, question: Question, answer: AnswerText) -> None:
        answer_json = answer.model_dump(mode="json")
        about = answer.investigation_id or question.investigation_id
        await in_store(self._conversations.keep_answer, question.id, answer_json, about)

    async def _question(self, question_id: str) -> Question | None:
        """None, too, for a question from a workspace that is not in the settings any more: nobody
        can answer it."""
        question = await in_store(self._conversations.get, question_id)
        if question is None or _chat_of(question) not in self._talks:
            return None
        return question

    def _talk(self, question: Question) -> Talk:
        return self._talks[_chat_of(question)]


def _chat_of(question: Question) -> str:
    """Which workspace of Slack, or which bot in Teams."""
    return target_in(question.channel) or instance_in(question.channel)


def _trace_place(question: Question) -> str:
    command = command_in(question.text)
    return command.argument if command else ""


def _trace_case(question: Question) -> str:
    """The prefix in the case store that holds a trace's report until it is posted."""
    digest = hashlib.sha256(question.id.encode("utf-8", "replace")).hexdigest()[:12]
    return f"{TRACES}-{re.sub(r'[^0-9]', '', question.ts)[:16]}-{digest}"
