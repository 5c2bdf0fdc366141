"""Where an investigation is answered, between `ReplyTo` and the columns of its row.

Slack's and PagerDuty's addresses have their own columns, because threads and incidents are
looked up by them. Any other target's is kept under the target's name.
"""

from __future__ import annotations

from typing import Any, TypedDict

from sqlalchemy import ColumnElement

from faultline.bot.policy.values import ReplyTo
from faultline.bot.store.models import InvestigationRow

MAX_ADDRESS = 500
"""Characters of an address; a longer one is ignored."""


class AddressColumns(TypedDict):
    """The columns of an investigation that hold its addresses."""

    slack_channel: str | None
    slack_thread: str | None
    pagerduty_incident: str | None
    reply_addresses: dict[str, str] | None


def address_columns(reply_to: ReplyTo) -> AddressColumns:
    """What a new row holds."""
    return {
        "slack_channel": reply_to.slack_channel,
        "slack_thread": reply_to.slack_thread,
        "pagerduty_incident": reply_to.pagerduty_incident,
        "reply_addresses": _short_addresses(reply_to),
    }


def reply_to_of(row: InvestigationRow) -> ReplyTo:
    """From the row."""
    return ReplyTo(
        row.slack_channel, row.slack_thread, row.pagerduty_incident, dict(row.reply_addresses or {})
    )


def adopt_addresses(row: InvestigationRow, reply_to: ReplyTo) -> None:
    """Take from an alert that joins where the investigation has no address yet.

    Slack's is not taken: the answer stays in the thread in which it was announced.
    """
    row.pagerduty_incident = row.pagerduty_incident or reply_to.pagerduty_incident
    if reply_to.other_addresses:
        # The investigation's own addresses come last, so that they stay.
        row.reply_addresses = {**(_short_addresses(reply_to) or {}), **(row.reply_addresses or {})}


def _short_addresses(reply_to: ReplyTo) -> dict[str, str] | None:
    addresses_by_target = {}
    for target, address in reply_to.other_addresses.items():
        if address and len(address) <= MAX_ADDRESS:
            addresses_by_target[target] = address
    return addresses_by_target or None


def answered_at(target: str, address: str) -> ColumnElement[bool]:
    """The condition on rows: answered at this address of a target without a column."""
    addresses: Any = InvestigationRow.reply_addresses
    condition: ColumnElement[bool] = addresses[target].as_string() == address
    return condition
