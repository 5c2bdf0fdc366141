"""Posts in Slack that can be found again: each bears its key in the message's metadata."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.web.async_client import AsyncWebClient

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.posting import NOT_DONE, REQUEST_TIMEOUT_S
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in, named_id
from faultline.connectors.shared.transport.environment_trust import proxy_of_environment
from faultline.connectors.vendors.slack import SlackSettings

# Slack's client for the Web API, through the proxy that the environment names for its address.


class SlackWebClient(AsyncWebClient):
    """The SDK's own takes `HTTPS_PROXY`, else `HTTP_PROXY`, for every address: also for one that
    `NO_PROXY` names."""

    def __init__(self, api_url: str, **options: Any) -> None:
        super().__init__(base_url=f"{api_url}/", **options)
        self.proxy = proxy_of_environment(api_url)


# What Slack's error codes mean for the operator, and whether trying again can help.

VENDOR = "slack"

RETRYABLE = frozenset(
    {
        "ratelimited",
        "rate_limited",
        "message_limit_exceeded",
        "internal_error",
        "fatal_error",
        "service_unavailable",
        "request_timeout",
        "team_added_to_org",
        "file_upload_size_mismatch",
    }
)
"""https://docs.slack.dev/reference/methods/chat.postMessage#errors"""

MAY_BE_DONE = frozenset({"internal_error", "fatal_error", "request_timeout"})
"""After these some of the operation may have succeeded (same page); every other code is a
refusal."""

MEANINGS: Mapping[str, str] = {
    "channel_not_found": "there is no channel {channel}, or it is private and the bot is not in it",
    "not_in_channel": "the bot is not in channel {channel}: invite it there",
    "is_archived": "channel {channel} is archived",
    "invalid_auth": "the bot token is not valid",
    "not_authed": "no bot token was given",
    "account_inactive": "the bot token belongs to a deleted user or workspace",
    "token_revoked": "the bot token was revoked",
    "token_expired": "the bot token has expired",
    "restricted_action": "the workspace does not let the bot post in channel {channel}",
    "message_not_found": "the message to edit was deleted",
    "thread_not_found": "the thread to answer in was deleted",
    "ratelimited": "Slack asks to wait",
    "msg_too_long": "the message is too long",
    "msg_blocks_too_long": "the message's blocks are too long",
}


NOT_UNDERSTOOD = (AttributeError, KeyError, TypeError, ValueError)
"""How slack_sdk fails on JSON of another type than it expects, such as a list."""


def slack_error(call: str, error: Exception, channel: str = "") -> ConnectorError:
    """The failure of one call in one line, with the operator's next step where it is known."""
    if not isinstance(error, SlackApiError):
        return _without_answer(call, error)
    status = _status(error)
    answer = error.response.data if hasattr(error.response, "data") else None
    refused = status in NOT_DONE
    if not isinstance(answer, Mapping) or not answer.get("error"):
        return ConnectorError(
            VENDOR,
            call,
            "the answer was not understood",
            status=status,
            retryable=status != 404,
            unchanged=refused,
        )
    code = str(answer["error"])
    retryable = code in RETRYABLE or (status or 0) >= 500 or status == 429
    # Slack refuses with status 200, so a status below 400 says nothing.
    shown = status if status is not None and status >= 400 else None
    return ConnectorError(
        VENDOR,
        call,
        _meaning(code, answer, channel),
        status=shown,
        retryable=retryable,
        unchanged=refused or (shown is None and code not in MAY_BE_DONE),
    )


def error_code(error: Exception) -> str:
    """Slack's own code, such as `invalid_blocks`; empty when there was no answer."""
    answer = getattr(getattr(error, "response", None), "data", None)
    return str(answer.get("error", "")) if isinstance(answer, Mapping) else ""


def _meaning(code: str, answer: Mapping[str, Any], channel: str) -> str:
    if code == "missing_scope":
        return f"the bot token lacks the scope {answer.get('needed', 'that is needed')}"
    if code in MEANINGS:
        return MEANINGS[code].format(channel=channel or "named in the settings")
    details = answer.get("errors")
    first = f" ({str(details[0])[:160]})" if isinstance(details, list) and details else ""
    return f"{code[:80]}{first}"


def _without_answer(call: str, error: Exception) -> ConnectorError:
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return ConnectorError(VENDOR, call, "no answer in time", retryable=True)
    if isinstance(error, aiohttp.ClientConnectionError):
        # Only this error means that no connection was made.
        unsent = isinstance(error, aiohttp.ClientConnectorError)
        return ConnectorError(VENDOR, call, "cannot be reached", retryable=True, unchanged=unsent)
    if isinstance(error, (aiohttp.ClientError, SlackClientError, *NOT_UNDERSTOOD)):
        return ConnectorError(
            VENDOR, call, f"the answer was not understood ({type(error).__name__})", retryable=True
        )
    raise error


def _status(error: SlackApiError) -> int | None:
    status = getattr(error.response, "status_code", None) or getattr(error.response, "status", None)
    return status if isinstance(status, int) else None


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
