"""Settings of the generic webhook: where in anybody's JSON an alert's fields stand."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from faultline.bot.settings.webhook_presets import PRESETS
from faultline.connectors.shared.rows.json_mapping import Expression
from faultline.connectors.shared.settings.settings_types import Names, Secrets, Section

Preset = Literal[
    "dynatrace",
    "gcp_monitoring",
    "grafana_oncall",
    "nagios",
    "new_relic",
    "opsgenie",
    "splunk_oncall",
    "zabbix",
]
"""Their expressions are in `faultline.bot.settings.webhook_presets`."""


class WebhookSettings(Section):
    """Alerts, or changes, of any system that can post JSON: docs/connectors/webhook.md."""

    tokens: Secrets = ()
    """Secret. Bearer tokens (or Basic `user:password`) of the sender, separated by commas. With
    `signature_header`, keys of its signature."""
    signature_header: str | None = Field(default=None, pattern=r"^[A-Za-z0-9-]{1,80}$")
    """The header with the HMAC-SHA256 of the body in hexadecimal digits, for senders that sign."""
    signature_prefix: str = Field(default="", max_length=40)
    """What stands before the digits in that header, such as `sha256=`."""
    maps_to: Literal["alerts", "changes"] = "alerts"
    """`changes`: the sender reports changes, which become evidence of later investigations."""
    preset: Preset | None = None
    """Expressions that are ready; those given beside it replace its own."""
    items: Expression | None = None
    """JMESPath of the list of alerts in a body. Unset: the body is one alert."""
    only: Expression | None = None
    """JMESPath that is true, or finds something, for what counts. The rest is ignored. Unset:
    everything counts."""
    title: Expression | None = None
    """JMESPath of the title. Needed without `preset`."""
    id: Expression | None = None
    """JMESPath of what is the same for every repeat of an alert. Unset: title, service and
    environment. For changes it is needed: one with a known id replaces the earlier one."""
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
    """JMESPath of the time at which the alert began, or the change took effect: ISO 8601, or
    seconds, milliseconds, microseconds or nanoseconds since 1970. Unset: on arrival."""
    url: Expression | None = None
    """JMESPath of a link to it."""
    summary: Expression | None = None
    """JMESPath of a longer text."""
    labels: Expression | None = None
    """JMESPath of an object of labels."""
    kind: Expression | None = None
    """For changes: JMESPath of `deploy`, `config`, `flag`, `migration`, `scale` or `merge`. Unset:
    `deploy`."""
    author: Expression | None = None
    """For changes: JMESPath of who made it."""
    files: Expression | None = None
    """For changes: JMESPath of a list of the paths that it touches."""

    @field_validator("firing", "resolved", "ignored")
    @classmethod
    def _folded(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(value.casefold() for value in values)

    @model_validator(mode="after")
    def _check_title(self) -> WebhookSettings:
        # Without tokens the source is off, and needs nothing.
        if self.tokens and not self.preset and not self.title:
            raise ValueError("title or preset must be set beside the tokens")
        if self.tokens and self.maps_to == "changes":
            if self.preset:
                raise ValueError("preset is for alerts, and maps_to is changes")
            if not (self.id and self.service):
                raise ValueError("id and service must be set where maps_to is changes")
        return self

    def expression(self, field: str) -> str | None:
        """The one that counts: given, of the preset, or none."""
        setting: str | None = getattr(self, field)
        return setting or PRESETS.get(self.preset or "", {}).get(field)
