"""The answer in Slack: one message per question in its thread, and at most one file beside it, each
posted once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.posting import LEASE, post_once
from faultline.bot.answer.targets.slack.posts import (
    IsIt,
    MessageRef,
    SlackPlace,
    bears,
    find_since,
    send_with_key,
    slack_answer,
    slack_client,
)
from faultline.bot.answer.targets.slack.replies import SlackReplies
from faultline.bot.conversation.messages import message_of
from faultline.bot.conversation.starting import SOURCE
from faultline.bot.intake.questions.slack_question import AnswerText
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations, Question
from faultline.bot.store.follow_ups import FollowUps
from faultline.bot.store.store import ReplyTo, Store
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in, named_id

EVENT_TYPE = "faultline_answer"
"""Type of the message metadata by which an answer is found again, and known as our own."""
FILE = "file"

log = logging.getLogger("faultline.conversation")


class ConversationPosts:
    """Posts answers and files in one workspace. Every failure is one ConnectorError that says
    whether to try again."""

    source = SOURCE

    def __init__(
        self,
        settings: Settings,
        store: Store,
        conversations: Conversations,
        *,
        owner: str,
        lease: timedelta = LEASE,
    ) -> None:
        self.questions_per_hour = settings.slack.questions_per_hour
        self.further_per_hour = settings.slack.further_per_hour
        self._conversations = conversations
        self._post_once = partial(post_once, conversations, owner=owner, lease=lease)
        self._client = slack_client(settings.slack)
        self._replies = SlackReplies(settings, store, owner=owner, lease=lease)

    async def post(
        self, question: Question, answer: AnswerText, page_url: str | None
    ) -> MessageRef:
        """The answer to the question, posted now or before."""
        message = message_of(answer, page_url)
        key = f"{question.id}:answer"

        async def find() -> str | None:
            return await self._find(question, bears(key))

        async def send() -> str:
            return str(
                await send_with_key(
                    self._client, place_of(question), message, event_type=EVENT_TYPE, key=key
                )
            )

        return MessageRef.parse(await self._post_once(key, question.id, find=find, send=send))

    async def edit(self, ref: MessageRef, answer: AnswerText, page_url: str | None) -> None:
        """Replace what stands there."""
        await self._replies.edit(ref, message_of(answer, page_url))

    async def refresh(self, outcome: Outcome) -> None:
        """Bring the investigation's own message up to date, with what people said of it. A failure
        costs that alone: the next edit of the message shows it."""
        try:
            await self._replies.refresh(outcome)
        except ConnectorError as error:
            log.warning("slack: a message was not brought up to date (%s)", error)

    def investigations_in(self, question: Question) -> Sequence[str]:
        """Those that are answered in the question's thread, the newest first. Blocks."""
        return self._conversations.in_thread(question.channel, question.thread)

    def further_since(self, question: Question, since: datetime) -> int:
        """Follow-ups that this thread has asked for since then. Blocks."""
        counted = FollowUps(self._conversations.engine).count_since
        return counted(question.channel, question.thread, since)

    def reply_to(self, question: Question) -> ReplyTo:
        """In this thread."""
        return ReplyTo(question.channel, question.thread)

    def asker(self, question: Question) -> str:
        """With the workspace, where there are several."""
        return named_id(instance_in(question.channel), question.who)

    def name_of(self, question: Question) -> str:
        """Slack names people by ids."""
        return question.who

    async def show_chart(
        self,
        ref: MessageRef,
        question: Question,
        answer: AnswerText,
        page_url: str | None,
        png: bytes,
    ) -> None:
        """Edit the answer so that it shows a chart. The file is shared nowhere else."""
        upload = self._client.files_upload_v2(filename="chart.png", file=png, title="Chart")
        uploaded = await slack_answer("files.completeUploadExternal", upload, ref.channel)
        chart = str(uploaded["file"]["id"])
        await self._replies.edit(ref, message_of(answer, page_url, chart=chart))

    async def attach(self, question: Question, file: Path, name: str, title: str) -> None:
        """A file in the question's thread."""

        async def find() -> str | None:
            # A file has no metadata, so its name identifies it.
            return await self._find(question, lambda row: _holds_file(row, name))

        async def send() -> str:
            upload = self._client.files_upload_v2(
                filename=name,
                file=str(file),
                title=title,
                channel=place_of(question).channel,
                thread_ts=question.thread,
            )
            uploaded = await slack_answer(
                "files.completeUploadExternal", upload, place_of(question).channel
            )
            return str(uploaded["file"]["id"])

        await self._post_once(f"{question.id}:{FILE}", question.id, find=find, send=send)

    async def channel(self, channel: str) -> Mapping[str, Any]:
        """What Slack tells of a channel of this workspace. Raises ConnectorError."""
        # Slack knows the channel without the workspace's name.
        channel_id = bare_id(channel)
        answer = await slack_answer(
            "conversations.info", self._client.conversations_info(channel=channel_id), channel_id
        )
        details = answer.get("channel")
        return details if isinstance(details, dict) else {}

    async def _find(self, question: Question, is_it: IsIt) -> str | None:
        """The message of the thread, not older than the question, that is the one looked for."""
        message_ref = await find_since(
            self._client, place_of(question), question.requested_at, is_it
        )
        return str(message_ref) if message_ref else None


def place_of(question: Question) -> SlackPlace:
    """Where its answer goes."""
    return SlackPlace.of(question.channel, question.thread or None)


def _holds_file(row: Mapping[str, Any], name: str) -> bool:
    files = row.get("files")
    return isinstance(files, list) and any(
        isinstance(f, dict) and f.get("name") == name for f in files
    )
