"""Settings of LaunchDarkly."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url, plain_names


class LaunchDarklySettings(ConnectorSettings):
    """LaunchDarkly as a source of flag changes: docs/connectors/feature-flags.md."""

    token: SecretStr | None = None
    """Secret. Access token with the role Reader. Unset: LaunchDarkly is not used."""
    url: Url = "https://app.launchdarkly.com"
    """The server: `https://app.launchdarkly.us` for the federal instance."""
    projects: Annotated[Names, AfterValidator(plain_names)] = ()
    """Keys of projects to read. Unset: all that the token may read."""
    environments: Names = ()
    """Keys of the environments that count. Unset: all but those whose key says staging, test,
    development and the like."""
