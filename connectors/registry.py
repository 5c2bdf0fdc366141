"""Every connector: one line for each of Faultline's own, and those that other packages bring.

Adding one is one new file that declares a `ConnectorType`, and one line here. A package outside
this repository needs no line: it declares an entry point of the group `faultline.connectors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import create_model

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.contract.connector_type import ConnectorType
from faultline.connectors.shared.contract.plugins import Plugin, installed, load_object, load_plugin
from faultline.connectors.shared.settings.settings_types import BuiltByNeed, unset
from faultline.connectors.shared.settings.shared_settings import SharedSettings

if TYPE_CHECKING:
    from faultline.connectors.shared.contract.base import Connector

GROUP = "faultline.connectors"
"""The group of entry points for connectors."""
BUILT_IN = (
    "faultline.connectors.vendors.recorded:CONNECTOR",
    "faultline.connectors.vendors.prometheus:CONNECTOR",
    "faultline.connectors.vendors.alertmanager:CONNECTOR",
    "faultline.connectors.vendors.loki:CONNECTOR",
    "faultline.connectors.vendors.elasticsearch:CONNECTOR",
    "faultline.connectors.vendors.splunk:CONNECTOR",
    "faultline.connectors.vendors.splunk_observability:CONNECTOR",
    "faultline.connectors.vendors.victorialogs:CONNECTOR",
    "faultline.connectors.vendors.tempo:CONNECTOR",
    "faultline.connectors.vendors.jaeger:CONNECTOR",
    "faultline.connectors.vendors.grafana:CONNECTOR",
    "faultline.connectors.vendors.datadog:CONNECTOR",
    "faultline.connectors.vendors.aws:CONNECTOR",
    "faultline.connectors.vendors.pagerduty:CONNECTOR",
    "faultline.connectors.vendors.wandb:CONNECTOR",
    "faultline.connectors.vendors.mlflow:CONNECTOR",
    "faultline.connectors.vendors.sentry:CONNECTOR",
    "faultline.connectors.vendors.azure:CONNECTOR",
    "faultline.connectors.vendors.google_cloud:CONNECTOR",
    "faultline.connectors.vendors.new_relic:CONNECTOR",
    "faultline.connectors.vendors.clickhouse:CONNECTOR",
    "faultline.connectors.vendors.dynatrace:CONNECTOR",
    "faultline.connectors.vendors.honeycomb:CONNECTOR",
    "faultline.connectors.vendors.code_hosts:GITHUB",
    "faultline.connectors.vendors.code_hosts:GITLAB",
    "faultline.connectors.vendors.feature_flags:LAUNCHDARKLY",
    "faultline.connectors.vendors.feature_flags:UNLEASH",
    "faultline.connectors.vendors.feature_flags:FLAGSMITH",
    "faultline.connectors.vendors.feature_flags:STATSIG",
    "faultline.connectors.vendors.argocd:CONNECTOR",
    "faultline.connectors.vendors.ci:JENKINS",
    "faultline.connectors.vendors.ci:BUILDKITE",
    "faultline.connectors.vendors.ci:CIRCLECI",
    "faultline.connectors.vendors.ci:AZUREDEVOPS",
    "faultline.connectors.vendors.ci:BITBUCKET",
    "faultline.connectors.vendors.kubernetes:CONNECTOR",
    "faultline.connectors.vendors.slurm:CONNECTOR",
    "faultline.connectors.vendors.postgresql:CONNECTOR",
    "faultline.connectors.vendors.mysql:CONNECTOR",
    "faultline.connectors.vendors.mongodb:CONNECTOR",
    "faultline.connectors.vendors.redis:CONNECTOR",
    "faultline.connectors.vendors.ray:CONNECTOR",
    "faultline.connectors.vendors.rabbitmq:CONNECTOR",
    "faultline.connectors.vendors.nats:CONNECTOR",
    "faultline.connectors.vendors.kafka:CONNECTOR",
    "faultline.connectors.vendors.slack:CONNECTOR",
    "faultline.connectors.vendors.status_pages:CONNECTOR",
    "faultline.connectors.vendors.http_source:CONNECTOR",
    "faultline.connectors.vendors.mcp_servers:CONNECTOR",
    "faultline.connectors.vendors.traces:CONNECTOR",
)


# The registry names no class: each connector tells its own name, so nothing is spelled twice.
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
            name: (Annotated[connector.settings, BuiltByNeed()], unset(connector.settings))
            for name, connector in CONNECTORS.items()
        },
    )


def build_connectors(settings: SharedSettings) -> tuple[Connector, ...]:
    """The configured connectors, Faultline's own first. Raises SettingsError naming the key."""
    built: list[Connector] = []
    for connector in (*CONNECTORS.values(), *settings.plugins.values()):
        # Settings stand below connectors, so they know of a plug-in only what they need.
        if isinstance(connector, ConnectorType):
            built += connector.all_configured(settings)
    return tuple(built)


def plugin_connectors(sections: Iterable[str]) -> Mapping[str, ConnectorType[Any]]:
    """The connectors that other packages bring for these sections.

    A section that nobody brings is left out. Raises SettingsError for a plug-in that cannot be
    used.
    """
    requested_sections = sorted(set(sections))
    # Without such a section no package's metadata is read, so that the start is not delayed.
    if not requested_sections:
        return {}
    plugins = installed(GROUP)
    return {name: load_connector(plugins[name]) for name in requested_sections if name in plugins}


def load_connector(plugin: Plugin) -> ConnectorType[Any]:
    """The connector that a plug-in declares. Raises SettingsError."""
    declared: ConnectorType[Any] = load_plugin(plugin, ConnectorType)
    if declared.name != plugin.name:
        problem = f"{plugin.package} declares it under the name {declared.name!r}"
        raise SettingsError(plugin.name, problem)
    return declared
