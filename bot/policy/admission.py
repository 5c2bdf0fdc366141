"""What the settings say of an alert that comes in, in the words of the store: one value, made once,
with the rules that decide what is investigated, and quiet hours. Pure.

Quiet hours are reckoned in instants, so that a change of clocks is no matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from fnmatch import fnmatchcase
from typing import Literal
from zoneinfo import ZoneInfo

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.relation import Traits, service_of, traits_of
from faultline.bot.policy.reply_targets import reply_channel, targets_of
from faultline.bot.policy.services import ServiceTopology, Teams
from faultline.bot.policy.values import Arrival, ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.alerts import (
    DAYS,
    EVERY_CHANNEL,
    AlertRule,
    ChannelSettings,
    quiet_times,
)

MAX_TEXT = 500
"""Characters of a title or a label that are compared."""


def blocking_rule_of(
    alert: Alert, channel: str, rules: Sequence[AlertRule], topology: ServiceTopology
) -> str | None:
    """The rule that says not to investigate this alert, in the operator's words; None when it is
    investigated."""
    for number, rule in enumerate(rules, start=1):
        if not matches(rule, alert, channel, topology):
            continue
        if rule.investigate:
            return None
        return f"rule {number} ({rule.name})" if rule.name else f"rule {number}"
    return None


def matches(rule: AlertRule, alert: Alert, channel: str, topology: ServiceTopology) -> bool:
    """Whether the alert meets every condition of the rule."""
    # A condition that the rule does not set holds for every alert.
    if rule.source and alert.source not in rule.source:
        return False
    if rule.service and not _is_service(alert, rule, topology):
        return False
    if rule.severity and not _is_severity(alert, rule):
        return False
    if rule.channel and channel not in rule.channel:
        return False
    if rule.title and not fits(alert.title, rule.title):
        return False
    return _has_labels(alert, rule)


def _is_service(alert: Alert, rule: AlertRule, topology: ServiceTopology) -> bool:
    # Both sides may use one of the other names that the catalogue gives a service.
    names = [topology.name(service) or service for service in rule.service]
    return fits(topology.name(alert.service) or "", names)


def _is_severity(alert: Alert, rule: AlertRule) -> bool:
    return plain_severity(alert.severity) in {
        plain_severity(severity) for severity in rule.severity
    }


def _has_labels(alert: Alert, rule: AlertRule) -> bool:
    for label, requested_label in rule.labels.items():
        if label not in alert.labels or not fits(alert.labels[label], (requested_label,)):
            return False
    return True


def plain_severity(severity: str | None) -> str:
    """`SEV-1` and `sev1` are the same."""
    return "".join(c for c in (severity or "").casefold() if c.isalnum())


def fits(text: str, patterns: Iterable[str]) -> bool:
    """Whether a pattern matches the whole text; `*` and `?` are special, case is not."""
    plain = _plain(text[:MAX_TEXT])
    # Square brackets would begin a set of characters; titles hold them as they are.
    globs = [_plain(pattern).replace("[", "[[]") for pattern in patterns]
    return any(fnmatchcase(plain, glob) for glob in globs)


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()


DAY = timedelta(days=1)
MIDNIGHT = time(0)
MOST_SPANS = 16
"""Quiet hours that follow each other without a break, at most: six days, and the nights between."""


def quiet_until(channel: ChannelSettings, now: datetime) -> datetime | None:
    """When the quiet that holds now ends, in UTC; None when it is not quiet."""
    end = None
    for _ in range(MOST_SPANS):
        span_end = _end_of_quiet(channel, end or now)
        if span_end is None:
            break
        end = span_end
    return end


def _end_of_quiet(channel: ChannelSettings, at: datetime) -> datetime | None:
    zone = ZoneInfo(channel.time_zone)
    today = at.astimezone(zone).date()
    ends = []
    for day in (today - DAY, today, today + DAY):
        spans = (
            [(_instant(day, MIDNIGHT, zone), _instant(day + DAY, MIDNIGHT, zone))]
            if DAYS[day.weekday()] in channel.quiet_days
            else []
        )
        spans += [_hours(day, channel.quiet, zone)] if channel.quiet else []
        ends += [end for start, end in spans if start <= at < end]
    return max(ends, default=None)


def _hours(day: date, quiet: str, zone: ZoneInfo) -> tuple[datetime, datetime]:
    start, end = quiet_times(quiet)
    return _instant(day, start, zone), _instant(day if start < end else day + DAY, end, zone)


def _instant(day: date, at: time, zone: ZoneInfo) -> datetime:
    """A local time as an instant; one that the clocks skip is an hour later, one that they show
    twice the first."""
    return datetime.combine(day, at, zone).astimezone(UTC)


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
