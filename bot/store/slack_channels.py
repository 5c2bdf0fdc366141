"""The Slack channels that investigations came from, and what Slack said last of who reads them.

Synchronous, each operation one transaction; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from faultline.bot.store.models import InvestigationRow
from faultline.bot.store.people_tables import SlackChannelRow
from faultline.bot.store.sessions import reading
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in


@dataclass(frozen=True)
class ChannelReaders:
    """Who reads a channel: `members` are ids of users, None for everybody in the workspace."""

    members: frozenset[str] | None
    at: datetime


class SlackChannelFacts:
    """What is known, on the tables of `faultline.bot.store`. Channels are written with their
    workspace."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def read(self) -> dict[str, ChannelReaders | None]:
        """Every channel that an investigation came from; None where Slack was never asked."""
        named = select(InvestigationRow.slack_channel).distinct()
        with reading(self._engine) as session:
            readers_by_channel = {
                row.channel: _readers(row) for row in session.scalars(select(SlackChannelRow))
            }
            return {
                channel: readers_by_channel.get(channel)
                for channel in session.scalars(named)
                if channel
            }

    def keep(
        self, channel: str, members: Collection[str] | None, now: datetime | None = None
    ) -> None:
        """What Slack says now."""
        row = SlackChannelRow(
            channel=channel,
            members=None if members is None else sorted(members),
            at=now or datetime.now(UTC),
        )
        with Session(self._engine) as session, session.begin():
            session.merge(row)

    def mentionable_in(
        self, source_channel: str | None, askable: Collection[str] | None = None
    ) -> frozenset[str]:
        """The channels whose investigations may be mentioned in one that came from
        `source_channel`: that one, and all that are known to be public.

        A channel that Slack was never asked about is not known to be public. It may be public only
        if its workspace is not among the `askable` ones (unset: all are), as nobody can ask there.
        """
        channels = set()
        for channel, readers in self.read().items():
            if readers is not None:
                is_public = readers.members is None
            else:
                nobody_to_ask = askable is not None and instance_in(channel) not in askable
                is_public = nobody_to_ask and may_be_public(channel)
            if is_public or channel == source_channel:
                channels.add(channel)
        return frozenset(channels)


def may_be_public(channel: str) -> bool:
    """Whether a channel may be public although Slack said nothing about it. Ids of direct messages
    begin with D, those of old private channels with G."""
    return bare_id(channel).startswith("C")


def _readers(row: SlackChannelRow) -> ChannelReaders:
    return ChannelReaders(None if row.members is None else frozenset(row.members), row.at)
