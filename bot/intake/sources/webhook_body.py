"""What the generic webhook's expressions find in a body. A refusal names the expression and nothing
that was sent."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultline.bot.intake.payload_fields import as_time, in_utc, one_line
from faultline.bot.intake.request_body import Refused
from faultline.bot.settings.webhook import WebhookSettings
from faultline.connectors.shared.rows.json_mapping import searched, shallow_json, since_1970

MOST_ITEMS = 1_000
MOST_NAMES = 20


@dataclass(frozen=True)
class MappedItem:
    """One alert or change of a body, and the settings that read it."""

    value: Any
    own: WebhookSettings

    def get(self, field: str) -> Any:
        """What the field's expression finds; None for nothing and for a macro that stands
        unfilled. Raises Refused with 400."""
        search = _search(self.own, field, self.value)
        return None if isinstance(search, str) and unfilled(search) else search

    def line(self, field: str) -> str | None:
        """As one line. Raises Refused for what is neither text nor a number."""
        found = self.get(field)
        if isinstance(found, bool):
            return str(found).lower()
        if found is not None and not isinstance(found, (str, int, float)):
            raise refused(self.own, field, "is neither text nor a number")
        return one_line(found) or None

    def time(self, field: str) -> datetime | None:
        """As a time in UTC. Raises Refused for what is none."""
        given = self.get(field)
        if given is None:
            return None
        number = since_1970(given)
        time = as_time(given) or (in_utc(number) if number else None)
        if time is None:
            raise refused(self.own, field, "is not a time")
        return time

    def names(self, field: str) -> list[str]:
        """The names in a list, or the only one."""
        found = self.get(field)
        given = found[:MOST_NAMES] if isinstance(found, list) else [found]
        lines = [one_line(one) for one in given]
        return [line for line in lines if not unfilled(line)]

    def counts(self) -> bool:
        """Whether `only` lets it through: without that, everything counts."""
        return self.own.expression("only") is None or bool(self.get("only"))


def mapped_items(body: bytes, own: WebhookSettings) -> list[MappedItem]:
    """The items of a body that count, in its order. Raises Refused with 400 or 413."""
    payload = _parsed(body)
    entries = payload if own.items is None else _search(own, "items", payload)
    entries = [entries] if own.items is None else entries
    if not isinstance(entries, list):
        raise refused(own, "items", "is not a list")
    if len(entries) > MOST_ITEMS:
        raise Refused(413, f"more than {MOST_ITEMS} items in one body")
    items = [MappedItem(entry, own) for entry in entries]
    return [one for one in items if one.counts()]


def unfilled(text: str) -> bool:
    """Whether it is empty, or a macro that Zabbix, Nagios or Splunk On-Call had no value for."""
    text = text.strip()
    if text in ("", "*UNKNOWN*"):
        return True
    return (text[0], text[-1]) in (("{", "}"), ("$", "$"), ("$", "}")) and " " not in text


def refused(own: WebhookSettings, field: str, problem: str) -> Refused:
    """For what an expression finds, or does not."""
    return Refused(400, f"{field} ({own.expression(field)}) {problem}")


def _search(own: WebhookSettings, field: str, value: Any) -> Any:
    expression = own.expression(field)
    if expression is None:
        return None
    try:
        return searched(expression, value)
    except ValueError as error:
        raise refused(own, field, str(error)) from None


def _parsed(body: bytes) -> Any:
    try:
        return shallow_json(body)
    except ValueError as error:
        raise Refused(400, f"the body {error}") from None
