"""The digest: one message for what came in a channel's quiet hours. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.bot.answer.foreign_text import escape_mrkdwn, safe_url, single_line
from faultline.bot.answer.targets.plain_message import outcome_line
from faultline.bot.answer.targets.slack.blocks import (
    Block,
    bold,
    bullets,
    context,
    link,
    rich,
    section,
    text,
)
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.store.store import StoredInvestigation

MAX_LINES = 20
"""Investigations listed; a line takes up to 550 characters of the 12,000 of blocks that Slack
takes."""
TITLE, HEADLINE = 80, 140


def digest_message(investigations: Sequence[StoredInvestigation], public_url: str) -> SlackMessage:
    """What came, what was found, and where to read on; the oldest first."""
    count = len(investigations)
    title = f"While it was quiet, {count} alert{'s were' if count != 1 else ' was'} investigated"
    shown = investigations[:MAX_LINES]
    blocks: list[Block] = [
        rich(section(bold(title))),
        rich(bullets([_line(investigation, public_url) for investigation in shown])),
    ]
    if count > len(shown):
        blocks.append(
            context(f"and {count - len(shown)} more", safe_url(public_url), to="All investigations")
        )
    # The text of a message is mrkdwn, so escape what is foreign in it.
    mrkdwn = escape_mrkdwn(
        "\n".join(
            [
                title,
                *(
                    single_line(investigation.headline or investigation.alert.title, HEADLINE)
                    for investigation in shown
                ),
            ]
        )
    )
    return SlackMessage(mrkdwn[:3_000], tuple(blocks))


def _line(investigation: StoredInvestigation, public_url: str) -> Block:
    related = f" and {len(investigation.related)} more" if investigation.related else ""
    url = safe_url(f"{public_url}/investigations/{investigation.id}")
    elements = [
        text(f"{investigation.accepted_at:%d %b %H:%M} UTC  "),
        bold(single_line(investigation.alert.title, TITLE)),
        text(f"{related}: "),
    ]
    elements += [text(f"{outcome_line(investigation)} ")]
    elements += [link(url, "open")] if url else []
    return section(*elements)
