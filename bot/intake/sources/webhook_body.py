"""What the generic webhook's expressions find in a body. A refusal names the expression and nothing
that was sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultline.bot.intake.payload_fields import as_time, in_utc, single_line
from faultline.bot.intake.request_body import Refused
from faultline.bot.settings.webhook import WebhookSettings
from faultline.connectors.shared.rows.json_mapping import searched, shallow_json, since_1970

MOST_ITEMS = 1_000
MOST_NAMES = 20


@dataclass(frozen=True)
class MappedItem:
    """One alert or change of a body, and the settings that read it."""

    value: Any
    webhook_settings: WebhookSettings

    def get(self, field: str) -> Any:
        """What the field's expression finds; None for nothing and for a macro that stands
        unfilled. Raises Refused with 400."""
        search = _search(self.webhook_settings, field, self.value)
        return None if isinstance(search, str) and unfilled(search) else search

    def line(self, field: str) -> str | None:
        """As one line. Raises Refused for what is neither text nor a number."""
        field_value = self.get(field)
        # Written as in JSON, not as Python does.
        if isinstance(field_value, bool):
            return str(field_value).lower()
        if field_value is not None and not isinstance(field_value, (str, int, float)):
            raise refused(self.webhook_settings, field, "is neither text nor a number")
        return single_line(field_value) or None

    def time(self, field: str) -> datetime | None:
        """As a time in UTC. Raises Refused for what is none."""
        field_value = self.get(field)
        if field_value is None:
            return None
        number = since_1970(field_value)
        time = as_time(field_value) or (in_utc(number) if number else None)
        if time is None:
            raise refused(self.webhook_settings, field, "is not a time")
        return time

    def names(self, field: str) -> list[str]:
        """The names in a list, or the only one."""
        field_value = self.get(field)
        raw_names = field_value[:MOST_NAMES] if isinstance(field_value, list) else [field_value]
        lines = [single_line(raw_name) for raw_name in raw_names]
        return [line for line in lines if not unfilled(line)]

    def counts(self) -> bool:
        """Whether `only` lets it through: without that, everything counts."""
        return self.webhook_settings.expression("only") is None or bool(self.get("only"))


def mapped_items(body: bytes, webhook_settings: WebhookSettings) -> list[MappedItem]:
    """The items of a body that count, in its order. Raises Refused with 400 or 413."""
    payload = _parsed(body)
    entries = (
        payload if webhook_settings.items is None else _search(webhook_settings, "items", payload)
    )
    entries = [entries] if webhook_settings.items is None else entries
    if not isinstance(entries, list):
        raise refused(webhook_settings, "items", "is not a list")
    if len(entries) > MOST_ITEMS:
        raise Refused(413, f"more than {MOST_ITEMS} items in one body")
    items = [MappedItem(entry, webhook_settings) for entry in entries]
    return [mapped_item for mapped_item in items if mapped_item.counts()]


def unfilled(text: str) -> bool:
    """Whether it is empty, or a macro that Zabbix, Nagios or Splunk On-Call had no value for."""
    text = text.strip()
    if text in ("", "*UNKNOWN*"):
        return True
    # Macros such as `{HOST.NAME}`, `$HOSTNAME$` and `${...}`. A text with blanks is none.
    return (text[0], text[-1]) in (("{", "}"), ("$", "$"), ("$", "}")) and " " not in text


def refused(webhook_settings: WebhookSettings, field: str, problem: str) -> Refused:
    """For what an expression finds, or does not."""
    return Refused(400, f"{field} ({webhook_settings.expression(field)}) {problem}")


def _search(webhook_settings: WebhookSettings, field: str, value: Any) -> Any:
    expression = webhook_settings.expression(field)
    if expression is None:
        return None
    try:
        return searched(expression, value)
    except ValueError as error:
        raise refused(webhook_settings, field, str(error)) from None


def _parsed(body: bytes) -> Any:
    try:
        return shallow_json(body)
    except ValueError as error:
        raise Refused(400, f"the body {error}") from None
