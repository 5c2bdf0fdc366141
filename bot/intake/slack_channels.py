"""Which channels' investigations somebody may read: those of public channels, and of the private
ones and direct messages that they are in, as Slack says.

Answers are kept in the store, so that a restart while Slack is away hides nothing that is public. A
channel that Slack has said nothing about counts as private.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from faultline.bot.answer.targets.slack.posts import SlackWebClient, error_code
from faultline.bot.intake.slack_people import UNREACHABLE, SlackPeople, failure_text
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.visibility import ChannelReaders, SlackChannelFacts, may_be_public
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in, named_id

FRESH = timedelta(minutes=10)
STALE = timedelta(hours=24)
"""While Slack does not answer, those who were members before still read a private channel's."""
WITHIN_S = 1.0
"""A page waits so long for Slack; what it says later counts for the next page."""
ASK_AGAIN_AFTER_S = 60.0
AT_ONCE = 8
MEMBERS_PAGE, MAX_PAGES = 1_000, 20
LOST = frozenset({"channel_not_found", "not_in_channel"})
"""Codes for a private channel that the bot was removed from: nobody's membership can be asked."""

log = logging.getLogger("faultline.intake")


class SlackChannels:
    """Asks every configured workspace about its channels."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self._facts = SlackChannelFacts(engine)
        self._clients: dict[str, SlackWebClient] = {}
        self._people: dict[str, SlackPeople] = {}
        for workspace_settings in settings.per_instance("slack"):
            if workspace_settings.slack.bot_token is not None:
                name, token = (
                    workspace_settings.slack.instance.name,
                    workspace_settings.slack.bot_token.get_secret_value(),
                )
                client = SlackWebClient(workspace_settings.slack.api_url, token=token, timeout=5)
                self._clients[name], self._people[name] = (
                    client,
                    SlackPeople(workspace_settings, client),
                )
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._again_at: dict[str, float] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)

    async def read_by_address(self, email: str) -> frozenset[str]:
        """The channels that the person with this e-mail address reads; with an empty one, those
        that everybody does."""
        names = list(self._people) if email else []
        ids = await asyncio.gather(*(self._people[name].id_of(email) for name in names))
        return await self.read_by(dict(zip(names, ids, strict=True)))

    async def account_of(self, email: str) -> str:
        """The user id, as it is written here, of the person with this e-mail address, in the first
        workspace that knows them; "" for nobody."""
        for name, people in self._people.items():
            if user_id := await people.id_of(email):
                return named_id(name, user_id)
        return ""

    async def read_by(self, accounts: Mapping[str, str]) -> frozenset[str]:
        """The channels that somebody reads, who has these user ids in these workspaces."""
        readers_by_channel = await in_store(self._facts.read)
        if await self._refresh(readers_by_channel):
            readers_by_channel = await in_store(self._facts.read)
        now = datetime.now(UTC)
        return frozenset(
            channel
            for channel, readers in readers_by_channel.items()
            if self._reads(channel, readers, accounts.get(instance_in(channel), ""), now)
        )

    async def learn(self, channel: str) -> None:
        """Ask about a channel in which an investigation begins."""
        await self._refresh({channel: None})

    def _reads(
        self, channel: str, readers: ChannelReaders | None, user: str, now: datetime
    ) -> bool:
        if readers is None:
            # Without a token there is nobody to ask, now or later.
            return instance_in(channel) not in self._clients and may_be_public(channel)
        if readers.members is None:
            return True
        return bool(user) and user in readers.members and now - readers.at < STALE

    async def _refresh(self, readers_by_channel: Mapping[str, ChannelReaders | None]) -> bool:
        """Ask about the channels that are not known well enough. Returns whether anything may be
        new."""
        tasks = [self._ask(channel) for channel in self._outdated(readers_by_channel)]
        if not tasks:
            return False
        # `wait` cancels nothing: an answer that comes later is kept for the next page.
        await asyncio.wait(tasks, timeout=WITHIN_S)
        return True

    def _outdated(self, readers_by_channel: Mapping[str, ChannelReaders | None]) -> Iterable[str]:
        now = datetime.now(UTC)
        for channel, readers in readers_by_channel.items():
            is_fresh = readers is not None and now - readers.at < FRESH
            waits = time.monotonic() < self._again_at.get(channel, 0.0)
            if instance_in(channel) in self._clients and not is_fresh and not waits:
                yield channel

    def _ask(self, channel: str) -> asyncio.Task[None]:
        task = self._asking.get(channel)
        if task is None:
            task = self._asking[channel] = asyncio.create_task(self._refresh_channel(channel))
            task.add_done_callback(lambda _: self._asking.pop(channel, None))
        return task

    async def _refresh_channel(self, channel: str) -> None:
        # Set before the call: a channel that fails is not asked again at once.
        self._again_at[channel] = time.monotonic() + ASK_AGAIN_AFTER_S
        client = self._clients[instance_in(channel)]
        async with self._slots:
            try:
                members = await _members(client, bare_id(channel))
            except UNREACHABLE as error:
                log.warning(
                    "slack: nothing is known of the readers of a channel (%s)", failure_text(error)
                )
                if error_code(error) not in LOST:
                    return
                members = frozenset()
        try:
            await in_store(self._facts.keep, channel, members)
        except SQLAlchemyError as error:
            log.warning("slack: the readers of a channel were not kept (%s)", type(error).__name__)


async def _members(client: SlackWebClient, channel: str) -> frozenset[str] | None:
    """Who reads a channel; None for everybody in the workspace."""
    channel_info: Any = (await client.conversations_info(channel=channel))["channel"]
    if channel_info.get("is_im"):
        return frozenset({str(channel_info.get("user") or "")} - {""})
    # Only a clear `false` makes a channel public. A missing field counts as private.
    if channel_info.get("is_private") is False and not channel_info.get("is_mpim"):
        return None
    members: set[str] = set()
    cursor = ""
    for _ in range(MAX_PAGES):
        page = await client.conversations_members(
            channel=channel, limit=MEMBERS_PAGE, cursor=cursor or None
        )
        members |= {str(user) for user in page.get("members") or ()}
        cursor = str((page.get("response_metadata") or {}).get("next_cursor") or "")
        if not cursor:
            break
    return frozenset(members)
