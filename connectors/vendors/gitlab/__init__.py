"""GitLab: deployments, merges and code."""

from __future__ import annotations

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.limits import ConnectorSettings
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


CONNECTOR = ConnectorType(
    name="gitlab",
    settings=GitLabSettings,
    build="faultline.connectors.vendors.gitlab.connector:build",
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
