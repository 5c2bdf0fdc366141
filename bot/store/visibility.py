"""Which investigations somebody may see: those of their teams and of no team, and those of the
Slack channels that they may read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, false, or_, select

from faultline.bot.store.models import InvestigationRow


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
