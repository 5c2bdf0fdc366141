"""Block Kit's parts, each within Slack's documented limits whatever text it is given.

Foreign text stands in `rich_text` and `plain_text`, in which Slack parses nothing; mrkdwn is
escaped. Limits: https://docs.slack.dev/reference/block-kit and `slack_sdk.models.blocks`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from faultline.bot.answer.foreign_text import escape_mrkdwn, safe_url, single_line

Block = dict[str, Any]

NOTHING = "-"
"""Slack refuses an empty text."""
MAX_BUTTON = 75
MAX_VALUE = 2_000
MAX_OPTION = 75
MAX_OPTION_VALUE = 150
MAX_OVERFLOW = 5
MAX_OPTIONS = 100
MAX_HEADER = 150
MAX_TITLE = 24
MAX_METADATA = 3_000
MAX_INPUT = 3_000
MAX_LABEL = 2_000
MAX_PLACEHOLDER = 150
MAX_CONTEXT = 3_000
"""Of one text, escaped: an ampersand is five characters."""
MAX_PIECES = 13
"""Stretches of code in one sentence are few; more backticks are something else."""


def rich(*elements: Block) -> Block:
    """A block of sections, lists and quotes."""
    return {"type": "rich_text", "elements": list(elements)}


def section(*elements: Block) -> Block:
    """A paragraph of a rich text block."""
    return {"type": "rich_text_section", "elements": list(elements)}


def bullets(items: Sequence[Block]) -> Block:
    """A list of sections."""
    return {"type": "rich_text_list", "style": "bullet", "elements": list(items)}


def preformatted(text_: str) -> Block:
    """Text in a box, in a font of one width."""
    return {"type": "rich_text_preformatted", "elements": [text(text_)]}


def text(content: str) -> Block:
    """Plain text inside a section."""
    return {"type": "text", "text": content or NOTHING}


def bold(content: str) -> Block:
    """Bold text inside a section."""
    return {"type": "text", "text": content or NOTHING, "style": {"bold": True}}


def emoji(name: str) -> Block:
    """An emoji inside a section."""
    return {"type": "emoji", "name": name}


def link(url: str, title: str) -> Block:
    """A link inside a section; `url` has gone through `safe_url`."""
    return {"type": "link", "url": url, "text": title or NOTHING}


def titled(title: str, items: Sequence[Block]) -> Block:
    """A bold title and a list."""
    return rich(section(bold(title)), bullets(items))


def paragraph(content: str) -> Block:
    """One block of plain text."""
    return rich(section(text(content)))


def header(content: str) -> Block:
    """A large title."""
    return {"type": "header", "text": plain(content, MAX_HEADER)}


def spoken(content: str) -> list[Block]:
    """Plain text inside a section; what stands between backticks in a font of one width."""
    pieces = content.split("`")
    if len(pieces) % 2 == 0 or len(pieces) > MAX_PIECES:  # not in pairs
        return [text(content)]
    shown = [
        {"type": "text", "text": p, **({"style": {"code": True}} if n % 2 else {})}
        for n, p in enumerate(pieces)
        # Slack refuses an empty text.
        if p
    ]
    return shown or [text("")]


def context(
    content: str,
    page_url: str | None = None,
    *,
    to: str = "Open the investigation",
    limit: int = 500,
) -> Block:
    """Small grey text; with an address a link before it."""
    url = safe_url(page_url)
    to_page = f"<{escape_mrkdwn(url)}|{to}>" if url else ""
    # Escapes may make a text too long; an eighth of it fits.
    for shorter in (limit, limit // 8):
        line = " · ".join(p for p in (to_page, escape_mrkdwn(single_line(content, shorter))) if p)
        if len(line) <= MAX_CONTEXT:
            break
    else:
        line = to_page if len(to_page) <= MAX_CONTEXT else ""
    # `verbatim`: Slack turns no name or address in it into a mention or link.
    return {
        "type": "context",
        "elements": [{"type": "mrkdwn", "text": line or NOTHING, "verbatim": True}],
    }


def plain(content: str, limit: int) -> Block:
    """A plain text object, without the `:emoji:` of whoever wrote it."""
    return {"type": "plain_text", "text": single_line(content, limit) or NOTHING, "emoji": False}


def button(action: str, label: str, value: str, *, style: str | None = None) -> Block:
    """A button; `value` is what the click brings back."""
    shown = {
        "type": "button",
        "action_id": action,
        "text": plain(label, MAX_BUTTON),
        "value": _value(value, MAX_VALUE),
    }
    return shown | ({"style": style} if style else {})


def option(label: str, value: str) -> Block:
    """One choice of a menu."""
    return {"text": plain(label, MAX_OPTION), "value": _value(value, MAX_OPTION_VALUE)}


def overflow(action: str, options: Sequence[Block]) -> Block:
    """The menu behind the three dots: one to five choices."""
    return {"type": "overflow", "action_id": action, "options": list(options)[:MAX_OVERFLOW]}


def actions(block_id: str, elements: Sequence[Block]) -> Block:
    """A row of buttons."""
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def modal(
    callback: str,
    title: str,
    blocks: Sequence[Block],
    *,
    metadata: str = "",
    submit: str | None = None,
) -> Block:
    """A modal. `metadata` comes back with each click and with the form."""
    shown: Block = {
        "type": "modal",
        "callback_id": callback,
        "title": plain(title, MAX_TITLE),
        "close": plain("Cancel" if submit else "Close", MAX_TITLE),
        "blocks": list(blocks),
        "private_metadata": metadata[:MAX_METADATA],
    }
    return shown | ({"submit": plain(submit, MAX_TITLE)} if submit else {})


def field(
    block_id: str, label: str, element: Block, *, hint: str = "", optional: bool = False
) -> Block:
    """A field of a form; its element's action id is `given`."""
    shown = {
        "type": "input",
        "block_id": block_id,
        "label": plain(label, MAX_LABEL),
        "element": {**element, "action_id": "given"},
        "optional": optional,
    }
    return shown | ({"hint": plain(hint, MAX_LABEL)} if hint else {})


def size(blocks: Sequence[Mapping[str, Any]]) -> int:
    """Length as JSON, in characters."""
    return len(json.dumps(blocks, ensure_ascii=False))


def _value(value: str, limit: int) -> str:
    """What comes back as it is: cut, and without what is no text in UTF-8."""
    return value[:limit].encode("utf-8", "replace").decode() or NOTHING
