"""PagerDuty: the incident, earlier ones and change events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr

from faultline.connectors.shared.contract.connector_type import ConnectorType, Listing
from faultline.connectors.shared.settings.connector_settings import ConnectorSettings
from faultline.connectors.shared.settings.settings_types import Secrets, Url

CustomValue = Literal["verdict", "headline", "cause", "service", "change", "confidence", "page"]
"""What can be written into a custom field of an incident."""


class PagerDutySettings(ConnectorSettings):
    """PagerDuty webhooks in, notes out."""

    webhook_secrets: Secrets = ()
    """Secret. Signing secrets of the V3 webhook subscriptions. During a rotation several, separated
    by commas."""
    api_token: SecretStr | None = None
    """Secret. REST API key, or an access token of PagerDuty's OAuth (`pdus+...`). Without it no
    notes are written and nothing is read."""
    from_email: str | None = None
    """A user's e-mail address, for the `From` header of notes. With it, people are offered *Send to
    PagerDuty*."""
    api_url: Url = "https://api.pagerduty.com"
    """REST API. For the EU region: `https://api.eu.pagerduty.com`."""
    web_url: Url | None = None
    """Its pages, such as `https://acme.pagerduty.com`. With several accounts, they say which one a
    link to an incident belongs to."""
    custom_fields: Mapping[CustomValue, str] = Field(default_factory=dict)
    """Custom fields of incidents to fill: `verdict`, `headline`, `cause`, `service`, `change`,
    `confidence` or `page` to the name of a text field. Only in the file. Unset: none."""


CONNECTOR = ConnectorType(
    name="pagerduty",
    settings=PagerDutySettings,
    build="faultline.connectors.vendors.pagerduty.connector:build",
    kinds=("changes", "monitors", "alert"),
    docs="pagerduty.md",
    listing=Listing(
        title="PagerDuty",
        login="OAuth or API key",
        places="accounts",
        permissions="4 scopes that read",
        tested_against="the published specification",
        also="the incident, past ones",
    ),
)

ACCOUNT_LABEL = "pagerduty_account"
"""Label of an alert that came from one of several accounts: its name."""
