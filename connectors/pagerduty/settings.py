"""Settings of PagerDuty: read by the connector, the alert source and the reply target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, SecretStr

from connectors.limits import ConnectorSettings
from connectors.settings_types import Secrets, Url

CustomValue = Literal["verdict", "headline", "cause", "service", "change", "confidence", "page"]
"""What can be written into a custom field of an incident."""


class PagerDutySettings(ConnectorSettings):
    """PagerDuty webhooks in, notes out."""

    webhook_secrets: Secrets = ()
    """Secret. Signing secrets of the V3 webhook subscriptions; several during rotation, separated
    by commas."""
    api_token: SecretStr | None = None
    """Secret. REST API key, or an access token of PagerDuty's OAuth (`pdus+...`); without it no
    notes are written and nothing is read."""
    from_email: str | None = None
    """A user's e-mail address, for the `From` header of notes."""
    api_url: Url = "https://api.pagerduty.com"
    """REST API; `https://api.eu.pagerduty.com` for the EU region."""
    web_url: Url | None = None
    """Its pages, such as `https://acme.pagerduty.com`. With several accounts they tell to which of
    them a link to an incident leads."""
    custom_fields: Mapping[CustomValue, str] = Field(default_factory=dict)
    """Custom fields of incidents to fill: our `verdict`, `headline`, `cause`, `service`, `change`,
    `confidence` or `page` to the name of a text field; in the file alone. Unset: none."""
