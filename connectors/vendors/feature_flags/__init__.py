"""Flag services: who switched or changed which feature flag, where, and from what to what."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
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


class StatsigSettings(ConnectorSettings):
    """Statsig as a source of flag changes: docs/connectors/feature-flags.md."""

    token: SecretStr | None = None
    """Secret. A Console API key that may only read. Unset: Statsig is not used."""
    url: Url = "https://statsigapi.net"
    """The Console API."""


def _flag_service(
    title: str, settings: type[ConnectorSettings], login: str, places: str, permissions: str
) -> ConnectorType[ConnectorSettings]:
    """Its module is named as the connector, its class as the vendor writes its name."""
    name = title.lower()
    return ConnectorType(
        name=name,
        settings=settings,
        build=f"{__name__}.{name}:{title}.build",
        kinds=("changes",),
        docs="feature-flags.md",
        listing=Listing(
            title, login, places, permissions, "a stand-in after the published specification"
        ),
    )


PLACES = "projects and environments"
LAUNCHDARKLY = _flag_service("LaunchDarkly", LaunchDarklySettings, "access token", PLACES, "Reader")
UNLEASH = _flag_service(
    "Unleash", UnleashSettings, "token of a service account", PLACES, "the root role Viewer"
)
FLAGSMITH = _flag_service(
    "Flagsmith",
    FlagsmithSettings,
    "API key of an organisation",
    PLACES,
    "to view a project's audit log",
)
STATSIG = _flag_service(
    "Statsig", StatsigSettings, "Console API key", "none", "a key that may only read"
)
