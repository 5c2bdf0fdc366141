"""Discord: a message in a channel, by the channel's own webhook.

Source: Discord's documentation of webhooks (docs.discord.com/developers/resources/webhook). A
webhook lists no messages, so a message whose sending was not confirmed is sent again.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.foreign_text import safe_url
from faultline.bot.answer.targets.message_target import VendorMessage, call, identity_of
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.writer.plain_text import shown
from faultline.bot.settings.reply_targets import DiscordSettings

MAX_DESCRIPTION = 4_096
MAX_TITLE = 256
"""Of an embed, whose text mentions nobody."""


class DiscordMessages(VendorMessage):
    """Messages of one webhook."""

    @classmethod
    async def who(cls, settings: DiscordSettings) -> str:
        """The webhook's name."""
        who = await identity_of("Discord", _call(settings, "GET", ""))
        return f"webhook {who.get('name', '')}"

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Nothing can be looked for."""
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Send it, and wait until it is stored."""
        params = {"wait": "true"}
        sent = await _call(self.vendor_settings, "POST", "", params=params, json=_message(text))
        return str(sent.json()["id"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace its embed."""
        await _call(
            self.vendor_settings, "PATCH", f"/messages/{quote(ref, safe='')}", json=_message(text)
        )


def _message(text: str) -> dict[str, Any]:
    parts = TextParts.of(text)
    title = shown(parts.title)
    embed = {
        # A cut must not leave half an escape at the end.
        "title": title if len(title) <= MAX_TITLE else title[: MAX_TITLE - 2].rstrip("\\") + "…",
        "description": parts.markdown_within(MAX_DESCRIPTION),
    }
    url = safe_url(parts.page)
    if url:
        embed["url"] = url
    # Foreign text: nothing in it may notify anybody.
    return {"embeds": [embed], "allowed_mentions": {"parse": []}}


async def _call(settings: DiscordSettings, method: str, path: str, **more: Any) -> httpx.Response:
    assert settings.webhook_url is not None, "only configured targets are asked"
    try:
        url = settings.webhook_url.get_secret_value().rstrip("/")
        return await call(url, {}, method, path, **more)
    except httpx.HTTPStatusError as error:
        # The address is the secret, and stands in the error's text.
        request = httpx.Request(method, "https://discord.com/api/webhooks")
        phrase = f"status {error.response.status_code}"
        raise httpx.HTTPStatusError(phrase, request=request, response=error.response) from None
