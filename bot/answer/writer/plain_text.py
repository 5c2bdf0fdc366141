"""Text that stays text: no mention, link or mark-up that Slack, PagerDuty or a browser would act
on.

`neutral` takes it out of foreign text; `rendered_part` finds it in a text that should hold none.
The two agree: `rendered_part(neutral(text))` is None for every text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from functools import lru_cache
from urllib.parse import quote

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.wording.phrases import INVISIBLE, plain

LINK = re.compile(r"[a-z][a-z0-9+.\-]{0,20}://[^\s<>\"'|]*|\bwww\.[^\s<>\"'|]+", re.IGNORECASE)
"""A web address, as chat clients recognise one."""

_UNSAFE: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a mention", re.compile(r"<[!@#]|(?<![\w.+\-])@(?=\w)")),
    (
        "a link",
        re.compile(
            r"://|\bwww\.(?=[\w-])|\b(?:mailto|javascript|data|tel):(?=[\w/])|\]\(", re.IGNORECASE
        ),
    ),
    (
        "mark-up",
        # Tags, code, bold, strikes, underscores, headings, quotes, lists, tables and :emoji:.
        re.compile(
            r"<(?=[\w!@#/?$])|`|\*|~~|(?<![\w~])~(?=[^\W\d])|(?<![\w.])_|_(?!\w)|^\s*(?:#{1,6}\s|>"
            r"|[-+]\s|\|)"
            r"|(?<![\w:]):[a-z0-9_+\-]{2,40}:(?![\w:])",
        ),
    ),
    ("a control character", INVISIBLE),
)

_SAFE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"<\*>|\*{2,}"), "…"),
    (re.compile(r"\bwww\.(?=[\w-])", re.IGNORECASE), "www ."),
    (re.compile(r"\b(mailto|javascript|data|tel):(?=[\w/])", re.IGNORECASE), r"\1: "),
    (re.compile(r"(?<![\w.+\-])@(?=\w)"), "(at)"),
    (re.compile(r"\]\("), "] ("),
    (re.compile(r"`"), "'"),
    (re.compile(r"\*"), "∗"),
    (re.compile(r"<(?=[\w!@#/?$])"), "‹"),
    (re.compile(r"(?<![-=\s])>"), "›"),
    (re.compile(r"~~+|(?<![\w~])~(?=[^\W\d])"), "∼"),
    (re.compile(r"(?<![\w.])_+|_+(?!\w)"), "‗"),
    (re.compile(r"(?<![\w:]):(?=[a-z0-9_+\-]{2,40}:(?![\w:]))"), "∶"),
    (re.compile(r"^\s*(?:#{1,6}\s|>|[-+]\s|\|)\s*"), ""),
)


def neutral(text: str, limit: int = 600) -> str:
    """Foreign text as one harmless line of at most `limit` characters; a template's `<*>` becomes
    an ellipsis."""
    line = _until_stable(plain(text, limit).replace("://", ": //"))
    return line if len(line) <= limit else clipped(line, limit)


def rendered_part(text: str, links: Collection[str] = ()) -> str | None:
    """What in the text would render or notify ("a mention", "a link", ...); None when nothing
    would.

    Links that equal one of `links` are allowed.
    """
    # A full stop or bracket after a link belongs to the sentence.
    allowed = LINK.sub(lambda m: " " if m.group().rstrip(".,;:!?)") in links else m.group(), text)
    return next((what for what, pattern in _UNSAFE if pattern.search(allowed)), None)


def clipped(text: str, limit: int) -> str:
    """The text cut between words to `limit` characters, with an ellipsis where something is
    missing."""
    if len(text) <= limit:
        return text
    head = text[: limit - 1]
    space = head.rfind(" ")
    return (head[:space] if space > limit // 2 else head).rstrip(" ,;:(-") + "…"


def _until_stable(line: str) -> str:
    # A replacement may form what another pattern catches.
    while True:
        before = line
        for pattern, replacement in _SAFE:
            line = pattern.sub(replacement, line)
        line = line.strip()
        if line == before:
            return line


# A sentence of the diagnosis as an answer may show it, and names in texts.

_DASH = re.compile(r"[\u2010-\u2015\u2212]")
_INVISIBLE = re.compile(
    r"[\u0300-\u036f\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)


# A report asks for the same sentences again and again, each time against every secret.
@lru_cache(maxsize=2048)
def quotable(text: str) -> str:
    """The text without secrets, and without anything that renders."""
    return neutral(masked(text))


def named_in(name: str, text: str) -> bool:
    """Whether the name stands in the text as a whole word; both folded."""
    return position_of(name, text) >= 0


def position_of(name: str, text: str) -> int:
    """Where the name first stands in the text as a whole word; -1 where it does not."""
    match = re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text)
    return match.start() if match else -1


def folded(text: str) -> str:
    """Text for comparison: look-alikes and accented letters plain, nothing invisible, lower
    case."""
    canonical = _DASH.sub("-", unicodedata.normalize("NFKC", text))
    letters = unicodedata.normalize("NFD", canonical)
    return _INVISIBLE.sub("", letters).lower()


# Foreign text and addresses inside Markdown: they stay text, and links cannot break out.

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
