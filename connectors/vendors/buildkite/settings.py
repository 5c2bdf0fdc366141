"""Settings of Buildkite."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from faultline.connectors.shared.settings.connector_settings import BuildSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


class BuildkiteSettings(BuildSettings):
    """Buildkite as a source of deployments and builds: docs/connectors/ci.md."""

    token: SecretStr | None = None
    """Secret. API access token with the scope `read_builds`. Unset: Buildkite is not used."""
    organization: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,100}$")
    """The organization's slug."""
    pipelines: Annotated[Names, AfterValidator(plain_names)] = ()
    """Slugs of the pipelines to read. Unset: all that the token may read."""
    branches: Names = ()
    """Branches whose builds count. Unset: each pipeline's default branch."""
    url: Url = "https://api.buildkite.com"
    """The REST API."""
