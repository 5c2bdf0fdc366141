"""What the settings say of an alert that comes in, in the words of the store: one value, made once,
pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.alert_rules import blocking_rule_of, plain_severity
from faultline.bot.policy.quiet_hours import quiet_until
from faultline.bot.policy.reply_targets import reply_channel, targets_of
from faultline.bot.policy.teams import Teams
from faultline.bot.policy.topology import ServiceTopology
from faultline.bot.policy.traits import Traits, service_of, traits_of
from faultline.bot.policy.values import Arrival, ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import EVERY_CHANNEL, ChannelSettings

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Policy:
    """The settings' rules. Without settings nothing is grouped and nothing held back."""

    groups: Literal["on", "shadow", "off"] = "off"
    window: timedelta = timedelta(minutes=5)
    longest: timedelta = timedelta(minutes=30)
    topology: ServiceTopology = field(default_factory=ServiceTopology)
    settings: Settings = field(default_factory=Settings)
    teams: Teams = field(default_factory=Teams)

    @classmethod
    def of(cls, settings: Settings) -> Policy:
        """The operator's."""
        alerts = settings.alerts
        window, longest = (
            timedelta(minutes=alerts.group_minutes),
            timedelta(minutes=alerts.group_longest_minutes),
        )
        topology = ServiceTopology.of(settings)
        return cls(alerts.groups, window, longest, topology, settings, Teams.of(settings, topology))

    @property
    def apart(self) -> bool:
        """Whether teams see their own investigations alone, so that alerts of two teams are never
        one incident."""
        return self.settings.login.isolation == "teams"

    def channel(self, arrival: Arrival) -> str:
        """The channel in which the alert would be answered; "" where there is none."""
        service = self.topology.name(arrival.alert.service)
        return reply_channel(arrival.alert, service, arrival.reply_to, self.settings)

    @property
    def several_workspaces(self) -> bool:
        """Whether alerts are posted to more than one Slack workspace."""
        return len(self.settings.instances("slack")) > 1

    def workspaces_of(self, alert: Alert, reply_to: ReplyTo) -> frozenset[str]:
        """Which of several Slack workspaces an alert is posted to. Alerts of different workspaces
        never share an incident: each would show the other's."""
        service = self.topology.name(alert.service)
        return targets_of(alert, service, reply_to, self.settings)

    def team(self, alert: Alert, channel: str) -> str:
        """Whose the alert is; "" where it belongs to no team."""
        return self.teams.team(self.topology.name(alert.service), channel)

    def blocking_rule(self, alert: Alert, channel: str) -> str | None:
        """The rule by which the alert is not investigated, or None."""
        return blocking_rule_of(alert, channel, self.settings.alerts.rules, self.topology)

    def per_hour(self, channel: str) -> int | None:
        """Automatic investigations that the channel takes in an hour; None: any number."""
        return self._of(channel).per_hour

    def quiet_until(self, alert: Alert, channel: str, now: datetime) -> datetime | None:
        """Until when the channel is not notified of this alert; None: it is notified at once."""
        rules = self._of(channel)
        # The operator chose severities that reach people in quiet hours, too.
        if plain_severity(alert.severity) in {plain_severity(s) for s in rules.break_through}:
            return None
        return quiet_until(rules, now)

    def service(self, alert: Alert) -> str | None:
        """The service that its traits name."""
        return service_of(alert, self.topology)

    def traits(self, alert: Alert) -> Traits:
        """What the alert is about."""
        return traits_of(alert, self.settings, self.topology)

    def in_scope(self, services: frozenset[str]) -> frozenset[str]:
        """The services that an investigation of these looks at."""
        return services.union(*(self.topology.called_by(service) for service in services))

    def _of(self, channel: str) -> ChannelSettings:
        channels = self.settings.alerts.channels
        return channels.get(channel) or channels.get(EVERY_CHANNEL) or ChannelSettings()
