"""Values as a person reads them: times, sizes, and foreign text with everything hidden in it made
visible."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from markupsafe import Markup

from faultline.analysis.analyzers import finding_kind

MAX_TEXT = 20_000
"""No single value on a page is longer, in characters."""
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]+"
)
"""Control characters, direction marks, invisible characters, lone surrogates and tag characters."""

_AMOUNT = re.compile(r"(?<=\d) (?=(?:%|ns|µs|ms|s|min|h|d|days|bytes|kB|MB|GB|TB|cores|UTC)(?!\w))")
"""The space between a number and its unit."""


def visible(value: Any) -> Any:
    """The last step before escaping: text that would hide or reorder what is read shows its code
    points instead."""
    if value is None:
        # Markup of our own templates is safe already.
        return ""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    text = (
        value.replace("\r\n", "\n")
        .replace("\r", "\n")
        .replace("\u2028", "\n")
        .replace("\u2029", "\n")
    )
    text = _HIDDEN.sub(_code_points, text)
    return (
        text
        if len(text) <= MAX_TEXT
        else f"{text[:MAX_TEXT]}… ({len(text) - MAX_TEXT} characters left out)"
    )


def _code_points(match: re.Match[str]) -> str:
    run = match.group()
    more = f" and {len(run) - 1} more" if len(run) > 1 else ""
    return f"[U+{ord(run[0]):04X}{more}]"


def safe_href(url: str | None) -> str | None:
    """The address if it is http(s) with a host and holds nothing hidden; otherwise None, and no
    link is made."""
    # Browsers drop line ends and take a backslash for a slash, so the host would be another.
    if not url or len(url) > 4096 or re.search(r"[\s\\]", url) or _HIDDEN.search(url):
        return None
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and host else None


def clock(moment: datetime) -> str:
    """Time of day in UTC, to the second."""
    return f"{moment.astimezone(UTC):%H:%M:%S}"


def day(moment: datetime) -> str:
    """The day in UTC, in words."""
    return f"{moment.astimezone(UTC):%a %-d %b %Y}"


def stamp(moment: datetime) -> str:
    """Day and time in UTC."""
    return f"{moment.astimezone(UTC):%-d %b %Y, %H:%M:%S} UTC"


def duration(seconds: float) -> str:
    """A length of time in its two largest units: `38 s`, `4 min 12 s`, `2 h 5 min`, `3 d 4 h`."""
    seconds = abs(seconds)
    if seconds < 10 and seconds != int(seconds):
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, name, below, below_name in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // below
            return f"{whole // size} {name}" + (f" {rest} {below_name}" if rest else "")
    return f"{whole} s"


def age(moment: datetime, now: datetime) -> str:
    """How long ago, in one unit: `9 min`, `3 h`, `12 d`."""
    seconds = max(0.0, (now - moment).total_seconds())
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {name}"
    return "under 1 min"


def day_and_minute(moment: datetime) -> str:
    """Day and time in UTC, as short as they can be said."""
    return f"{moment.astimezone(UTC):%-d %b, %H:%M} UTC"


def us(microseconds: float) -> str:
    """A short length of time, given in microseconds: `850 µs`, `12.3 ms`, `4.1 s`."""
    if microseconds < 1000:
        return f"{microseconds:.0f} µs"
    if microseconds < 1e6:
        return f"{microseconds / 1000:.3g} ms"
    return f"{microseconds / 1e6:.3g} s" if microseconds < 6e7 else duration(microseconds / 1e6)


def offset(moment: datetime, origin: datetime) -> str:
    """The signed distance from `origin`: `-4 min 12 s` with a true minus, `+38 s`, `0 s`."""
    seconds = (moment - origin).total_seconds()
    if abs(seconds) < 1:
        return "0 s"
    return ("+" if seconds > 0 else "−") + duration(round(seconds))


def from_alert(moment: datetime, alert_at: datetime) -> str:
    """The distance from the alert in words."""
    seconds = (moment - alert_at).total_seconds()
    if abs(seconds) < 1:
        return "with the alert"
    return f"{duration(round(seconds))} {'after' if seconds > 0 else 'before'} the alert"


def size(count: int | None) -> str:
    """A number of bytes."""
    value = float(count or 0)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} GB"


def percent(fraction: float) -> str:
    """A fraction in [0, 1] as whole percent."""
    return f"{round(100 * fraction)} %"


def join_units(text: str) -> str:
    """The text with each number and its unit on one line."""
    return _AMOUNT.sub("\u00a0", text)


def with_code(text: str) -> str:
    """The text with what stands between backticks in a font of one width."""
    pieces = join_units(visible(text)).split("`")
    if len(pieces) % 2 == 0:  # not in pairs
        return "`".join(pieces)
    shown = Markup("")
    for n, piece in enumerate(pieces):
        shown += Markup("<code>{}</code>").format(piece) if n % 2 else piece
    return shown


def words(name: str) -> str:
    """An identifier as words: `metric_shift` is `metric shift`."""
    return name.replace("_", " ").strip()


def kind_words(kind: str) -> str:
    """The kind of a finding as words."""
    return finding_kind(kind).label or words(kind)
