"""Vendors' words and ours about them: what is hostile is cut, statuses are said in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from faultline.analysis.errors import ConnectorError, SettingsError

_WORDS = {
    400: "the request was not accepted",
    401: "authentication failed",
    402: "not part of this plan",
    403: "not permitted with these credentials",
    404: "not found",
    422: "the request was not accepted",
    429: "the rate limit is used up",
    503: "not available now",
}


def problem_of(status: int) -> str:
    """An HTTP status in words."""
    return _WORDS.get(status, "refused")


def short(text: str, limit: int = 160) -> str:
    """Text of a vendor made fit for one line of a report: printable characters, and not many."""
    # Most texts are; to look at each of their characters was a fifth of a collection.
    if not text.isprintable():
        text = "".join(character if character.isprintable() else " " for character in text)
    printable = " ".join(text.split())
    if len(printable) <= limit:
        return printable
    return printable[: limit - 1] + "…"


def unexpected_response(vendor: str, call: str, error: Exception) -> ConnectorError:
    """An answer of another shape than the vendor documents."""
    return ConnectorError(vendor, call, f"unexpected response: {short(str(error))}")


def first_of(texts: Mapping[str, str], names: Iterable[str]) -> str | None:
    """The first text that is there and not empty, of several names for the same thing."""
    for name in names:
        if texts.get(name):
            return texts[name]
    return None


def plain_url(url: str, vendor: str) -> str:
    """The base URL without a trailing slash.

    Raises SettingsError when it carries credentials, a query or no host.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"{vendor}.url", "must be a URL like https://host/path")
    if parts.username is not None or parts.password is not None:
        raise SettingsError(
            f"{vendor}.url", "must not carry a user name or password; use the token"
        )
    if parts.query or parts.fragment:
        raise SettingsError(f"{vendor}.url", "must not carry a query or fragment")
    return url.rstrip("/")


def web_link(value: object) -> str | None:
    """The value if it is a link to a web page."""
    # Foreign text: it must not break out of a link in Slack or on a page.
    if isinstance(value, str) and re.fullmatch(r"https?://[^\s<>\"|]{1,2000}", value):
        return value
    return None
