"""Text of alerts, logs and models on its way into a reply: one line, no invisible characters, no
markup, no links."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import urlsplit

MAX_URL = 800
"""Longer links are left out: a dozen of them must fit into one message."""
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Control, format (zero-width, direction), surrogate, private, unassigned, line and paragraph
separators."""
# Keep two combining marks on a letter: stacks of them cover the lines above and below.
_MARKS = re.compile(
    r"([\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f]{2})[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f]+"
)
_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")
_URL = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~%!$&'()*+,;=:@/?#\[\]\-]*)?")


def single_line(text: str, limit: int) -> str:
    """Foreign text on one line of at most `limit` characters, cut at a word where one is near.

    An address in it is readable and no link: chat clients and PagerDuty make one of every `://`.
    """
    # Bound the work: four times the limit leaves room for white space that collapses.
    head = text[: 4 * limit + 64]
    # Printable is less than visible: spaces other than the plain one are not.
    if not head.isprintable():
        head = "".join(" " if unicodedata.category(c) in _INVISIBLE else c for c in head)
    line = _MARKS.sub(r"\1", " ".join(head.split())).replace("://", ": //")
    if len(line) <= limit and len(text) == len(head):
        return line
    cut = line[: limit - 1]
    space = cut.rfind(" ")
    return (cut[:space] if space > 0.8 * limit else cut).rstrip(" ,;:.") + "…"


def sentence(text: str, limit: int) -> str:
    """One line; a single sentence without its full stop, as a line of a message ends. A commit's
    id has the length people quote it in."""
    line = _COMMIT.sub(r"\1", single_line(text, limit))
    return line if ". " in line else line.removesuffix(".")


def escape_mrkdwn(text: str) -> str:
    """Slack's three escapes, with which no mention, channel or link can be formed.

    https://docs.slack.dev/messaging/formatting-message-text#escaping
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def safe_url(url: str | None) -> str | None:
    """The address when it is a plain http(s) one that cannot break out of a link; else None."""
    if url is None or len(url) > MAX_URL or not _URL.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        # Reading the port raises ValueError where it is no number.
        _ = parts.port
    except ValueError:
        return None
    # A user name before "@" can pose as the host.
    return url if parts.hostname and "@" not in parts.netloc else None
