"""Settings of Azure DevOps."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from faultline.connectors.shared.settings.connector_settings import BuildSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


class AzureDevOpsSettings(BuildSettings):
    """Azure DevOps as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. Personal access token with the scopes Build (read) and Release (read). Without it,
    `organization` and `projects` Azure DevOps is not used."""
    organization: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """The organization, or the collection of a server of your own."""
    projects: Annotated[Names, AfterValidator(plain_names)] = ()
    """Names of the projects to read."""
    releases: bool = True
    """Whether to read deployments of classic releases. Needs the scope Release (read)."""
    url: Url = "https://dev.azure.com"
    """The server."""
    releases_url: Url = "https://vsrm.dev.azure.com"
    """The server of releases. On a server of your own the same as `url`."""
