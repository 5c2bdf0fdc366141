"""Whether a workspace's bot token may do what answers need."""

from __future__ import annotations

from collections.abc import Collection

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.slack.posts import VENDOR, slack_client, slack_error
from faultline.connectors.vendors.slack import SlackSettings

NEEDED_SCOPES = frozenset({"chat:write", "files:write"})
"""For posting, editing and charts; reading threads needs more where Slack is a source of alerts."""


PEOPLE_SCOPES = {
    "users:read": "guests are not told from members, and only those named by id are admins",
    "usergroups:read": "user groups that the settings name give no role",
    "users:read.email": "visitors of the pages see nothing of private channels",
    "im:read": "visitors of the pages see nothing of direct messages",
}
"""What it takes to know who acts and who reads, and what is lost without it."""


async def missing_people_scopes(settings: SlackSettings) -> tuple[str, ...]:
    """The scopes that the token lacks to know people, each with what that costs. Raises
    ConnectorError."""
    _, lacking = await _auth_test(settings, PEOPLE_SCOPES)
    return tuple(f"{scope} ({PEOPLE_SCOPES[scope]})" for scope in lacking)


async def check_slack(settings: SlackSettings) -> str:
    """Who the bot is in which workspace. Raises ConnectorError, naming the scopes the token
    lacks."""
    answer, lacking = await _auth_test(settings, NEEDED_SCOPES)
    if lacking:
        raise ConnectorError(VENDOR, "auth.test", f"the bot token lacks {', '.join(lacking)}")
    return f"bot {answer['user']} in {answer['team']}"


async def _auth_test(
    settings: SlackSettings, scopes: Collection[str]
) -> tuple[AsyncSlackResponse, list[str]]:
    """Whose the token is, and which of the wanted scopes it lacks; none where Slack does not say
    what it has."""
    try:
        answer = await slack_client(settings).auth_test()
    except (SlackClientError, aiohttp.ClientError, TimeoutError) as error:
        raise slack_error("auth.test", error) from error
    granted = str(answer.headers.get("x-oauth-scopes") or "")
    has = {scope.strip() for scope in granted.split(",")}
    return answer, sorted(set(scopes) - has) if granted else []
