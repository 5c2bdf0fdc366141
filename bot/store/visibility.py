"""Which investigations somebody may see: those of their teams and of no team, and those of the
Slack channels that they may read, by what Slack said last of these."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, Engine, Select, false, or_, select
from sqlalchemy.orm import Session

from faultline.bot.store.connections import reading
from faultline.bot.store.people_tables import SlackChannelRow
from faultline.bot.store.tables import InvestigationRow
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in


@dataclass(frozen=True)
class Visibility:
    """`teams` None: those of all teams. Otherwise those of these teams, and those of no team.

    `channels` None: those of all Slack channels. Otherwise those that came from one of these
    channels, and those that did not come from Slack.
    """

    teams: frozenset[str] | None = None
    channels: frozenset[str] | None = None
    nothing: bool = False
    """Nothing at all is seen."""

    @property
    def is_all(self) -> bool:
        """Whether everything is seen."""
        return self.teams is None and self.channels is None and not self.nothing

    def sees(self, team: str) -> bool:
        """Whether what belongs to that team can be seen; "" is no team."""
        return self.teams is None or not team or team in self.teams

    def where(self) -> list[ColumnElement[bool]]:
        """The conditions on rows of investigations; nothing where all are seen."""
        conditions: list[ColumnElement[bool]] = [false()] if self.nothing else []
        if self.teams is not None:
            team = InvestigationRow.team
            conditions.append(or_(team == "", team.in_(sorted(self.teams))))
        if self.channels is not None:
            channel = InvestigationRow.slack_channel
            conditions.append(or_(channel.is_(None), channel.in_(sorted(self.channels))))
        return conditions

    def ids(self) -> Select[str]:
        """The ids of what is seen, for rows of other tables."""
        return select(InvestigationRow.id).where(*self.where())


ALL = Visibility()
NOTHING_APART = Visibility(frozenset(), frozenset())
"""What belongs to no team and came from no channel."""
NOTHING = Visibility(nothing=True)


def visible_to_teams(teams: Iterable[str]) -> Visibility:
    """Of members of these teams."""
    return Visibility(frozenset(team for team in teams if team))


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
