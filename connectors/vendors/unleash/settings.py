"""Settings of Unleash."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


class UnleashSettings(ConnectorSettings):
    """Unleash as a source of flag changes: docs/connectors/feature-flags.md."""

    url: Url | None = None
    """Base of the server, such as `https://app.unleash-hosted.com/acme`. Unset: Unleash is not
    used."""
    token: SecretStr | None = None
    """Secret. Token of a service account, or a personal access token, with the root role Viewer."""
    projects: Annotated[Names, AfterValidator(plain_names)] = ()
    """Ids of projects to read. Unset: all that the token may read."""
    environments: Names = ()
    """Names of the environments that count. Unset: all but those whose name says staging, test,
    development and the like."""
