"""When something began, as people write it in one word."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

from faultline.analysis.errors import SettingsError

_LENGTH = re.compile(r"(?P<count>\d{1,4})(?P<unit>[mhd])", re.ASCII)
NOW = "now"
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def since_of(
    text: str, now: datetime, zone: tzinfo | None = None, name: str = "--since"
) -> datetime:
    """`now`, `30m`, `2h`, `1d`, a time of day in the zone (unset: this machine's), or an ISO time.
    Raises SettingsError about `name`."""
    word = text.strip()
    if word == NOW:
        return now
    length = _LENGTH.fullmatch(word)
    if length is not None:
        return now - timedelta(**{_UNITS[length["unit"]]: int(length["count"])})
    here = now.astimezone(zone)
    try:
        if _TIME_OF_DAY.fullmatch(word):
            hour, minute = map(int, word.split(":"))
            at = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return at if at <= here else at - timedelta(days=1)
        at = datetime.fromisoformat(word)
        at = at if at.tzinfo is not None else at.replace(tzinfo=here.tzinfo)
        return at.astimezone(here.tzinfo)
    except (ValueError, OverflowError):
        raise SettingsError(name, "is neither 30m, 14:19 nor 2026-01-31T14:19Z") from None


def length_of(text: str, name: str) -> timedelta:
    """`15m`, `2h` or `1d`. Raises SettingsError about `name`."""
    length = _LENGTH.fullmatch(text.strip())
    if length is None:
        raise SettingsError(name, "is not a length of time, such as 15m or 2h")
    return timedelta(**{_UNITS[length["unit"]]: int(length["count"])})
