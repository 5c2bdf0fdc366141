"""GitHub: deployments, merges and code."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.limits import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class GitHubSettings(ConnectorSettings):
    """GitHub as a source of deployments, merges and code: docs/connectors/github.md."""

    token: SecretStr | None = None
    """Secret. A fine-grained token that may read the repositories of
    `services.<name>.github_repository`."""
    app_id: str | None = None
    """Id of a GitHub App, used with `installation_id` and `private_key` if there is no `token`."""
    installation_id: str | None = None
    """Id of the app's installation that covers the repositories."""
    private_key: SecretStr | None = None
    """Secret. The app's private key in PEM form. It is exchanged for read-only tokens."""
    environments: Names = ()
    """Environments whose deployments count. Unset: those GitHub calls production, or whose name
    says so."""
    api_url: Url = "https://api.github.com"
    """REST API. For GitHub Enterprise Server: `https://<host>/api/v3`."""
    app_url: Url | None = None
    """Base of links. Unset: derived from `api_url`."""


CONNECTOR = ConnectorType(
    name="github",
    settings=GitHubSettings,
    build="faultline.connectors.vendors.github.connector:build",
    kinds=("changes",),
    docs="github.md",
    listing=Listing(
        title="GitHub",
        login="fine-grained token or app",
        places="environments of deployments",
        permissions="5 permissions that read",
        tested_against="the published specification",
        also="code of a stack trace",
    ),
)
