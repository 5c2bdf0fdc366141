"""What a question wants looked at beyond the case: a longer time ("the last 6 hours"), or more
services."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from analysis.vocabulary import Window
from bot.intake.questions.words import words

SHORTEST, LONGEST = timedelta(minutes=5), timedelta(days=7)
"""A further investigation's window; a longer one asks more than the vendors give within their
limits."""
_NUMBERS = {
    "a": 1,
    "an": 1,
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "eight": 8,
    "ten": 10,
    "twelve": 12,
    "couple": 2,
    "few": 3,
}
_UNITS = {
    "m": 60,
    "min": 60,
    "mins": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3600,
    "hr": 3600,
    "hrs": 3600,
    "hour": 3600,
    "hours": 3600,
    "d": 86400,
    "day": 86400,
    "days": 86400,
    "week": 604800,
}
_SPAN = re.compile(
    r"\b(?:last|past|previous|over|for|within)(?: the)?(?: last| past| previous)? "
    r"(?:(?P<n>\d{1,4}|"
    + "|".join(_NUMBERS)
    + r")(?: of)? ?)?(?P<unit>"
    + "|".join(_UNITS)
    + r")\b"
)
_SINCE = re.compile(
    r"\b(?:since|from|after|starting at|going back to)(?: about| around)? "
    r"(?P<h>[01]?\d|2[0-3]):(?P<m>[0-5]\d)\b"
)
_WIDER = re.compile(
    r"\b(?:wider|longer|larger|bigger) (?:window|time|range|period)\b|\bfurther back\b|\bgo back "
    r"further\b"
)
_LOOK = r"(?:check|look at|look into|include|add|investigate|examine|query)"
_ALSO = re.compile(rf"\b{_LOOK}\b.*\b(?:too|also|as well)\b|\b(?:also|please) {_LOOK}\b")
WIDER = 3.0
"""How many times longer "a wider window" is."""


@dataclass(frozen=True)
class AskedSpan:
    """The time a question asks for: a length that ends now, a time of day (UTC) it begins at, or
    just a longer one."""

    length: timedelta | None = None
    since: tuple[int, int] | None = None


def asked_span(text: str) -> AskedSpan | None:
    """The span in a question, or None."""
    said = " ".join(words(text))
    said = re.sub(r"\b(\d{1,4})(h|m|d|min|hrs?)\b", r"\1 \2", said)
    if match := _SINCE.search(said):
        return AskedSpan(since=(int(match["h"]), int(match["m"])))
    if match := _SPAN.search(said):
        n = match["n"]
        count = 1 if n is None else _NUMBERS.get(n) or int(n)
        return AskedSpan(length=timedelta(seconds=count * _UNITS[match["unit"]])) if count else None
    return AskedSpan() if _WIDER.search(said) else None


def asks_to_include(text: str) -> bool:
    """Whether a text asks to look at more: "check payments too"."""
    return _ALSO.search(" ".join(words(text))) is not None


def window_of(span: AskedSpan, incident: Window, now: datetime) -> Window:
    """The window that a span means: it ends now, or, of an incident long past, where its window
    ended."""
    now = now.astimezone(UTC)
    end = now if now - incident.end <= LONGEST else incident.end
    if span.since is not None:
        hour, minute = span.since
        start = end.replace(hour=hour, minute=minute, second=0, microsecond=0)
        start -= timedelta(days=1) if start >= end else timedelta(0)
    elif span.length is not None:
        start = end - span.length
    else:
        start, end = incident.end - timedelta(seconds=WIDER * incident.seconds), incident.end
    return Window(start=end - min(max(end - start, SHORTEST), LONGEST), end=end)
