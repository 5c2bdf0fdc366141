"""Settings of CircleCI."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.settings.connector_settings import BuildSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


def _slugs(value: tuple[str, ...]) -> tuple[str, ...]:
    for slug in value:
        parts = tuple(slug.split("/"))
        if len(parts) != 3:
            raise ValueError("must be slugs of projects, such as gh/acme/checkout")
        plain_names(parts)
    return value


class CircleCISettings(BuildSettings):
    """CircleCI as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. Personal API token of a user that may only view. Without it and `projects` CircleCI
    is not used."""
    projects: Annotated[Names, AfterValidator(_slugs)] = ()
    """Slugs of the projects to read, such as `gh/acme/checkout`."""
    url: Url = "https://circleci.com"
    """The server."""
    app_url: Url = "https://app.circleci.com"
    """Base of links."""
