"""Whose an alert is: the team of its service, else of the channel in which it is answered: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from faultline.bot.policy.topology import ServiceTopology
from faultline.bot.settings import Settings
from faultline.bot.settings.people import owners

NO_TEAM = ""


@dataclass(frozen=True)
class Teams:
    """Teams by service and by channel, in lower case, and each team's share."""

    services: Mapping[str, str] = field(default_factory=dict)
    channels: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings, topology: ServiceTopology | None = None) -> Teams:
        """The settings'."""
        names = (topology or ServiceTopology.of(settings)).names
        services = {thing: team for thing, _, team in owners(settings.teams, "services", names)}
        channels = {thing: team for thing, _, team in owners(settings.teams, "channels")}
        return cls(services, channels, {name: team.share for name, team in settings.teams.items()})

    def team(self, service: str | None, channel: str) -> str:
        """The team's name; "" for what belongs to none. `service` as the catalogue calls it."""
        of_service = self.services.get(service.casefold()) if service else None
        return of_service or self.channels.get(channel.casefold(), NO_TEAM)

    def share(self, team: str) -> float:
        """Its weight; 1 for what belongs to none, or to a team that is not in the settings any
        more."""
        return self.shares.get(team, 1.0)
