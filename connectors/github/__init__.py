"""GitHub: deployments, merges and code."""

from connectors.connector_type import ConnectorType
from connectors.github.settings import GitHubSettings

CONNECTOR = ConnectorType(
    name="github",
    settings=GitHubSettings,
    build="connectors.github.connector:build",
    kinds=("changes",),
    docs="github.md",
)
