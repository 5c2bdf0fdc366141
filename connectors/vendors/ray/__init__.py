"""Ray: jobs and nodes of Ray clusters."""

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.vendors.ray.settings import RaySettings

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
