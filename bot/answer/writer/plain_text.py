"""Text that stays text: no mention, link or mark-up that Slack, PagerDuty or a browser would act
on.

`neutral` takes it out of foreign text; `rendered_part` finds it in a text that should hold none.
The two agree: `rendered_part(neutral(text))` is None for every text.
"""

from __future__ import annotations

import re
from collections.abc import Collection

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
