"""Routes what people write into the conversation: is it for us, what is it, and into the store.

Whoever receives a message (Events API, Socket Mode, the assistant pane, a modal) calls
`MessageRouter.take` before it acknowledges. A worker answers it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.questions.commands import command_in, is_courtesy
from faultline.bot.intake.questions.first_contact import tells_of_trouble
from faultline.bot.intake.questions.is_question import is_question
from faultline.bot.intake.questions.slack_question import (
    MAX_TEXT,
    Kind,
    SlackQuestion,
    Taken,
    target_in,
)
from faultline.bot.policy.people import HOUR
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations, NewQuestion
from faultline.bot.store.quotas import PersonActs
from faultline.bot.store.store import Store
from faultline.connectors.shared.rows.named_ids import bare_id

T = TypeVar("T")

RATE_WINDOW = timedelta(hours=1)
TALKING_FOR = timedelta(minutes=15)
"""Somebody who asked us something so long ago or less means us when they write "you"."""


class MessageRouter:
    """Takes what people ask us. One per process; it holds its settings and the store alone."""

    def __init__(
        self,
        settings: Settings,
        conversations: Conversations,
        *,
        questions_per_hour: int | None = None,
    ) -> None:
        self._settings = settings
        self._slack = settings.slack
        self._conversations = conversations
        self._per_hour = questions_per_hour or settings.slack.questions_per_hour

    @property
    def engine(self) -> Engine:
        """The store's."""
        return self._conversations.engine

    def scoped_to(self, settings: Settings) -> MessageRouter:
        """The same, by the limits of the workspace that these settings were made for."""
        return MessageRouter(settings, self._conversations)

    async def take(self, question: SlackQuestion, *, within_s: float = 2.0) -> Taken:
        """Store a question, or say why it is none. Raises NotAccepted: then the sender shall send
        it again."""
        return await self._stored(self._take, question, within_s=within_s)

    async def edited(self, channel: str, ts: str, text: str, *, within_s: float = 2.0) -> bool:
        """A message was edited: an unanswered question becomes what it says now."""
        return await self._stored(
            self._conversations.edit, f"{channel}:{ts}", text[:MAX_TEXT], within_s=within_s
        )

    async def deleted(self, channel: str, ts: str, *, within_s: float = 2.0) -> bool:
        """A message was deleted: an unanswered question is not answered."""
        return await self._stored(
            self._conversations.withdraw, f"{channel}:{ts}", within_s=within_s
        )

    async def begins(self, question: SlackQuestion, *, within_s: float = 2.0) -> bool:
        """Whether a mention tells of trouble where nothing was answered yet. Raises
        NotAccepted."""
        if not tells_of_trouble(question.text, self._settings):
            return False
        return not await self._stored(self._is_ours, question, within_s=within_s)

    async def alert_of(self, channel: str, thread: str, *, within_s: float = 2.0) -> Alert | None:
        """The alert of the investigation that is answered in a thread. Raises NotAccepted."""
        return await self._stored(self._alert_of, channel, thread, within_s=within_s)

    async def may_investigate(self, who: str, key: str, *, within_s: float = 2.0) -> bool:
        """Count one more investigation that somebody asks for; False where that is too many in an
        hour. The same `key` counts once. Raises NotAccepted."""
        most = self._settings.people.investigations_per_hour
        acts = PersonActs(self._conversations.engine)
        return await self._stored(
            acts.count, who, "investigate", key, most, HOUR, within_s=within_s
        )

    def _is_ours(self, question: SlackQuestion) -> bool:
        channel, thread = question.channel, question.thread
        investigation_id = self._conversations.thread_of(channel, thread)
        return investigation_id is not None or self._conversations.has_trace(channel, thread)

    def _alert_of(self, channel: str, thread: str) -> Alert | None:
        ids = self._conversations.in_thread(channel, thread)
        # The first one is about the alert itself; later ones may have been asked for in words.
        investigation = Store(self._conversations.engine).get(ids[-1]) if ids else None
        return investigation.alert if investigation is not None else None

    def _take(self, question: SlackQuestion) -> Taken:
        ours = question.investigation_id or self._conversations.thread_of(
            question.channel, question.thread
        )
        kind, why_not = self._kind(question, ours)
        if kind is None:
            return Taken(False, why_not)
        now = datetime.now(UTC)
        before = self._conversations.count_questions(
            question.channel, question.thread, now - RATE_WINDOW
        )
        # Answer the first question over the limit with the limit, and later ones not at all.
        if before > self._per_hour:
            return Taken(False, "too many questions in this thread")
        new = NewQuestion(
            id=question.id,
            event_id=question.event_id,
            kind="limited" if before == self._per_hour else kind,
            surface=question.surface,
            text=question.text[:MAX_TEXT],
            who=question.who,
            channel=question.channel,
            thread=question.thread,
            ts=question.ts,
            about_channel=question.about_channel,
            investigation_id=ours,
        )
        if not self._conversations.take(new, now=now):
            return Taken(False, "taken before")
        return Taken(True, new.kind)

    def _kind(self, question: SlackQuestion, ours: str | None) -> tuple[Kind | None, str]:
        """What it is, or None and why it is nothing for us."""
        if is_courtesy(question.text):
            return None, "a courtesy"
        if question.surface == "thread":
            return self._without_mention(question, ours)
        command = command_in(question.text)
        if command is not None:
            return command.kind, ""
        if self._slack.follow_ups == "off" and not target_in(question.channel):
            return None, "follow-up questions are off"
        # A mention in a thread without an answer has no case to ask about: explain the commands.
        answered = ours or self._conversations.has_trace(question.channel, question.thread)
        return ("question" if answered or question.surface != "mention" else "help"), ""

    def _without_mention(
        self, question: SlackQuestion, ours: str | None
    ) -> tuple[Kind | None, str]:
        is_quiet = bare_id(question.channel) in self._slack.quiet_channels
        if self._slack.follow_ups != "questions" or is_quiet:
            return None, "only mentions are answered here"
        if ours is None and not self._conversations.has_trace(question.channel, question.thread):
            return None, "not in a thread of ours"
        if self._conversations.is_quiet(question.channel, question.thread):
            return None, "this thread asked for silence"
        since = datetime.now(UTC) - TALKING_FOR
        talking = self._conversations.is_talking(
            question.channel, question.thread, question.who, since
        )
        if not is_question(question.text, talking=talking):
            return None, "no question to us"
        return "question", ""

    async def _stored(self, what: Callable[..., T], *args: object, within_s: float) -> T:
        try:
            async with asyncio.timeout(within_s):
                return await in_store(what, *args)
        except TimeoutError:
            raise NotAccepted(f"the store did not answer within {within_s:g} s") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be written ({type(error).__name__})") from None
