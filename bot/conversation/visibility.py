"""Which investigations an answer may mention: nobody learns what was answered in a channel that
they cannot see.

In a channel: those that were answered in that channel. In a direct message and in the assistant's
pane: those that were started there, those of public channels, and those of the channel that the
person is looking at, which Slack only names to somebody who may see it. A channel that Slack
does not describe is taken for private. What was answered in one workspace is not told in another.

With `login.isolation = "teams"`, moreover, only those of the channel's team and those of no team.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from faultline.analysis.errors import ConnectorError
from faultline.bot.policy.services import Teams
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Question
from faultline.bot.store.reports import Place
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.bot.store.visibility import ALL, Visibility, visible_to_teams
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in

if TYPE_CHECKING:
    from faultline.bot.conversation.slack_posts import ConversationPosts

PUBLIC_FOR_S = 600.0
"""How long a channel is remembered to be public."""
MAX_CHANNELS = 10_000


class ConversationVisibility:
    """Decides with the store and with what Slack says of channels."""

    def __init__(
        self, store: Store, posts: ConversationPosts | None, settings: Settings | None = None
    ) -> None:
        self._store = store
        self._posts = posts
        apart = settings is not None and settings.login.isolation == "teams"
        self._teams = Teams.of(settings) if settings is not None and apart else None
        self._public: dict[str, tuple[float, bool]] = {}

    async def may_tell(self, question: Question, investigation: StoredInvestigation) -> bool:
        """Whether an answer to this question may speak of that investigation."""
        posts = await in_store(self._store.posts, investigation.id)
        channel = investigation.reply_to.slack_channel
        place = Place(investigation.id, investigation.team, channel, tuple(posts.values()))
        return await self._may_tell(question, place)

    async def visible_ids(self, question: Question, some: Iterable[Place]) -> frozenset[str]:
        """The ids of those that an answer to this question may mention."""
        return frozenset([place.id for place in some if await self._may_tell(question, place)])

    async def _may_tell(self, question: Question, place: Place) -> bool:
        if self._teams is not None and place.team not in ("", *self._teams_of(question)):
            return False
        workspace = instance_in(question.channel)
        # A channel of another workspace is public to other people.
        channels = {channel for channel in _channels(place) if instance_in(channel) == workspace}
        if question.channel in channels:
            return True
        if question.surface not in ("dm", "pane"):
            return False
        if question.about_channel in channels:
            return True
        return any([await self.is_public(channel) for channel in sorted(channels)])

    def visibility_of(self, question: Question) -> Visibility:
        """Whose investigations may be counted where the question was asked."""
        return ALL if self._teams is None else visible_to_teams(self._teams_of(question))

    def _teams_of(self, question: Question) -> tuple[str, ...]:
        """The teams of the channel, and of the one that the person is looking at. Slack tells no
        one's teams."""
        assert self._teams is not None
        return tuple(
            self._teams.channels[c.casefold()]
            for c in self._question_channels(question)
            if c.casefold() in self._teams.channels
        )

    def _question_channels(self, question: Question) -> tuple[str, ...]:
        return (question.channel, question.about_channel or "")

    async def visible(
        self, question: Question, some: Iterable[StoredInvestigation], limit: int
    ) -> list[StoredInvestigation]:
        """Those that may be spoken of, in their order."""
        investigations: list[StoredInvestigation] = []
        for investigation in some:
            if await self.may_tell(question, investigation):
                investigations.append(investigation)
            if len(investigations) >= limit:
                break
        return investigations

    async def is_public(self, channel: str) -> bool:
        """Whether everybody in the workspace, and nobody else, may read the channel."""
        cache_entry = self._public.get(channel)
        if cache_entry is not None and time.monotonic() - cache_entry[0] < PUBLIC_FOR_S:
            return cache_entry[1]
        assert self._posts is not None, "only Slack tells of channels"
        try:
            channel_info = await self._posts.channel(channel)
        except ConnectorError:
            # Do not remember a failure: Slack may answer the next time.
            return False
        shared = any(
            channel_info.get(name)
            for name in ("is_ext_shared", "is_pending_ext_shared", "is_im", "is_mpim")
        )
        # A channel that does not say so is taken for private.
        public = channel_info.get("is_private") is False and not shared
        if len(self._public) >= MAX_CHANNELS:
            self._public.clear()
        self._public[channel] = (time.monotonic(), public)
        return public


def _channels(place: Place) -> set[str]:
    """Where it was, or is to be, answered."""
    channels: set[str] = set()
    for ref in place.refs:
        channel, slash, _ = ref.partition("/")
        if slash and bare_id(channel)[:1] in "CGD":
            channels.add(channel)
    if place.slack_channel:
        channels.add(place.slack_channel)
    return channels
