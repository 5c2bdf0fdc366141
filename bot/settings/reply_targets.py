"""Every reply target: one line for each of Faultline's own, and those that other packages bring.

The list is in the lowest room because the settings hold the targets' sections. They know of a
target no more than its name and the model of its section; `faultline.bot.policy.reply_targets`
knows the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.contract.plugins import Plugin, installed, load_plugin
from faultline.connectors.shared.settings.settings_types import Section

GROUP = "faultline.reply_targets"
"""The group of entry points for reply targets."""
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "slack": "faultline.bot.answer.targets.slack.target:TARGET",
        "pagerduty": "faultline.bot.answer.targets.pagerduty.target:TARGET",
        "jira_issues": "faultline.bot.answer.targets.tickets.target:JIRA",
        "linear_issues": "faultline.bot.answer.targets.tickets.target:LINEAR",
        "github_issues": "faultline.bot.answer.targets.tickets.target:GITHUB",
        "msteams": "faultline.bot.answer.targets.chats.target:MSTEAMS",
        "mattermost": "faultline.bot.answer.targets.chats.target:MATTERMOST",
        "discord": "faultline.bot.answer.targets.chats.target:DISCORD",
        "answer_webhook": "faultline.bot.answer.targets.chats.target:ANSWER_WEBHOOK",
        "email": "faultline.bot.answer.targets.chats.target:EMAIL",
        "gitlab_issues": "faultline.bot.answer.targets.tickets.target:GITLAB",
        "github_reverts": "faultline.bot.answer.targets.tickets.revert_target:GITHUB",
        "gitlab_reverts": "faultline.bot.answer.targets.tickets.revert_target:GITLAB",
    }
)
"""Faultline's own reply targets, as `module:attribute` by name."""


class SectionOwner:
    """A reply target as far as the settings know it."""

    name: str
    """The section's name."""
    settings: type[Any]
    """The section's model, a subclass of `Section`."""


def sections_of_reply_targets(unknown: Iterable[str]) -> Mapping[str, SectionOwner]:
    """The reply targets among these names of sections; a name of no target is left out.

    Raises SettingsError for a plug-in that cannot be used.
    """
    requested_unknown = sorted(set(unknown))
    # Without such a section no package's metadata is read, so that the start is not delayed.
    if not requested_unknown:
        return {}
    plugins = installed(GROUP)
    section_owners: dict[str, SectionOwner] = {}
    for name in requested_unknown:
        plugin = plugins.get(name)
        if name in BUILT_IN:
            plugin = Plugin(name, BUILT_IN[name], "faultline")
        if plugin is not None:
            declared = load_plugin(plugin, SectionOwner)
            whose = f"{plugin.package} ({plugin.target})"
            if declared.name != plugin.name:
                raise SettingsError(
                    plugin.name, f"{whose} declares it under the name {declared.name!r}"
                )
            if not issubclass(declared.settings, Section):
                raise SettingsError(plugin.name, f"{whose} has no model for its settings section")
            section_owners[name] = declared
    return section_owners
