"""Microsoft Teams: an Adaptive Card in a channel, by the Bot Framework's connector service.

Source: the connector's published description (ConnectorAPI.json of botbuilder-python); for the
token the client credentials flow of Microsoft's identity platform. The connector lists no
messages. Where the app may read the channel, Microsoft Graph does (`GET
/teams/{id}/channels/{id}/messages`, its OpenAPI document); a channel's message has the same id in
both.
"""

from __future__ import annotations

import asyncio
import time
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from bot.answer.targets.chats.teams_card import card_of
from bot.answer.targets.posting import REQUEST_TIMEOUT_S
from bot.answer.targets.text_parts import TextParts
from bot.answer.targets.vendor_message import VendorMessage, asked_who, call
from bot.answer.writer.quotable import quotable
from bot.settings.chats import MsTeamsSettings

CARD = "application/vnd.microsoft.card.adaptive"
MOST_LOOKED_AT = 50
"""Graph's largest page. The newest come first."""
EARLY_S = 300
"""A token is renewed this long before it ends."""
UNAUTHORIZED = 401


class TeamsCards(VendorMessage):
    """Messages of one bot."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._tokens: dict[str, tuple[str, float]] = {}

    @classmethod
    async def who(cls, own: MsTeamsSettings) -> str:
        """The app, which gets a token, and reads the channel where it is to. Whether it is
        installed in the team, the first message shows."""
        said = await asked_who("Microsoft Teams", _token(own, own.audience))
        if own.team is not None and own.channel is not None:
            graph = (await asked_who("Microsoft Graph", _token(own, own.graph_url)))["access_token"]
            await asked_who("Microsoft Graph", _messages(own, own.channel, str(graph), 1))
        return f"app {own.client_id}" if said.get("access_token") else "no token"

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """By the id in its card, among the newest; only where the app may read them."""
        if self.own.team is None:
            return None
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            token = await self._token(self.own.graph_url)
            found = (await _messages(self.own, address, token, MOST_LOOKED_AT)).json()
        for message in found["value"]:
            if any(f'"{key}"' in (a["content"] or "") for a in message["attachments"] or ()):
                return _ref(message["id"], key)
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Begin a thread in the channel."""
        path = f"/v3/conversations/{quote(address, safe='')}/activities"
        sent = await self._connector("POST", path, _activity(text, key))
        return _ref(sent.json()["id"], key)

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Put another card in its place."""
        name, _, key = ref.partition(" ")
        path = f"/v3/conversations/{quote(address, safe='')}/activities/{quote(name, safe='')}"
        await self._connector("PUT", path, _activity(text, key))

    async def _connector(self, method: str, path: str, activity: Any) -> httpx.Response:
        # Both requests together have the time of one, which the claim of a post counts on.
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            token = await self._token(self.own.audience)
            try:
                url = self.own.service_url
                return await call(url, _bearer(token), method, path, json=activity)
            except httpx.HTTPStatusError as error:
                if error.response.status_code == UNAUTHORIZED:
                    self._tokens.clear()
                raise

    async def _token(self, audience: str) -> str:
        token, ends = self._tokens.get(audience, ("", 0.0))
        if time.monotonic() >= ends:
            said = (await _token(self.own, audience)).json()
            token = str(said["access_token"])
            self._tokens[audience] = token, time.monotonic() + int(said["expires_in"]) - EARLY_S
        return token


async def _messages(own: MsTeamsSettings, channel: str, token: str, most: int) -> httpx.Response:
    path = f"/v1.0/teams/{quote(own.team or '', safe='')}/channels/{quote(channel, safe='')}"
    params = {"$top": str(most)}
    return await call(own.graph_url, _bearer(token), "GET", f"{path}/messages", params=params)


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def _token(own: MsTeamsSettings, audience: str) -> httpx.Response:
    assert own.tenant is not None, "only configured targets are asked"
    assert own.client_secret is not None, "only configured targets are asked"
    form = {
        "grant_type": "client_credentials",
        "client_id": own.client_id,
        "client_secret": own.client_secret.get_secret_value(),
        "scope": f"{audience}/.default",
    }
    path = f"/{quote(own.tenant, safe='')}/oauth2/v2.0/token"
    return await call(own.login_url, {}, "POST", path, data=form)


def _activity(text: str, key: str) -> dict[str, Any]:
    """`summary` is what notifications show."""
    card = {"contentType": CARD, "content": card_of(text, key)}
    return {"type": "message", "summary": quotable(TextParts.of(text).title), "attachments": [card]}


def _ref(name: str, key: str) -> str:
    """The message's id, and the key that its card bears after each edit."""
    return f"{name} {key}"
