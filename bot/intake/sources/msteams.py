"""Microsoft Teams as an alert source: what people write to the bot there, and clicks on its cards.

Source: learn.microsoft.com, "Authentication with the Bot Connector API" (who sent a
request), and the activities of the Bot Framework's published schema.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from faultline.bot.intake.accepting import Ignored
from faultline.bot.intake.alert_source import AlertSource, Intake
from faultline.bot.intake.signatures import BadSignature, Handler, ignored_response, read_body
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.bot.settings.reply_targets import MsTeamsSettings

if TYPE_CHECKING:
    from faultline.bot.intake.teams_door import ProvenDoor, TeamsDoor

PATH = "/webhooks/msteams"

log = logging.getLogger("faultline.intake")


@dataclass(frozen=True, kw_only=True)
class MsTeamsSource(AlertSource):
    """The messaging endpoint of every bot in the settings."""

    @property
    def paths(self) -> Mapping[str, str]:
        """Its one path."""
        return {PATH: self.name}

    def handlers(self, settings: Settings, intake: Intake) -> Mapping[str, Handler]:
        """What is loaded for it is loaded with the first request."""
        doors: list[TeamsDoor] = []

        async def handle(request: Request) -> Response:
            if not doors:
                doors.extend(await in_thread(_doors, self, settings, intake))
            # Nothing is read before it is known who sent it.
            door = await _proven(doors, request.headers.get("authorization"))
            body = await read_body(request, intake.limits)
            reply = await door.receive(body)
            if isinstance(reply, Ignored):
                return ignored_response(self.name, reply, status=200)
            return JSONResponse(reply)

        return {PATH: handle}


def _doors(source: MsTeamsSource, settings: Settings, intake: Intake) -> list[TeamsDoor]:
    from faultline.bot.intake.teams_door import TeamsDoor

    teams_doors = []
    for instance_settings in settings.per_instance(source.section):
        if all(getattr(instance_settings.msteams, key) for key in source.required):
            teams_doors.append(TeamsDoor(instance_settings, intake))
    return teams_doors


async def _proven(doors: Sequence[TeamsDoor], header: str | None) -> ProvenDoor:
    """The bot that a request is for. Raises BadSignature."""
    refusal = BadSignature("msteams", "no bot is set up")
    for door in doors:
        try:
            return await door.proven(header)
        except BadSignature as error:
            refusal = error
    raise refusal


ALERT_SOURCE = MsTeamsSource(
    name="msteams",
    title="Microsoft Teams",
    settings=MsTeamsSettings,
    required=("tenant_id", "client_id", "client_secret"),
    setup="Set the messaging endpoint of the Azure Bot to",
)
