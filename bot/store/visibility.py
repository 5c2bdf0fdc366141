"""Which investigations somebody may see: all of them, or those of some teams and of no team."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, or_, select

from bot.store.models import InvestigationRow


@dataclass(frozen=True)
class Visibility:
    """`teams` None: all investigations. Otherwise those of these teams, and those of no team."""

    teams: frozenset[str] | None = None

    def sees(self, team: str) -> bool:
        """Whether what belongs to that team can be seen; "" is no team."""
        return self.teams is None or not team or team in self.teams

    def where(self) -> list[ColumnElement[bool]]:
        """The condition on rows of investigations; nothing where all are seen."""
        if self.teams is None:
            return []
        team = InvestigationRow.team
        return [or_(team == "", team.in_(sorted(self.teams)))]

    def ids(self) -> Select[str]:
        """The ids of what is seen, for rows of other tables."""
        return select(InvestigationRow.id).where(*self.where())


ALL = Visibility()
NO_TEAMS = Visibility(frozenset())


def visible_to_teams(teams: Iterable[str]) -> Visibility:
    """Of members of these teams."""
    return Visibility(frozenset(team for team in teams if team))
