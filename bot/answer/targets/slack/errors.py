"""What Slack's error codes mean for the operator, and whether trying again can help."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError, SlackClientError

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.posting import NOT_DONE

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
