"""Slack's message markup as plain text, and the links in it: docs.slack.dev, "Formatting message
text"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from faultline.bot.intake.payload_fields import as_url, in_utc

MAX_BLOCK_NODES = 2_000
_MARKUP = re.compile(r"<([^<>\n]{1,4096})>")
_BARE_URL = re.compile(r"https?://[^\s<>|\"'`]{3,2048}")


def slack_plain(text: str) -> str:
    """`<url|label>` becomes its label, mentions of people and groups vanish, `&amp;` and the like
    are unescaped."""
    return _unescape(_MARKUP.sub(_label, text))


def slack_urls(text: str) -> list[str]:
    """Every link in a text, in its order, without repeats."""
    urls: dict[str, None] = {}
    for match in _BARE_URL.findall(text):
        url = _unescape(match).rstrip(".,;:!?)")
        if as_url(url):
            urls[url] = None
    return list(urls)


def slack_time(ts: str) -> datetime | None:
    """The time in a message's `ts` (epoch seconds with a fraction), UTC; None when it is none."""
    try:
        return in_utc(datetime.fromtimestamp(float(ts), UTC))
    except (ValueError, OverflowError, OSError):
        return None


def block_strings(blocks: Any) -> list[str]:
    """Every text and link inside Block Kit blocks, in reading order."""
    return list(_strings(blocks))


def _strings(root: Any) -> Iterator[str]:
    # A stack of our own: a sender decides how deep blocks are nested.
    waiting = [root]
    node_count = 0
    while waiting and node_count < MAX_BLOCK_NODES:
        node = waiting.pop()
        node_count += 1
        if isinstance(node, dict):
            for key in ("url", "text"):
                if isinstance(node.get(key), str):
                    yield node[key]
            inner = [value for value in node.values() if isinstance(value, (dict, list))]
            waiting.extend(reversed(inner))
        elif isinstance(node, list):
            waiting.extend(reversed(node[:MAX_BLOCK_NODES]))


def _label(match: re.Match[str]) -> str:
    target, bar, label = match[1].partition("|")
    if target.startswith(("@", "!")) and not target.startswith("!date"):
        return ""
    if target.startswith("#"):
        return "#" + (label or target[1:])
    return label if bar else target.removeprefix("mailto:")


def _unescape(text: str) -> str:
    # `&amp;` comes last: `&amp;lt;` stands for the text `&lt;`, not for a bracket.
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
