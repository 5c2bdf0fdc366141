"""GitLab: deployments, merges and code."""

from connectors.connector_type import ConnectorType
from connectors.gitlab.settings import GitLabSettings

CONNECTOR = ConnectorType(
    name="gitlab",
    settings=GitLabSettings,
    build="connectors.gitlab.connector:build",
    kinds=("changes",),
    docs="gitlab.md",
)
