"""The answer in Slack: one message per question in its thread, and at most one file beside it, each posted once."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from slack_sdk.errors import SlackClientError

from bot.conversation.asked import AnswerText
from bot.conversation.messages import message_of
from bot.replies.posting import LEASE, post_once
from bot.replies.slack_errors import said_by_slack
from bot.replies.slack_message import SlackMessage
from bot.replies.slack_replies import MessageRef, SlackReplies, slack_client
from bot.settings import Settings
from bot.store.conversations import Conversations, Question
from bot.store.store import Store

T = TypeVar("T")

EVENT_TYPE = "faultline_answer"
"""Type of the message metadata by which an answer is found again, and known as our own."""
SEARCH_BACK = timedelta(minutes=10)
PAGE = 200
FILE = "file"


class ConversationPosts:
    """Posts answers and files. Every failure is one ConnectorError that says whether to try again."""

    def __init__(
        self, settings: Settings, store: Store, conversations: Conversations, *, owner: str, lease: timedelta = LEASE
    ) -> None:
        self._conversations = conversations
        self._owner = owner
        self._lease = lease
        self._client = slack_client(settings.slack)
        self._replies = SlackReplies(settings, store, owner=owner, lease=lease)

    async def post(self, question: Question, answer: AnswerText, page_url: str | None) -> MessageRef:
        """The answer to the question, posted now or before."""
        message = message_of(answer, page_url)
        key = f"{question.id}:answer"

        async def find() -> str | None:
            return await self._find(question, lambda row: _key(row) == key)

        async def send() -> str:
            return str(await self._send(question, key, message))

        return MessageRef.parse(await self._once(question, key, find, send))

    async def edit(self, ref: MessageRef, answer: AnswerText, page_url: str | None) -> None:
        """Replace what stands there."""
        await self._replies.edit(ref, message_of(answer, page_url))

    async def show_chart(
        self, ref: MessageRef, question: Question, answer: AnswerText, page_url: str | None, png: bytes
    ) -> None:
        """Edit the answer so that it shows a chart. The file is shared nowhere else."""
        upload = self._client.files_upload_v2(filename=f"{answer.chart or 'chart'}.png", file=png, title="Chart")
        uploaded = await self._said("files.completeUploadExternal", upload, question.channel)
        chart = str(uploaded["file"]["id"])
        await self._replies.edit(ref, message_of(answer, page_url, chart=chart))

    async def attach(self, question: Question, file: Path, name: str, title: str) -> None:
        """A file in the question's thread."""

        async def find() -> str | None:
            return await self._find(question, lambda row: _holds_file(row, name))

        async def send() -> str:
            upload = self._client.files_upload_v2(
                filename=name, file=str(file), title=title, channel=question.channel, thread_ts=question.thread
            )
            uploaded = await self._said("files.completeUploadExternal", upload, question.channel)
            return str(uploaded["file"]["id"])

        await self._once(question, f"{question.id}:{FILE}", find, send)

    async def channel(self, channel: str) -> Mapping[str, Any]:
        """What Slack tells of a channel. Raises ConnectorError."""
        answer = await self._said("conversations.info", self._client.conversations_info(channel=channel), channel)
        found = answer.get("channel")
        return found if isinstance(found, dict) else {}

    async def _once(self, question: Question, key: str, find: Any, send: Any) -> str:
        return await post_once(
            self._conversations, key, question.id, owner=self._owner, find=find, send=send, lease=self._lease
        )

    async def _send(self, question: Question, key: str, message: SlackMessage) -> MessageRef:
        answer = await self._said(
            "chat.postMessage",
            self._client.chat_postMessage(
                channel=question.channel,
                thread_ts=question.thread or None,
                text=message.text,
                blocks=list(message.blocks),
                metadata={"event_type": EVENT_TYPE, "event_payload": {"key": key}},
                parse="none",
                link_names=False,
                unfurl_links=False,
                unfurl_media=False,
            ),
            question.channel,
        )
        return MessageRef(str(answer["channel"]), str(answer["ts"]))

    async def _find(self, question: Question, is_it: Any) -> str | None:
        """The message of the thread, not older than the question, that is the one looked for."""
        oldest = (question.asked_at - SEARCH_BACK).timestamp()
        cursor = ""
        while True:
            call = self._client.conversations_replies(
                channel=question.channel,
                ts=question.thread,
                oldest=f"{oldest:.6f}",
                limit=PAGE,
                include_all_metadata=True,
                cursor=cursor or None,
            )
            page = await self._said("conversations.replies", call, question.channel)
            for row in page.get("messages") or []:
                if isinstance(row, dict) and is_it(row):
                    return str(MessageRef(question.channel, str(row.get("ts"))))
            cursor = (page.get("response_metadata") or {}).get("next_cursor") or ""
            if not cursor:
                return None

    async def _said(self, call: str, answer: Awaitable[T], channel: str) -> T:
        try:
            return await answer
        except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
            raise said_by_slack(call, error, channel) from error


def _key(row: Mapping[str, Any]) -> object:
    metadata = row.get("metadata")
    payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
    return payload.get("key") if isinstance(payload, dict) else None


def _holds_file(row: Mapping[str, Any], name: str) -> bool:
    files = row.get("files")
    return isinstance(files, list) and any(isinstance(f, dict) and f.get("name") == name for f in files)
