"""Splunk: log lines and their counts."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


def _plain_names(value: tuple[str, ...]) -> tuple[str, ...]:
    for name in value:
        if not name.isascii() or not name or set(name) - _PLAIN:
            raise ValueError("must be plain names, such as main or service.name")
    return value


_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PLAIN = frozenset(f"{_LETTERS}{_LETTERS.upper()}0123456789_.*-")
PlainNames = Annotated[Names, AfterValidator(_plain_names)]


class SplunkSettings(SelfHostedSettings):
    """Splunk Enterprise or Splunk Cloud Platform as a source of logs: docs/connectors/splunk.md."""

    url: Url | None = None
    """Base of the management API, such as `https://splunk.example.com:8089`. Unset: Splunk is not
    used."""
    indexes: PlainNames = ("main",)
    """Indexes that hold logs. `*` stands for anything."""
    service_fields: PlainNames = (
        "service.name",
        "service_name",
        "service",
        "app",
        "container_name",
        "k8s.container.name",
    )
    """Fields that may name a service."""
    level_fields: PlainNames = ("level", "log_level", "severity", "severity_text")
    """Fields that may hold a line's level."""
    web_url: Url | None = None
    """Base of Splunk Web, for links."""


CONNECTOR = ConnectorType(
    name="splunk",
    settings=SplunkSettings,
    build="faultline.connectors.vendors.splunk.connector:build",
    kinds=("logs", "metrics"),
    docs="splunk.md",
    listing=Listing(
        title="Splunk",
        login="authentication token",
        places="indexes",
        permissions="the capability `search` on the indexes",
        tested_against="a stand-in after the REST reference",
    ),
)
