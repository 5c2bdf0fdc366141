"""Google Cloud: Monitoring, Logging, Trace, Error Reporting, and what changed in a project."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Url


class GoogleCloudSettings(ConnectorSettings):
    """A project of Google Cloud as a source of metrics, logs, traces and changes:
    docs/connectors/google_cloud.md."""

    project: str | None = Field(default=None, pattern=r"^[a-z0-9][a-z0-9.:-]{3,99}$")
    """The project's id. Unset: Google Cloud is not used."""
    credentials_file: Path | None = None
    """A service account's key, or a configuration of workload identity federation. Unset: the file
    that `GOOGLE_APPLICATION_CREDENTIALS` names, else the machine's or pod's service account."""
    trace_label: str = Field(default="service.name", pattern=r"^[A-Za-z0-9._/-]{1,100}$")
    """The label of spans that names the service."""
    api_url: Url | None = None
    """One address for all APIs, for a proxy of your own. Unset: each has its own below
    `googleapis.com`."""
    identity_url: Url = "http://metadata.google.internal"
    """The metadata server of the machine or pod."""
    console_url: Url = "https://console.cloud.google.com"
    """Base of links."""


CONNECTOR = ConnectorType(
    name="google_cloud",
    settings=GoogleCloudSettings,
    build="faultline.connectors.vendors.google_cloud.connector:build",
    kinds=("metrics", "logs", "spans", "changes"),
    docs="google_cloud.md",
    listing=Listing(
        title="Google Cloud",
        login="service account, workload identity or federation",
        places="projects, regions and clusters",
        permissions="a role of eight permissions that read",
        tested_against="stand-ins after the API references",
        also="errors",
    ),
)
