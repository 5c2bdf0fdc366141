"""Mattermost: a post in a channel, by its REST API v4 and a bot account's token.

Source: Mattermost's API reference (api/v4/source/posts.yaml). A post is found again by a property
of it that is not shown.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from faultline.bot.answer.targets.message_target import VendorMessage, call, identity_of, token_of
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.answer.writer.plain_text import shown
from faultline.bot.settings.reply_targets import MattermostSettings

KEY = "faultline_key"
MAX_MESSAGE = 15_000
"""A server takes 16 383 characters, or 4 000 where its database is an old one."""


class MattermostPosts(VendorMessage):
    """Posts of one bot account."""

    @classmethod
    async def who(cls, settings: MattermostSettings) -> str:
        """The bot, and the channel that it sees."""
        user = await identity_of("Mattermost", _call(settings, "GET", "/users/me"))
        about = _call(settings, "GET", f"/channels/{quote(settings.channel or '', safe='')}")
        channel = await identity_of("Mattermost's channel", about)
        return f"bot {user.get('username', '')} in {channel.get('display_name', '')}"

    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """Among those made or changed since."""
        # Mattermost counts milliseconds.
        params = {"since": str(int(since.timestamp() * 1000))}
        path = f"/channels/{quote(address, safe='')}/posts"
        for post in (
            (await _call(self.vendor_settings, "GET", path, params=params)).json()["posts"].values()
        ):
            if (post["props"] or {}).get(KEY) == key and not post.get("delete_at"):
                return str(post["id"])
        return None

    async def send(self, address: str, key: str, text: str) -> str:
        """Post it."""
        post = {"channel_id": address, "message": _markdown(text), "props": {KEY: key}}
        return str((await _call(self.vendor_settings, "POST", "/posts", json=post)).json()["id"])

    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace its text; a patch leaves its properties."""
        path = f"/posts/{quote(ref, safe='')}/patch"
        await _call(self.vendor_settings, "PUT", path, json={"message": _markdown(text)})


def _markdown(text: str) -> str:
    parts = TextParts.of(text)
    title = f"**{shown(parts.title)}**"
    return f"{title}\n\n{parts.markdown_within(MAX_MESSAGE - len(title))}".strip()


async def _call(
    settings: MattermostSettings, method: str, path: str, **more: Any
) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token_of(settings)}"}
    return await call(f"{settings.url}/api/v4", headers, method, path, **more)
