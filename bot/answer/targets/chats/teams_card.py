"""An answer as an Adaptive Card 1.5.

Pure. Text stands in text runs, in which a card parses no Markdown. A mention needs an entity of
the message, and there is none.

Source: the card's JSON schema (adaptivecards.io/schemas/1.5.0).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from faultline.bot.answer.foreign_text import safe_url
from faultline.bot.answer.targets.text_parts import TextParts
from faultline.bot.answer.writer.quotable import quotable

Part = dict[str, Any]

MAX_CARD_BYTES = 24_000
"""Teams takes messages of about 28 KB, mark-up included."""
LABELS = ("What's happening: ", "Do next: ", "Confidence: ", "Alert: ", "Model: ")
"""Lines whose label stands out."""
OPEN = "Open the investigation"
CUT = "…"


@dataclass(frozen=True)
class CardExtras:
    """Charts and small lines below an answer, and buttons."""

    lines: Sequence[str] = ()
    actions: Sequence[Part] = ()
    charts: Sequence[Part] = ()


NO_EXTRAS = CardExtras()


def card_of(text: str, key: str, extras: CardExtras = NO_EXTRAS) -> Part:
    """The card that bears `key`, which people do not see, as the id of its title."""
    parts = TextParts.of(text)
    title = block(run(parts.title, weight="Bolder", size="Medium"), id=key)
    body = [title, *(_line(line) for line in parts.lines if line)]
    return whole_card(parts.title, body, parts.page, extras)


def whole_card(
    title: str, body: Sequence[Part], page: str | None, extras: CardExtras = NO_EXTRAS
) -> Part:
    """A card with this body. `title` is what stands where cards are not shown."""
    card: Part = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.5",
        "fallbackText": quotable(title),
        "body": [*body, *extras.charts],
    }
    url = safe_url(page)
    actions = [{"type": "Action.OpenUrl", "title": OPEN, "url": url}] if url else []
    actions += extras.actions
    if actions:
        card["actions"] = actions
    return _fitting(card, [block(run(line, isSubtle=True)) for line in extras.lines])


def _line(line: str) -> Part:
    if line.startswith("- "):
        return block(run(f"•  {line[2:]}"), spacing="Small")
    if line.endswith(":"):
        return block(run(line, weight="Bolder"))
    for label in LABELS:
        if line.startswith(label):
            return block(run(label, weight="Bolder"), run(line.removeprefix(label)))
    return block(run(line))


def block(*runs: Part, **more: Any) -> Part:
    """A line of runs."""
    return {"type": "RichTextBlock", "inlines": list(runs), **more}


def run(text: str, **more: Any) -> Part:
    """A text run: what it holds is no mark-up."""
    # `quotable` strips the space that separates a label from its text.
    space = " " if text.endswith(" ") else ""
    return {"type": "TextRun", "text": quotable(text) + space, **more}


def _fitting(card: Part, last: Sequence[Part]) -> Part:
    """Without the last lines of the body, where the card is too long. `last` stays."""
    body = card["body"]
    # Two bytes for the comma and the space between two parts.
    sizes = [len(json.dumps(part).encode()) + 2 for part in body]
    size = len(json.dumps({**card, "body": list(last)}).encode()) + sum(sizes)
    if size <= MAX_CARD_BYTES:
        body += last
        return card
    left_out = block(run(CUT))
    # Leave room for the line that marks the cut.
    while size > MAX_CARD_BYTES - 200 and len(body) > 1:
        body.pop()
        size -= sizes.pop()
    body += [left_out, *last]
    return card
