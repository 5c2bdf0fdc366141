"""Ray: jobs and nodes of Ray clusters."""

from __future__ import annotations

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Url


class RaySettings(SelfHostedSettings):
    """A Ray cluster as a source of the state of jobs and nodes: docs/connectors/ray.md."""

    url: Url | None = None
    """Base of the dashboard. Unset: Ray is not asked."""
    public_url: Url | None = None
    """Base of links, if people reach the dashboard at another address than `url`."""


CONNECTOR = ConnectorType(
    name="ray",
    settings=RaySettings,
    build="faultline.connectors.vendors.ray.connector:build",
    kinds=("states",),
    docs="ray.md",
    listing=Listing(
        title="Ray",
        login="as Prometheus",
        places="a dashboard for each cluster",
        permissions="GET alone, by a proxy",
        tested_against="Ray 2.60 itself, and the published specification of the Jobs API",
        also="nodes that died",
    ),
)
