"""New Relic: metrics, logs, spans and changes by NRQL."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Url


class NewRelicSettings(ConnectorSettings):
    """An account of New Relic as a source of metrics, logs, spans and changes:
    docs/connectors/new_relic.md."""

    account_id: int | None = Field(default=None, gt=0)
    """The account's number. Unset: New Relic is not used."""
    api_key: SecretStr | None = None
    """Secret. A user key (`NRAK-...`). Without it New Relic is not used."""
    region: Literal["us", "eu"] = "us"
    """Where the account's data is kept."""
    api_url: Url | None = None
    """Base of NerdGraph. Unset: that of the region."""
    app_url: Url | None = None
    """Base of links. Unset: that of the region."""


CONNECTOR = ConnectorType(
    name="new_relic",
    settings=NewRelicSettings,
    build="faultline.connectors.vendors.new_relic.connector:build",
    kinds=("metrics", "logs", "spans", "changes"),
    docs="new_relic.md",
    listing=Listing(
        title="New Relic",
        login="user key",
        places="accounts",
        permissions="a Basic user, Read only",
        tested_against="a stand-in after the documentation",
    ),
)
