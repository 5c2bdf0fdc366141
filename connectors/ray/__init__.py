"""Ray: jobs and nodes of Ray clusters."""

from connectors.connector_type import ConnectorType
from connectors.ray.settings import RaySettings

CONNECTOR = ConnectorType(
    name="ray",
    settings=RaySettings,
    build="connectors.ray.connector:build",
    kinds=("states",),
    docs="ray.md",
)
