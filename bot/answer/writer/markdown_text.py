"""Foreign text and addresses inside Markdown: they stay text, and links cannot break out."""

from __future__ import annotations

import re
from urllib.parse import quote

from faultline.bot.answer.writer.quotable import quotable

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")
_URL_SAFE = ":/?#@!$&'*+,;=%-._~"
"""All of a web address but what would end a Markdown link."""


def shown(text: str) -> str:
    """Foreign text on one line that Markdown and HTML show as it is."""
    return _SPECIAL.sub(r"\\\1", quotable(text))


def opened(url: str | None, title: str = "open") -> str:
    """` ([open](address))`; empty where it is no web address."""
    if not url or not url.startswith(("https://", "http://")):
        return ""
    return f" ([{shown(title)}]({quote(url, safe=_URL_SAFE)}))"
