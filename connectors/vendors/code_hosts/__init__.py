"""Code hosts: deployments, merges and code of GitHub and GitLab."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
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


GITHUB = ConnectorType(
    name="github",
    settings=GitHubSettings,
    build="faultline.connectors.vendors.code_hosts.github:GitHubConnector.build",
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


class GitLabSettings(ConnectorSettings):
    """GitLab as a source of deployments, merges and code: docs/connectors/gitlab.md."""

    token: SecretStr | None = None
    """Secret. An access token with the scope `read_api`, for the projects of
    `services.<name>.gitlab_project`."""
    environments: Names = ()
    """Environments whose deployments count. Unset: those whose name says production."""
    url: Url = "https://gitlab.com"
    """The server. Change it for self-hosted GitLab."""


GITLAB = ConnectorType(
    name="gitlab",
    settings=GitLabSettings,
    build="faultline.connectors.vendors.code_hosts.gitlab:GitLabConnector.build",
    kinds=("changes",),
    docs="gitlab.md",
    listing=Listing(
        title="GitLab",
        login="token",
        places="environments of deployments",
        permissions="`read_api` as Reporter",
        tested_against="a stand-in after its documentation",
        also="code of a stack trace",
    ),
)
