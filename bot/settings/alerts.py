"""Settings for classifying alerts: which are investigated, which belong together, and the limits
and quiet hours of each channel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import time
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, field_validator, model_validator

from faultline.analysis.errors import SettingsError
from faultline.bot.settings.alert_sources import BUILT_IN, alert_source_names
from faultline.connectors.shared.settings.settings_types import Names, Section

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
EVERY_CHANNEL = "*"
"""The table for channels without their own."""
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\s*-\s*([01]\d|2[0-3]):([0-5]\d)")


def _check_sources(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        # Other packages are asked only about a name that is not ours: that takes a while.
        if value not in BUILT_IN and value not in alert_source_names():
            raise ValueError(f"{value[:40]!r} is none of {', '.join(alert_source_names())}")
    return values


def quiet_times(value: str) -> tuple[time, time]:
    """Start and end of `22:00-07:00`. Raises ValueError."""
    match = _HOURS.fullmatch(value.strip())
    if match is None:
        raise ValueError("must be two times of day, such as 22:00-07:00")
    hours = [int(part) for part in match.groups()]
    start, end = time(hours[0], hours[1]), time(hours[2], hours[3])
    if start == end:
        raise ValueError("begins when it ends. Use quiet_days for whole days")
    return start, end


class AlertRule(Section):
    """One rule. It matches an alert that meets every condition it names, and of each condition any
    one value."""

    name: str = Field(default="", max_length=80)
    """The operator's word for it, in what is said of alerts that it holds back."""
    investigate: bool = True
    """Whether alerts that match are investigated."""
    source: Annotated[Names, AfterValidator(_check_sources)] = ()
    """Alert sources: `alertmanager`, `azure_monitor`, `cloudwatch`, `datadog`, `incident_io`,
    `pagerduty`, `rootly`, `sentry`, `slack`, `webhook`, and those of other packages by their
    names."""
    service: Names = ()
    """Services, by their names in the catalogue or their aliases; `*` stands for anything."""
    severity: Names = ()
    """Severities as the alert's vendor calls them, whatever their case."""
    channel: Names = ()
    """Ids of the channels in which the answer would be given."""
    title: Names = ()
    """Titles; `*` stands for anything, `?` for one character, whatever their case."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Labels of the alert and their values, all of which must fit; `*` and `?` as in titles."""

    @property
    def matches_all(self) -> bool:
        """Whether it names no condition."""
        return not any(
            (self.source, self.service, self.severity, self.channel, self.title, self.labels)
        )


class ChannelSettings(Section):
    """A channel's peace."""

    per_hour: int | None = Field(default=None, ge=1)
    """Automatic investigations in an hour at most; what comes beyond is counted and said once.
    Unset: no limit."""
    quiet: str | None = None
    """Quiet hours, as `22:00-07:00`: what comes is investigated, and told in one digest when they
    end."""
    quiet_days: Names = ()
    """Days that are quiet altogether: `mon` to `sun`."""
    time_zone: str = "UTC"
    """The time zone of both, such as `Europe/Berlin`."""
    break_through: Names = ("critical", "page", "fatal", "emergency", "high", "p1", "sev0", "sev1")
    """Severities that are announced at once even so. `high` is what PagerDuty calls urgent."""
    apps: Names = ()
    """Apps and bots whose Slack messages are read as alerts: names, app ids (`A...`) or bot ids
    (`B...`). Unset: every app of the bot's own workspace. An app of another workspace, in a channel
    shared by Slack Connect, counts by its id alone."""

    @field_validator("quiet")
    @classmethod
    def _are_times(cls, value: str | None) -> str | None:
        if value is not None:
            quiet_times(value)
        return value

    @field_validator("quiet_days")
    @classmethod
    def _are_days(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        # `Monday` and `mon` are one day.
        days = tuple(value.casefold()[:3] for value in values)
        for value, day in zip(values, days, strict=True):
            if day not in DAYS:
                raise ValueError(
                    f"{value[:40]!r} is not a day. Use mon, tue, wed, thu, fri, sat, sun"
                )
        if len(set(days)) == len(DAYS):
            raise ValueError("names every day of the week, so no alert would ever be announced")
        return days

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        # `ZoneInfo` opens a file of that name, and a directory raises OSError.
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{value[:60]!r} is not a time zone such as Europe/Berlin") from None
        return value


class AlertSettings(Section):
    """Which alerts are investigated, and which belong together: docs/storms.md."""

    oldest_days: float = Field(default=3, gt=0, le=36_500)
    """An alert that PagerDuty, Datadog, Sentry or Rootly dates longer ago starts nothing: it is a
    replay, or too old."""
    groups: Literal["on", "shadow", "off"] = "on"
    """Whether an alert joins the investigation of a related one. `shadow`: the log says which one
    it would join."""
    group_minutes: float = Field(default=5, gt=0, le=60)
    """Alerts further apart than this do not join. Alertmanager itself may delay an alert by as
    much."""
    group_longest_minutes: float = Field(default=30, gt=0, le=720)
    """Nothing joins an investigation older than this: its evidence is as old."""
    rules: tuple[AlertRule, ...] = ()
    """Tables `[[alerts.rules]]` (`investigate` and the conditions `source`, `service`, `severity`,
    `channel`, `title`, `labels`). The first match decides. An alert that matches none is
    investigated."""
    channels: Mapping[str, ChannelSettings] = Field(default_factory=dict)
    """Tables `[alerts.channels.ID]` (`per_hour`, `quiet`, `quiet_days`, `time_zone`,
    `break_through`, `apps`). `"*"` is for all other channels."""

    @model_validator(mode="after")
    def _every_rule_can_match(self) -> AlertSettings:
        # Only the last rule may match everything.
        for number, rule in enumerate(self.rules[:-1], start=1):
            if rule.matches_all:
                raise ValueError(
                    f"rule {number} names no condition, so the rules after it never match"
                )
        if self.group_longest_minutes < self.group_minutes:
            raise ValueError("group_longest_minutes is shorter than group_minutes")
        return self


class WatchSettings(Section):
    """A service that is looked at by the clock: docs/verify-deploy.md. Written as
    `[[watch]]` with a `service`, or as `[watch.NAME]`."""

    service: str | None = Field(default=None, min_length=1, max_length=200)
    """The service, as in the catalogue. Unset: the table's name."""
    every_minutes: float = Field(default=10, ge=5, le=1440)
    """How often it is looked at. Each look asks the metrics and logs of one service."""
    window_minutes: float = Field(default=15, ge=5, le=240)
    """How many minutes are compared with the 6 hours before."""
    times: int = Field(default=2, ge=1, le=20)
    """How many looks in a row must find it worse before an investigation starts."""
    severity: str = Field(default="warning", max_length=40)
    """The severity of its alert."""
    places: Mapping[str, str] = Field(default_factory=dict)
    """Where it is, by label, such as `{ cluster = "eu-1" }`: only sources that cover it are asked,
    and the alert carries them."""


def watches_by_name(values: dict[str, Any]) -> None:
    """Turn a list `[[watch]]` into tables by name: that of the service, or `name` where one is
    given. Raises SettingsError."""
    watch_tables = values.get("watch")
    if not isinstance(watch_tables, list):
        return
    tables: dict[str, dict[str, Any]] = {}
    for table in watch_tables:
        if not isinstance(table, dict):
            raise SettingsError("watch", "must be tables, [[watch]]")
        watch_table = dict(table)
        name = watch_table.pop("name", None) or watch_table.get("service")
        if not isinstance(name, str) or not name:
            raise SettingsError("watch", "each [[watch]] needs a service")
        if name in tables:
            raise SettingsError(
                f"watch.{name[:60]}", "is there twice: give one of them another name"
            )
        tables[name] = watch_table
    values["watch"] = tables
