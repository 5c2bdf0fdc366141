"""Every alert source: one line for each of Faultline's own, and those that other packages bring.

The list is in the lowest room because the settings need it first: they hold the sections of
alert sources and check the names in alert rules. It holds names alone, and what they name is
imported by whoever serves them (`faultline.bot.intake.alert_sources`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import ValidationError

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.contract.plugins import Plugin, installed, load_plugin
from faultline.connectors.shared.settings.settings_types import Secrets, Section

GROUP = "faultline.alert_sources"
"""The group of entry points for alert sources."""
BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "pagerduty": "faultline.bot.intake.sources.pagerduty:ALERT_SOURCE",
        "slack": "faultline.bot.intake.sources.slack:ALERT_SOURCE",
        "alertmanager": "faultline.bot.intake.sources.alertmanager:ALERT_SOURCE",
        "cloudwatch": "faultline.bot.intake.sources.cloudwatch:ALERT_SOURCE",
        "datadog": "faultline.bot.intake.sources.datadog:ALERT_SOURCE",
        "sentry": "faultline.bot.intake.sources.sentry:ALERT_SOURCE",
        "azure_monitor": "faultline.bot.intake.sources.azure_monitor:ALERT_SOURCE",
        "incident_io": "faultline.bot.intake.sources.incident_io:ALERT_SOURCE",
        "rootly": "faultline.bot.intake.sources.rootly:ALERT_SOURCE",
        "msteams": "faultline.bot.intake.sources.msteams:ALERT_SOURCE",
        "webhook": "faultline.bot.intake.sources.webhook:ALERT_SOURCE",
    }
)
"""Faultline's own alert sources, as `module:attribute` by name, in the order people see them."""


@dataclass(frozen=True, kw_only=True)
class DeclaredAlertSource:
    """What the settings know of an alert source: `faultline.bot.intake.alert_source` adds how it
    works."""

    name: str
    """As its alerts' `source` and in alert rules."""
    settings: type[Section]
    """The model of its section in the settings file; every key needs a default."""
    shared_section: str | None = None
    """The section's name where it is not the source's own: `aws` for CloudWatch's alarms."""

    @property
    def section(self) -> str:
        """The name of its section."""
        return self.shared_section or self.name


def built_in(name: str) -> Plugin:
    """One of Faultline's own sources, in the form of a plug-in."""
    return Plugin(name, BUILT_IN[name], "faultline")


def alert_source_names() -> tuple[str, ...]:
    """The names of all alert sources. Raises SettingsError when two packages give one name."""
    return (*sorted(BUILT_IN), *sorted(set(installed(GROUP)) - set(BUILT_IN)))


def sections_of_alert_sources(unknown: Iterable[str]) -> Mapping[str, type[Section]]:
    """The sections among these names that an alert source brings; a name of no source is left out.

    Raises SettingsError for a plug-in that cannot be used.
    """
    requested_unknown = sorted(set(unknown))
    # Without such a section no package's metadata is read, so that the start is not delayed.
    if not requested_unknown:
        return {}
    plugins = installed(GROUP)
    sections: dict[str, type[Section]] = {}
    for name in requested_unknown:
        plugin = built_in(name) if name in BUILT_IN else plugins.get(name)
        if plugin is None:
            continue
        declared = load_declared(plugin)
        # `[cloudwatch]` is no section: its alarms are a part of `[aws]`.
        if declared.section == name:
            sections[name] = declared.settings
    return sections


def load_declared(plugin: Plugin) -> DeclaredAlertSource:
    """What a package declares. Raises SettingsError, whatever is wrong with it."""
    declared = load_plugin(plugin, DeclaredAlertSource)
    if declared.name != plugin.name:
        problem = f"{plugin.package} declares it under the name {declared.name!r}"
        raise SettingsError(plugin.name, problem)
    try:
        declared.settings()
    except ValidationError:
        problem = f"{plugin.package} ({plugin.target}): a key of its settings has no default"
        raise SettingsError(plugin.name, problem) from None
    return declared


class IncidentIoSettings(Section):
    """Incidents of incident.io in: docs/connectors/incident-io.md."""

    webhook_secrets: Secrets = ()
    """Secret. Signing secrets of webhook endpoints (`whsec_...`). During a rotation several,
    separated by commas."""


class RootlySettings(Section):
    """Incidents and alerts of Rootly in: docs/connectors/rootly.md."""

    webhook_secrets: Secrets = ()
    """Secret. Signing secrets of webhook endpoints. During a rotation several, separated by
    commas."""


class ReportedChangesSettings(Section):
    """`POST /changes`: deployments, flags and anything else without a connector
    (docs/report-changes.md)."""

    tokens: Secrets = ()
    """Secret. Bearer tokens for reporting changes. Unset: none are accepted."""
