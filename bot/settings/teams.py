"""Settings of teams: what belongs to whom, and each team's share of the workers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field

from faultline.connectors.shared.settings.settings_types import Names, Section


class TeamSettings(Section):
    """A team: docs/reliability.md. What belongs to no team is one more team without a name."""

    services: Names = ()
    """Its services, by name or alias in the catalogue. A service belongs to one team."""
    channels: Names = ()
    """Ids of its Slack channels, for alerts of services without a team. A channel belongs to one
    team."""
    groups: Names = ()
    """Groups of the identity provider whose members belong to it."""
    share: float = Field(default=1, gt=0, le=100)
    """Its weight when workers are busy: a team with 2 gets twice as many slots as one with 1."""


def owners(
    teams: Mapping[str, TeamSettings], key: str, names: Mapping[str, str] | None = None
) -> Iterable[tuple[str, str, str]]:
    """Every thing of `services` or `channels` with its team: the word in lower case, as written,
    and the team.

    `names` are the catalogue's names by any name of a service in lower case.
    """
    for team, table in teams.items():
        for word in getattr(table, key):
            plain = word.strip().casefold()
            if plain:
                yield (names or {}).get(plain, plain).casefold(), word, team


def claimed_twice(teams: Mapping[str, TeamSettings], names: Mapping[str, str]) -> str | None:
    """What two teams claim, in a sentence; None when all is of one team alone."""
    for key, canonical_names in (("services", names), ("channels", None)):
        team_by_claim: dict[str, str] = {}
        for thing, word, team in owners(teams, key, canonical_names):
            if team_by_claim.setdefault(thing, team) != team:
                return (
                    f"{key[:-1]} {word[:80]!r} belongs to {team_by_claim[thing]!r} and to "
                    f"{team!r}; it "
                    f"can belong to one"
                )
    return None
