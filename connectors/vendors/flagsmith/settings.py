"""Settings of Flagsmith."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


def _numbers(value: tuple[str, ...]) -> tuple[str, ...]:
    if not all(number.isascii() and number.isdigit() and len(number) < 12 for number in value):
        raise ValueError("must be the numbers of projects, as in their pages' addresses")
    return value


class FlagsmithSettings(ConnectorSettings):
    """Flagsmith as a source of flag changes: docs/connectors/feature-flags.md."""

    url: Url = "https://api.flagsmith.com"
    """The API. Change it for self-hosted Flagsmith."""
    token: SecretStr | None = None
    """Secret. An organisation's API key. Without it and `projects` Flagsmith is not used."""
    projects: Annotated[Names, AfterValidator(_numbers)] = ()
    """Numbers of the projects to read."""
    environments: Names = ()
    """Names of the environments that count. Unset: all but those whose name says staging, test,
    development and the like."""
    app_url: Url = "https://app.flagsmith.com"
    """Base of links."""
