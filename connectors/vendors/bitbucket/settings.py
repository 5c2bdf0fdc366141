"""Settings of Bitbucket."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.settings.connector_settings import BuildSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


def _repositories(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        parts = tuple(name.split("/"))
        if len(parts) != 2:
            raise ValueError("must be workspace/repository")
        plain_names(parts)
    return value


class BitbucketSettings(BuildSettings):
    """Bitbucket Cloud as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. Access token with the permission to read pipelines. Without it and `repositories`
    Bitbucket is not used."""
    repositories: Annotated[Names, AfterValidator(_repositories)] = ()
    """Repositories to read, each `workspace/repository`."""
    url: Url = "https://api.bitbucket.org"
    """The API."""
    app_url: Url = "https://bitbucket.org"
    """Base of links."""
