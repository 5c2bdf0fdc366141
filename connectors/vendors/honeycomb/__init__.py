"""Honeycomb: golden signals by its query data API, and markers."""

from __future__ import annotations

from typing import Literal

from pydantic import SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Names, Url


class HoneycombSettings(ConnectorSettings):
    """An environment of Honeycomb as a source of metrics and changes:
    docs/connectors/honeycomb.md."""

    api_key: SecretStr | None = None
    """Secret. A configuration key of the environment. Unset: Honeycomb is not used."""
    region: Literal["us", "eu"] = "us"
    """Where the team's data is kept."""
    api_url: Url | None = None
    """Base of the API. Unset: that of the region."""
    run_queries: bool = True
    """Whether to ask for series, which not every plan includes. Markers are read either way."""
    deploy_types: Names = ("deploy", "deploys", "deployment", "release")
    """Types of markers that are deployments. Others count as configuration."""


CONNECTOR = ConnectorType(
    name="honeycomb",
    settings=HoneycombSettings,
    build="faultline.connectors.vendors.honeycomb.connector:build",
    kinds=("metrics", "changes"),
    docs="honeycomb.md",
    listing=Listing(
        title="Honeycomb",
        login="configuration key",
        places="environments and datasets",
        permissions="Run Queries",
        tested_against="the published specification",
    ),
)
