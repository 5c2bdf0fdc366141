"""Sections of the settings that other packages bring, found through entry points.

The settings lie below everything that can be added to Faultline, so they know of an addition no
more than its name and the model of its section. Who uses it checks what else it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from analysis.errors import SettingsError
from connectors.plugins import Plugin, installed, load_plugin
from connectors.settings_types import Section

REPLY_TARGETS = "faultline.reply_targets"
"""The group of entry points for reply targets: `bot.policy.reply_targets`."""
GROUPS = (REPLY_TARGETS,)


class SectionOwner:
    """Something that can be added to Faultline and has a section of the settings of its name."""

    name: ClassVar[str]
    """The section's name."""
    settings: ClassVar[type[Any]]
    """The section's model, a subclass of `Section`."""


def plugin_sections(names: Iterable[str]) -> Mapping[str, SectionOwner]:
    """What other packages bring for these sections, by section.

    A section that nobody brings is left out. Raises SettingsError for a plug-in that cannot be
    used.
    """
    wanted = sorted(set(names))
    found: dict[str, SectionOwner] = {}
    # Without such a section no package's metadata is read, so that the start is not delayed.
    if not wanted:
        return found
    for group in GROUPS:
        plugins = installed(group)
        for name in wanted:
            if name in plugins and name not in found:
                found[name] = _loaded(plugins[name])
    return found


def _loaded(plugin: Plugin) -> SectionOwner:
    declared = load_plugin(plugin, SectionOwner)
    whose = f"{plugin.package} ({plugin.target})"
    if declared.name != plugin.name:
        raise SettingsError(plugin.name, f"{whose} declares it under the name {declared.name!r}")
    if not issubclass(declared.settings, Section):
        raise SettingsError(plugin.name, f"{whose} brings no model of its section")
    return declared
