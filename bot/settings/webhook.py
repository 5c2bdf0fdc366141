"""Settings of the generic webhook: where in anybody's JSON an alert's fields stand."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from pydantic import Field, field_validator, model_validator

from connectors.json_mapping import Expression
from connectors.settings_types import Names, Secrets, Section

PRESETS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "zabbix": {
            "title": "name",
            "id": "event_id",
            "state": "(event_update_status == '1' && 'update') || event_value",
            "service": "[service, host]",
            "environment": "environment",
            "severity": "severity",
            "starts_at": "timestamp",
            "url": "url",
            "summary": "operational_data",
            "labels": "{host: host, trigger_id: trigger_id}",
        },
        "nagios": {
            "title": "join(' ', [check || 'Host', 'on', host, 'is', state])",
            "id": "join('/', [host, check || ''])",
            "state": "type",
            "service": "[service, host]",
            "severity": "state",
            "summary": "output",
            "labels": "{host: host, check: check}",
        },
    }
)
"""Expressions for the bodies that docs/connectors/webhook.md tells people to send."""


class WebhookSettings(Section):
    """Alerts of any system that can post JSON: docs/connectors/webhook.md."""

    tokens: Secrets = ()
    """Secret. Bearer tokens (or Basic `user:password`) of the sender, separated by commas. With
    `signature_header`, keys of its signature."""
    signature_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,80}$")
    """The header with the HMAC-SHA256 of the body in hexadecimal digits, for senders that sign."""
    signature_prefix: str = Field(default="", max_length=40)
    """What stands before the digits in that header, such as `sha256=`."""
    preset: Literal["zabbix", "nagios"] | None = None
    """Expressions that are ready; those given beside it replace its own."""
    items: Expression | None = None
    """JMESPath of the list of alerts in a body. Unset: the body is one alert."""
    title: Expression | None = None
    """JMESPath of the alert's title. Needed without `preset`."""
    id: Expression | None = None
    """JMESPath of what is the same for every repeat of an alert. Unset: title, service and
    environment."""
    state: Expression | None = None
    """JMESPath of the state. Unset: every alert fires."""
    firing: Names = ("firing", "problem", "1", "true", "alert", "open", "critical", "triggered")
    """Values of `state` that mean a firing alert, whatever their case."""
    resolved: Names = ("resolved", "recovery", "0", "false", "ok", "closed")
    """Values of `state` that mean its end."""
    ignored: Names = (
        "update",
        "acknowledgement",
        "flappingstart",
        "flappingstop",
        "flappingdisabled",
        "downtimestart",
        "downtimeend",
        "downtimecancelled",
        "custom",
    )
    """Values of `state` that are neither. Any other is refused."""
    service: Expression | None = None
    """JMESPath of the service, or of a list of names of which the first that the catalogue knows
    counts."""
    environment: Expression | None = None
    """JMESPath of the place, which becomes the label `environment`."""
    severity: Expression | None = None
    """JMESPath of the severity."""
    starts_at: Expression | None = None
    """JMESPath of the time at which the alert began: ISO 8601, or seconds, milliseconds,
    microseconds or nanoseconds since 1970. Unset: on arrival."""
    url: Expression | None = None
    """JMESPath of a link to the alert."""
    summary: Expression | None = None
    """JMESPath of a longer text."""
    labels: Expression | None = None
    """JMESPath of an object of labels."""

    @field_validator("firing", "resolved", "ignored")
    @classmethod
    def _folded(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(value.casefold() for value in values)

    @model_validator(mode="after")
    def _title_known(self) -> WebhookSettings:
        if self.tokens and not self.preset and not self.title:
            raise ValueError("title or preset must be set beside the tokens")
        return self

    def expression(self, field: str) -> str | None:
        """The one that counts: given, of the preset, or none."""
        given: str | None = getattr(self, field)
        return given or PRESETS.get(self.preset or "", {}).get(field)
