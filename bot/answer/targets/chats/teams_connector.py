"""The Bot Framework's connector service, with the bot's token, which is renewed before it ends.

Source: the connector's published description (ConnectorAPI.json of botbuilder-python); for the
token the client credentials flow of Microsoft's identity platform.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.targets.posting import REQUEST_TIMEOUT_S
from faultline.bot.answer.targets.vendor_message import call
from faultline.bot.settings.reply_targets import MsTeamsSettings

EARLY_S = 300
"""A token is renewed this long before it ends."""
UNAUTHORIZED = 401


class BotConnector:
    """One bot's. It goes to the address of the settings, whatever a message says."""

    def __init__(self, settings: MsTeamsSettings) -> None:
        self._settings = settings
        self._tokens: dict[str, tuple[str, float]] = {}

    async def request(self, method: str, path: str, activity: Any = None) -> httpx.Response:
        """One call below the service's address. Raises what httpx raises, and TimeoutError."""
        # Both requests together have the time of one, which the claim of a post counts on.
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            token = await self.token(self._settings.audience)
            try:
                url = self._settings.service_url
                return await call(url, bearer(token), method, path, json=activity)
            except httpx.HTTPStatusError as error:
                if error.response.status_code == UNAUTHORIZED:
                    # The token may have been revoked: the next call asks for another.
                    self._tokens.clear()
                raise

    async def token(self, audience: str) -> str:
        """A token for one audience."""
        token, ends = self._tokens.get(audience, ("", 0.0))
        if time.monotonic() >= ends:
            body = (await new_token(self._settings, audience)).json()
            token = str(body["access_token"])
            self._tokens[audience] = token, time.monotonic() + int(body["expires_in"]) - EARLY_S
        return token


def activities(conversation: str, name: str = "") -> str:
    """The path of a conversation's messages, or of one of them."""
    path = f"/v3/conversations/{quote(conversation, safe='')}/activities"
    return f"{path}/{quote(name, safe='')}" if name else path


def bearer(token: str) -> dict[str, str]:
    """The header."""
    return {"Authorization": f"Bearer {token}"}


async def new_token(settings: MsTeamsSettings, audience: str) -> httpx.Response:
    """Ask for a token. Raises what httpx raises."""
    assert settings.tenant is not None, "only configured targets are asked"
    assert settings.client_secret is not None, "only configured targets are asked"
    form = {
        "grant_type": "client_credentials",
        "client_id": settings.client_id,
        "client_secret": settings.client_secret.get_secret_value(),
        "scope": f"{audience}/.default",
    }
    path = f"/{quote(settings.tenant, safe='')}/oauth2/v2.0/token"
    return await call(settings.login_url, {}, "POST", path, data=form)
