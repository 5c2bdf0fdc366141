"""Posts in Slack that can be found again: each bears its key in the message's metadata."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.posting import REQUEST_TIMEOUT_S
from faultline.bot.answer.targets.slack.errors import NOT_UNDERSTOOD, VENDOR, slack_error
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.answer.targets.slack.web_client import SlackWebClient
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in, named_id
from faultline.connectors.vendors.slack import SlackSettings

T = TypeVar("T")
IsIt = Callable[[Mapping[str, Any]], bool]
"""Whether a message as Slack gives it is the one that is looked for."""

RATE_LIMIT_RETRIES = 3
SEARCH_BACK = timedelta(minutes=10)
"""A post is looked for from this long before its reason: the clocks of Slack and of the bot
differ."""
LAST = timedelta(hours=1)
"""At least this long before the newest message, by Slack's own clock. The bot's clock may have been
far ahead when it noted the reason: a search that begins in the future would find nothing and post
a second time."""
PAGE = 200


@dataclass(frozen=True)
class SlackPlace:
    """A channel by its id at Slack, and the thread in it."""

    channel: str
    thread: str | None = None
    workspace: str = ""
    """The channel's; "" for that of `[slack]`."""

    @classmethod
    def of(cls, channel: str, thread: str | None = None) -> SlackPlace:
        """From a channel as it is written elsewhere, with its workspace."""
        return cls(bare_id(channel), thread, instance_in(channel))


@dataclass(frozen=True)
class MessageRef:
    """A posted message; in the store it is `channel/ts`, with the channel's workspace."""

    channel: str
    ts: str
    workspace: str = ""

    def __str__(self) -> str:
        return f"{named_id(self.workspace, self.channel)}/{self.ts}"

    @classmethod
    def parse(cls, ref: str) -> MessageRef:
        """From the store's text."""
        channel, _, ts = ref.partition("/")
        return cls(bare_id(channel), ts, instance_in(channel))


def slack_client(settings: SlackSettings) -> SlackWebClient:
    """The Web API client: 429 is honoured, nothing else is sent twice by itself."""
    return SlackWebClient(
        settings.api_url,
        token=settings.bot_token.get_secret_value() if settings.bot_token else "",
        timeout=REQUEST_TIMEOUT_S,
        retry_handlers=[AsyncRateLimitErrorRetryHandler(max_retry_count=RATE_LIMIT_RETRIES)],
    )


async def slack_answer(call: str, answer: Awaitable[T], channel: str = "") -> T:
    """The answer; whatever goes wrong is one ConnectorError that says whether to try again."""
    try:
        return await answer
    except (SlackClientError, aiohttp.ClientError, TimeoutError, *NOT_UNDERSTOOD) as error:
        raise slack_error(call, error, channel) from error


async def send_with_key(
    client: AsyncWebClient,
    place: SlackPlace,
    message: SlackMessage,
    *,
    event_type: str,
    key: str,
    in_channel: bool = False,
) -> MessageRef:
    """Post the message; with `in_channel` one in a thread is shown in the channel too. Raises
    ConnectorError."""
    answer = await slack_answer(
        "chat.postMessage",
        client.chat_postMessage(
            channel=place.channel,
            thread_ts=place.thread,
            reply_broadcast=in_channel or None,
            text=message.text,
            blocks=list(message.blocks),
            metadata={"event_type": event_type, "event_payload": {"key": key}},
            # Foreign text: no name becomes a mention, and no address a preview.
            parse="none",
            link_names=False,
            unfurl_links=False,
            unfurl_media=False,
        ),
        place.channel,
    )
    channel, ts = answer.get("channel"), answer.get("ts")
    if not (
        channel and ts and isinstance(channel, str) and isinstance(ts, str)
    ):  # whether it stands is looked for
        raise ConnectorError(
            VENDOR, "chat.postMessage", "the answer names no message", retryable=True
        )
    return MessageRef(channel, ts, place.workspace)


async def find_since(
    client: AsyncWebClient, place: SlackPlace, since: datetime, is_it: IsIt
) -> MessageRef | None:
    """Look through the thread; or through the channel, back to `SEARCH_BACK` before `since` and
    through its `LAST`.

    Raises ConnectorError.
    """
    cursor, oldest = "", (since - SEARCH_BACK).timestamp()
    while True:
        rows, next_cursor = await _page(client, place, cursor)
        for row in rows:
            if is_it(row):
                return MessageRef(place.channel, str(row.get("ts")), place.workspace)
        # A channel's messages come the newest first.
        if rows and not place.thread:
            if not cursor:
                oldest = min(oldest, _sent_at(rows[0]) - LAST.total_seconds())
            if _sent_at(rows[-1]) < oldest:
                return None
        cursor = next_cursor
        if not cursor:
            return None


async def _page(
    client: AsyncWebClient, place: SlackPlace, cursor: str
) -> tuple[list[dict[str, Any]], str]:
    """Some messages of the thread or channel, and the cursor of those that follow, if any do."""
    params: dict[str, Any] = {
        "channel": place.channel,
        "cursor": cursor or None,
        "limit": PAGE,
        # Slack leaves the metadata out unless it is asked for.
        "include_all_metadata": True,
    }
    if place.thread:
        call = client.conversations_replies(ts=place.thread, **params)
    else:
        call = client.conversations_history(**params)
    page = await slack_answer("conversations history", call, place.channel)
    rows = [row for row in page.get("messages") or [] if isinstance(row, dict)]
    return rows, (page.get("response_metadata") or {}).get("next_cursor") or ""


def _sent_at(row: Mapping[str, Any]) -> float:
    """When Slack took it; of a message without a time nothing is concluded."""
    try:
        return float(str(row.get("ts")))
    except ValueError:
        return math.inf


def bears(key: str) -> IsIt:
    """Whether a message bears this key."""

    def is_it(row: Mapping[str, Any]) -> bool:
        metadata = row.get("metadata")
        payload = metadata.get("event_payload") if isinstance(metadata, dict) else None
        return isinstance(payload, dict) and payload.get("key") == key

    return is_it
