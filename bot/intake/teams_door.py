"""One bot in Teams: which requests it trusts, and what it does with them.

A message that mentions it asks for an investigation, the hand-over, a mute or help. A click on one
of its cards judges, mutes, runs again or asks for a ticket. What takes longer is a worker's.
"""

from __future__ import annotations

import logging
from typing import Any

import httpx

from faultline.bot.answer.targets.chats.msteams import BotConnector, activities, message_of
from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import Intake
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.teams_activity import (
    CHANNEL,
    SOURCE,
    Activity,
    BotClaims,
    TeamsTokens,
    Unknown,
    read_activity,
)
from faultline.bot.intake.teams_commands import TeamsClicks, TeamsCommands
from faultline.bot.intake.teams_people import TeamsPeople
from faultline.bot.settings import Settings

MESSAGE = "application/vnd.microsoft.activity.message"
UNSENT = (httpx.HTTPError, TimeoutError, KeyError, ValueError)

log = logging.getLogger("faultline.intake")


class TeamsDoor:
    """For the bot of one table."""

    def __init__(self, settings: Settings, intake: Intake) -> None:
        self._settings = settings.msteams
        self._tokens = TeamsTokens(self._settings)
        self._connector = BotConnector(self._settings)
        people = TeamsPeople(settings, self._connector)
        self._commands = TeamsCommands(settings, intake, people)
        self._clicks = TeamsClicks(settings, intake, people)

    async def proven(self, header: str | None) -> ProvenDoor:
        """The door for a request that the Bot Framework signed for this bot. Raises
        BadSignature, NotAccepted."""
        return ProvenDoor(self, await self._tokens.verify(header))

    async def receive(self, body: bytes, claims: BotClaims) -> dict[str, Any] | Ignored:
        """The answer to a request. Raises BadSignature, NotAccepted."""
        activity = read_activity(body)
        if activity is None:
            return Ignored("the body is no activity")
        if activity.channel_id != CHANNEL:
            return Ignored("it is of another channel than Teams")
        if activity.service_url != claims.serviceurl:
            raise BadSignature(SOURCE, "the token was given for another service (serviceurl)")
        # People of other tenants have no role here, so they get no answer either.
        if activity.tenant != self._settings.tenant_id:
            return Ignored("it was sent in another tenant")
        if activity.click is not None:
            value = await self._clicks.clicked(activity, activity.click)
            # Teams shows the value to the person who clicked, and to nobody else.
            return {"statusCode": 200, "type": MESSAGE, "value": value}
        if activity.type != "message":
            return Ignored(f"nothing is done for {activity.type[:40]!r}")
        if not activity.is_for_bot:
            return Ignored("it is for somebody else")
        text = await self._reply(activity)
        if text:
            await self._answer(activity, text)
        return {}

    async def _reply(self, activity: Activity) -> str:
        try:
            return await self._commands.reply(activity)
        except Unknown as error:
            return f"{error}."

    async def _answer(self, activity: Activity, text: str) -> None:
        """In the thread. What is lost is asked again."""
        path = activities(activity.conversation.id)
        try:
            await self._connector.request("POST", path, message_of(text, f"to:{activity.id}"))
        except UNSENT as error:
            log.warning("msteams: an answer was not sent (%s)", type(error).__name__)


class ProvenDoor:
    """A door, and what the token of one request says."""

    def __init__(self, door: TeamsDoor, claims: BotClaims) -> None:
        self._door, self._claims = door, claims

    async def receive(self, body: bytes) -> dict[str, Any] | Ignored:
        """As the door has it."""
        return await self._door.receive(body, self._claims)
