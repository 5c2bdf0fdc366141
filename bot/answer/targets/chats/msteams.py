"""Microsoft Teams: an Adaptive Card in a channel, by the Bot Framework's connector service.

The connector lists no messages. Where the app may read the channel, Microsoft Graph does (`GET
/teams/{id}/channels/{id}/messages` and their replies, its OpenAPI document). A channel's message
has the same id in both.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.chats.teams_card import (
    NO_EXTRAS,
    CardExtras,
    Part,
    answer_extras,
    card_of,
)
from faultline.bot.answer.targets.message_target import VendorMessage, call, identity_of
from faultline.bot.answer.targets.posting import REQUEST_TIMEOUT_S, Claims
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings.reply_targets import THREAD, MsTeamsSettings

# The Bot Framework's connector service, with the bot's token, which is renewed before it ends.
#
# Source: the connector's published description (ConnectorAPI.json of botbuilder-python); for the
# token the client credentials flow of Microsoft's identity platform.

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


CARD = "application/vnd.microsoft.card.adaptive"
MAX_MESSAGES = 50
"""Graph's largest page. The newest come first."""


class TeamsCards(VendorMessage):
    """Messages of one bot."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._connector = BotConnector(self.vendor_settings)
        self._charts: dict[str, Sequence[Part]] = {}

    @classmethod
    async def who(cls, settings: MsTeamsSettings) -> str:
        """The app, which gets a token, and reads the channel where it is to. Whether it is
        installed in the team, the first message shows."""
        who = await identity_of("Microsoft Teams", new_token(settings, settings.audience))
        if settings.team is not None and settings.channel is not None:
            graph = (await identity_of("Microsoft Graph", new_token(settings, settings.graph_url)))[
                "access_token"
            ]
            await identity_of(
                "Microsoft Graph", _messages(settings, settings.channel, str(graph), 1)
            )
        return f"app {settings.client_id}" if who.get("access_token") else "no token"

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """By the id in its card, among the newest; only where the app may read them."""
        if self.vendor_settings.team is None:
            return None
        # Token and search share the time of one request, which the claim of a post counts on.
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            token = await self._connector.token(self.vendor_settings.graph_url)
            body = (await _messages(self.vendor_settings, address, token, MAX_MESSAGES)).json()
        for message in body["value"]:
            # The key is an id in the card's JSON: the quotation marks keep a longer key from
            # matching.
            if any(f'"{key}"' in (a["content"] or "") for a in message["attachments"] or ()):
                return _ref(message["id"], key)
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Begin a thread in the channel."""
        return await self._sent(address, key, await self._card(text, key))

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Put another card in its place."""
        name, _, key = ref.partition(" ")
        card = await self._card(text, key)
        await self._connector.request("PUT", activities(address, name), card)

    async def _show(self, outcome: Outcome) -> None:
        """With the answer's chart, for as long as its card is made."""
        key, charts = self._key(outcome.investigation), None
        if outcome.answer is not None and outcome.answer.case is not None:
            charts = self._charts[key] = await in_thread(_charts, outcome.answer)
        try:
            await super()._show(outcome)
        finally:
            # Another edit of the same card may have put its own there meanwhile.
            if self._charts.get(key) is charts:
                self._charts.pop(key, None)

    async def say_once(
        self, claims: Claims, about: str, address: str, key: str, card: Part, since: datetime
    ) -> str:
        """Post a card that says something else than an answer, once under its key; gives its ref.
        `about` is what the claims are about. Raises ConnectorError."""

        async def find() -> str | None:
            return await self._vendor_answer("find", self.find(address, key, since))

        async def send() -> str:
            return await self._vendor_answer("send", self._sent(address, key, message_with(card)))

        return await self._post_once(claims, key, about, find=find, send=send)

    async def _sent(self, address: str, key: str, message: Part) -> str:
        sent = await self._connector.request("POST", activities(address), message)
        return _ref(sent.json()["id"], key)

    async def _card(self, text: str, key: str) -> Part:
        """The card, with buttons where people can be heard."""
        extras = NO_EXTRAS
        if self.vendor_settings.tenant_id is not None:
            extras = await in_store(answer_extras, key, self._store, self._settings)
        return message_of(text, key, replace(extras, charts=self._charts.get(key, ())))


def _charts(answer: Answer) -> Sequence[Part]:
    # Late: they need what reads cases, and many a message is none about a case.
    from faultline.bot.answer.pictures.chart_data import decisive_chart_of
    from faultline.bot.answer.targets.chats.teams_card import line_charts

    assert answer.case is not None
    chart = decisive_chart_of(answer.case, answer.diagnosis)
    return line_charts(chart) if chart is not None else ()


async def _messages(
    settings: MsTeamsSettings, channel: str, token: str, most: int
) -> httpx.Response:
    channel, _, thread = channel.partition(THREAD)
    path = f"/v1.0/teams/{quote(settings.team or '', safe='')}/channels/{quote(channel, safe='')}"
    path += f"/messages/{quote(thread, safe='')}/replies" if thread else "/messages"
    params = {"$top": str(most)}
    return await call(settings.graph_url, bearer(token), "GET", path, params=params)


def message_of(text: str, key: str, extras: CardExtras = NO_EXTRAS) -> Part:
    """The message with the card of an answer."""
    return message_with(card_of(text, key, extras))


def message_with(card: Part) -> Part:
    """The message. `summary` is what notifications show."""
    attached = {"contentType": CARD, "content": card}
    return {"type": "message", "summary": card["fallbackText"], "attachments": [attached]}


def _ref(name: str, key: str) -> str:
    """The message's id, and the key that its card bears after each edit."""
    return f"{name} {key}"
