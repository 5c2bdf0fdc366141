"""What a question wants looked at beyond the case: a longer time ("the last 6 hours"), or more
services."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from faultline.analysis.vocabulary import Window
from faultline.bot.intake.questions.words import listed, words

SHORTEST, LONGEST = timedelta(minutes=5), timedelta(days=7)
"""A further investigation's window; a longer one asks more than the vendors give within their
limits."""
WIDER = 3.0
"""How many times longer "a wider window" is."""
COMPARED = listed("yesterday week month day compare compared comparison normal usual")
HOURS = listed("hour hours minutes earlier")
WEEKDAYS = listed("monday tuesday wednesday thursday friday saturday sunday")
_LENGTH = re.compile(
    r"\b(?:last|past|previous) (?P<length>(?:half an |a couple of |couple of |a few |few |an? |"
    r"[a-z0-9]+ )?(?:\d+)?(?:m|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?))\b"
)
_SINCE = re.compile(
    r"\b(?:since|from|after|starting at|back to)(?: about| around)? "
    r"(?P<clock>\d{1,2}[:.]\d\d|\d{1,2} ?[ap]m|noon|midnight)\b"
)
_WIDER = re.compile(
    r"\b(?:wider|longer|larger|bigger) (?:window|time|range|period)\b|\b(?:go )?further back\b"
    r"|\bback further\b"
)
_COUNTS = (("half an hour", "30 minutes"), ("couple of", "2"), ("few", "3"))
_LOOK = r"(?:check|look at|look into|include|add|investigate|examine|query)"
_ALSO = re.compile(rf"\b{_LOOK}\b.*\b(?:too|also|as well)\b|\b(?:also|please) {_LOOK}\b")


@dataclass(frozen=True)
class QuestionSpan:
    """The time a question asks for: a length that ends now, a time of day (UTC) it begins at, or
    just a longer one."""

    length: timedelta | None = None
    since: tuple[int, int] | None = None


def span_in(text: str) -> QuestionSpan | None:
    """The span in a question, or None."""
    sentence = " ".join(words(text))
    since, length = _SINCE.search(sentence), _LENGTH.search(sentence)
    if since is not None:
        time = _read(since["clock"])
        return QuestionSpan(since=(time.hour, time.minute)) if time else None
    if length is not None:
        duration = _length(length["length"])
        return QuestionSpan(length=duration) if duration else None
    return QuestionSpan() if _WIDER.search(sentence) else None


def speaks_of_a_span(text: str) -> bool:
    """The same by its form alone, for processes that do without the library that reads times."""
    sentence = " ".join(words(text))
    return any(form.search(sentence) for form in (_SINCE, _LENGTH, _WIDER))


def asks_to_include(text: str) -> bool:
    """Whether a text asks to look at more: "check payments too"."""
    return _ALSO.search(" ".join(words(text))) is not None


def days_ago(text: str, time: datetime) -> int:
    """How many days before `time` a comparison means: "yesterday", "last tuesday", "a week ago". A
    day where it does not say, none where it means the same day. "Compare" alone means yesterday."""
    tokens = words(text)
    if HOURS & set(tokens) or (not COMPARED & set(tokens) and not WEEKDAYS & set(tokens)):
        return 0
    # On a Tuesday, "Tuesday" means the one a week ago.
    if "week" in tokens or f"{time:%A}".casefold() in tokens:
        return 7
    weekday = next((word for word in tokens if word in WEEKDAYS), None)
    meant = _read(weekday, time) if weekday else None
    return max(1, (time.date() - meant.date()).days) if meant else 1


def window_of(span: QuestionSpan, incident: Window, now: datetime, zone: tzinfo = UTC) -> Window:
    """The window that a span means: it ends now, or, of an incident long past, where its window
    ended. Times of day are of the `zone`."""
    now = now.astimezone(UTC)
    end = now if now - incident.end <= LONGEST else incident.end
    if span.since is not None:
        hour, minute = span.since
        local = end.astimezone(zone)
        start = local.replace(hour=hour, minute=minute, second=0, microsecond=0)
        # A time of day that is still to come was yesterday's.
        start -= timedelta(days=1) if start >= end else timedelta(0)
    elif span.length is not None:
        start = end - span.length
    else:
        start, end = incident.end - timedelta(seconds=WIDER * incident.seconds), incident.end
    return Window(start=end - min(max(end - start, SHORTEST), LONGEST), end=end)


def _length(text: str) -> timedelta | None:
    for word, count in _COUNTS:
        text = re.sub(rf"\b(?:a )?{word}\b", count, text)
    # "Hour" alone, as in "the last hour", is one hour.
    counted = text if re.match(r"\d|.* ", text) else f"1 {text}"
    noon = datetime(2000, 1, 1, 12, tzinfo=UTC)
    began = _read(f"{counted} ago", noon)
    return noon - began if began is not None and began < noon else None


def _read(text: str, now: datetime | None = None) -> datetime | None:
    # Late: the library takes a quarter of a second to load, and few questions name a time.
    import dateparser

    settings: dict[str, object] = {"PREFER_DATES_FROM": "past", "TIMEZONE": "UTC"}
    settings["RETURN_AS_TIMEZONE_AWARE"] = True
    if now is not None:
        settings["RELATIVE_BASE"] = now
    read = dateparser.parse(text, languages=["en"], settings=settings)
    return read if isinstance(read, datetime) else None
