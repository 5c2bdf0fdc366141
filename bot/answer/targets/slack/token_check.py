"""Whether a workspace's bot token may do what answers need."""

from __future__ import annotations

import aiohttp
from slack_sdk.errors import SlackClientError

from analysis.errors import ConnectorError
from bot.answer.targets.slack.errors import VENDOR, said_by_slack
from bot.answer.targets.slack.posts import slack_client
from connectors.slack.settings import SlackSettings

NEEDED_SCOPES = frozenset({"chat:write", "files:write"})
"""For posting, editing and charts; reading threads needs more where Slack is a source of alerts."""


async def check_slack(settings: SlackSettings) -> str:
    """Who the bot is in which workspace. Raises ConnectorError, naming the scopes the token
    lacks."""
    try:
        answer = await slack_client(settings).auth_test()
    except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
        raise said_by_slack("auth.test", error) from error
    granted = str(answer.headers.get("x-oauth-scopes") or "")
    lacking = (
        sorted(NEEDED_SCOPES - {scope.strip() for scope in granted.split(",")}) if granted else []
    )
    if lacking:
        raise ConnectorError(VENDOR, "auth.test", f"the bot token lacks {', '.join(lacking)}")
    return f"bot {answer['user']} in {answer['team']}"
