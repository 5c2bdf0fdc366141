"""Every connector: one line for each of Faultline's own, and those that other packages bring.

Adding one is one new file that declares a `ConnectorType`, and one line here. A package outside
this repository needs no line: it declares an entry point of the group `faultline.connectors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import create_model

from analysis.errors import SettingsError
from connectors.connector_type import ConnectorType
from connectors.plugins import Plugin, installed, load_object, load_plugin
from connectors.settings_types import BuiltByNeed, unset
from connectors.shared_settings import SharedSettings

if TYPE_CHECKING:
    from connectors.base import Connector

GROUP = "faultline.connectors"
"""The group of entry points for connectors."""
BUILT_IN = (
    "connectors.recorded:CONNECTOR",
    "connectors.prometheus:CONNECTOR",
    "connectors.alertmanager:CONNECTOR",
    "connectors.loki:CONNECTOR",
    "connectors.elasticsearch:CONNECTOR",
    "connectors.splunk:CONNECTOR",
    "connectors.splunk_observability:CONNECTOR",
    "connectors.victorialogs:CONNECTOR",
    "connectors.tempo:CONNECTOR",
    "connectors.jaeger:CONNECTOR",
    "connectors.grafana:CONNECTOR",
    "connectors.datadog:CONNECTOR",
    "connectors.aws:CONNECTOR",
    "connectors.pagerduty:CONNECTOR",
    "connectors.wandb:CONNECTOR",
    "connectors.mlflow:CONNECTOR",
    "connectors.sentry:CONNECTOR",
    "connectors.azure:CONNECTOR",
    "connectors.google_cloud:CONNECTOR",
    "connectors.new_relic:CONNECTOR",
    "connectors.clickhouse:CONNECTOR",
    "connectors.dynatrace:CONNECTOR",
    "connectors.honeycomb:CONNECTOR",
    "connectors.github:CONNECTOR",
    "connectors.gitlab:CONNECTOR",
    "connectors.launchdarkly:CONNECTOR",
    "connectors.unleash:CONNECTOR",
    "connectors.flagsmith:CONNECTOR",
    "connectors.statsig:CONNECTOR",
    "connectors.argocd:CONNECTOR",
    "connectors.jenkins:CONNECTOR",
    "connectors.buildkite:CONNECTOR",
    "connectors.circleci:CONNECTOR",
    "connectors.azuredevops:CONNECTOR",
    "connectors.bitbucket:CONNECTOR",
    "connectors.kubernetes:CONNECTOR",
    "connectors.slurm:CONNECTOR",
    "connectors.postgresql:CONNECTOR",
    "connectors.mysql:CONNECTOR",
    "connectors.mongodb:CONNECTOR",
    "connectors.redis:CONNECTOR",
    "connectors.ray:CONNECTOR",
    "connectors.rabbitmq:CONNECTOR",
    "connectors.nats:CONNECTOR",
    "connectors.kafka:CONNECTOR",
    "connectors.slack:CONNECTOR",
    "connectors.status_pages:CONNECTOR",
    "connectors.http_source:CONNECTOR",
    "connectors.mcp_servers:CONNECTOR",
    "connectors.traces:CONNECTOR",
)


def _built_in() -> Mapping[str, ConnectorType[Any]]:
    types: dict[str, ConnectorType[Any]] = {}
    for target in BUILT_IN:
        declared = load_object(target)
        assert isinstance(declared, ConnectorType), target
        types[declared.name] = declared
    return types


CONNECTORS: Mapping[str, ConnectorType[Any]] = _built_in()
"""Faultline's own connectors by name, in the order in which they are asked."""

if TYPE_CHECKING:

    class ConnectorSections(SharedSettings):
        """Settings with a section for each of Faultline's own connectors."""
else:
    # Each connector's section is a field here because its connector declares it, not because
    # somebody lists it a second time.
    ConnectorSections = create_model(
        "ConnectorSections",
        __base__=SharedSettings,
        __module__=__name__,
        **{
            name: (Annotated[one.settings, BuiltByNeed()], unset(one.settings))
            for name, one in CONNECTORS.items()
        },
    )


def build_connectors(settings: SharedSettings) -> tuple[Connector, ...]:
    """The configured connectors, Faultline's own first. Raises SettingsError naming the key."""
    built: list[Connector] = []
    for one in (*CONNECTORS.values(), *settings.plugins.values()):
        built += one.all_configured(settings)
    return tuple(built)


def plugin_connectors(sections: Iterable[str]) -> Mapping[str, ConnectorType[Any]]:
    """The connectors that other packages bring for these sections.

    A section that nobody brings is left out. Raises SettingsError for a plug-in that cannot be
    used.
    """
    wanted = sorted(set(sections))
    # Without such a section no package's metadata is read, so that the start is not delayed.
    if not wanted:
        return {}
    plugins = installed(GROUP)
    return {name: load_connector(plugins[name]) for name in wanted if name in plugins}


def load_connector(plugin: Plugin) -> ConnectorType[Any]:
    """The connector that a plug-in declares. Raises SettingsError."""
    declared: ConnectorType[Any] = load_plugin(plugin, ConnectorType)
    if declared.name != plugin.name:
        problem = f"{plugin.package} declares it under the name {declared.name!r}"
        raise SettingsError(plugin.name, problem)
    return declared
