"""Where settings name channels of several Slack workspaces, each must say which workspace."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in

if TYPE_CHECKING:
    from faultline.bot.settings.settings import Settings

_is_id = re.compile(r"[CDG][A-Z0-9]{2,20}").fullmatch
CHANNEL_KEYS = ("alert_channels", "deploy_channels", "quiet_channels")
"""Keys of a workspace's own table; what they name is in that workspace."""


def refuse_unknown_workspaces(settings: Settings) -> None:
    """Raise SettingsError where a channel's workspace is not known.

    A single `[slack]` has no name that a channel could be written with.
    """
    names = [table.instance.name for table in settings.instances("slack")]
    if names == [""]:
        return
    for key, channel in _named_channels(settings):
        if _is_id(bare_id(channel)) and instance_in(channel) not in names:
            written = " or ".join(f"{name}:{bare_id(channel)}" for name in names)
            raise SettingsError(key, f"{channel!r} names no workspace: write {written}")
    for table in settings.instances("slack"):
        name = table.instance.name
        for key, channel in _table_channels(table):
            if instance_in(channel):
                problem = f"{channel!r}: here the id alone, it is a channel of {name}"
                raise SettingsError(f"slack.{name}.{key}", problem)


def _named_channels(settings: Settings) -> Iterator[tuple[str, str]]:
    """Every channel outside of the workspaces' own tables, and the key that names it.

    Channels of other reply targets look otherwise.
    """
    for name, service in settings.services.items():
        if service.slack_channel:
            yield f"services.{name}.slack_channel", service.slack_channel
    for rule in settings.alerts.rules:
        for channel in rule.channel:
            yield "alerts.rules.channel", channel
    for channel in settings.alerts.channels:
        yield f"alerts.channels.{channel}", channel
    for name, team in settings.teams.items():
        for channel in team.channels:
            yield f"teams.{name}.channels", channel


def _table_channels(table: object) -> Iterator[tuple[str, str]]:
    single = getattr(table, "channel", None)
    if single:
        yield "channel", single
    for key in CHANNEL_KEYS:
        for channel in getattr(table, key):
            yield key, channel
