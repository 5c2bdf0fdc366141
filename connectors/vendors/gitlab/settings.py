"""Settings of the connector to GitLab."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class GitLabSettings(ConnectorSettings):
    """GitLab as a source of deployments, merges and code: docs/connectors/gitlab.md."""

    token: SecretStr | None = None
    """Secret. An access token with the scope `read_api`, for the projects of
    `services.<name>.gitlab_project`."""
    environments: Names = ()
    """Environments whose deployments count. Unset: those whose name says production."""
    url: Url = "https://gitlab.com"
    """The server. Change it for self-hosted GitLab."""
