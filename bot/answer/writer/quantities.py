"""The numbers, durations, times of day and dates a sentence quotes, with the precision they are
quoted to.

A quantity is kept in base units (seconds, ratios, bytes) beside the raw value as written, because a
finding's numbers carry no unit of their own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Literal

Dimension = Literal["plain", "time", "ratio", "bytes"]

_TIME = {
    1e-9: "ns|nanoseconds?",
    1e-6: "us|μs|µs|microseconds?",
    1e-3: "ms|msecs?|milliseconds?",
    1.0: "s|secs?|seconds?",
    60.0: "m|mins?|minutes?",
    3600.0: "h|hrs?|hours?",
    86400.0: "d|days?",
}
_RATIO = {0.01: "%|percent|per cent|pct|percentage points?|pp", 1.0: "x|×|fold|times"}
_BYTES = {
    1.0: "B|bytes?",
    1e3: "kB|KB|kilobytes?",
    1e6: "MB|megabytes?",
    1e9: "GB|gigabytes?",
    1e12: "TB|terabytes?",
    2.0**10: "KiB|Ki",
    2.0**20: "MiB|Mi",
    2.0**30: "GiB|Gi",
    2.0**40: "TiB|Ti",
}
_SCALE = {1e3: "k|K|thousand", 1e6: "M|million|mln", 1e9: "bn|billion"}

_UNITS: dict[str, tuple[Dimension, float]] = {}
for _dimension, _table in (
    ("time", _TIME),
    ("ratio", _RATIO),
    ("bytes", _BYTES),
    ("plain", _SCALE),
):
    for _factor, _spellings in _table.items():
        for _spelling in _spellings.split("|"):
            for _form in (
                (_spelling[:-2], _spelling[:-2] + "s") if _spelling.endswith("s?") else (_spelling,)
            ):
                _UNITS[_form] = (_dimension, _factor)  # type: ignore[assignment]

_SPELLED = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
    "ten": 10, "eleven": 11,
    "twelve": 12, "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17,
    "eighteen": 18,
    "nineteen": 19, "twenty": 20,
}  # fmt: skip
_SPELLED |= {
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
_SPELLED |= {"dozen": 12, "hundred": 100, "hundreds": 100, "thousands": 1000, "millions": 1_000_000}
_FACTORS = {
    "twice": 2.0, "thrice": 3.0, "double": 2.0, "doubled": 2.0, "doubles": 2.0, "doubling": 2.0,
    "triple": 3.0,
    "tripled": 3.0, "triples": 3.0, "tripling": 3.0, "quadruple": 4.0, "quadrupled": 4.0,
    "quintupled": 5.0,
    "sextupled": 6.0, "halved": 0.5, "halving": 0.5, "half": 0.5, "hundredfold": 100.0,
    "thousandfold": 1000.0,
}  # fmt: skip
_FACTORS |= {f"{word}fold": float(value) for word, value in _SPELLED.items()}
_PARTS = {
    "third": 3,
    "thirds": 3,
    "quarter": 4,
    "quarters": 4,
    "fifth": 5,
    "fifths": 5,
    "tenth": 10,
    "tenths": 10,
}
FACTOR_TOLERANCE = 0.1
""""Doubled" is honest for a ratio within a tenth of two."""

FRACTION_TOLERANCE = 0.03
""""Two thirds" is honest for 67 %."""

UNIT_PATTERN = "|".join(re.escape(u) for u in sorted(_UNITS, key=len, reverse=True))
_NUMBER = re.compile(
    r"(?P<about>(?:~|≈|\b(?:about|around|roughly|approximately|some|circa)\s))?\s?"
    r"(?P<digits>\d{1,3}(?:[,\u2009\u202f]\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)"
    r"(?P<exponent>e[+\-]?\d{1,2}(?![A-Za-z0-9_]))?"
    rf"(?:[\s\-]?(?P<unit>{UNIT_PATTERN})(?![A-Za-z_%]))?",
)
_WORD = re.compile(r"[A-Za-z]+")
_BEFORE = re.compile(r"([A-Za-z]+)[\s\-#:]{0,2}$")
_AFTER = re.compile(r"(?:st|nd|rd|th)?[\s\-]([A-Za-z]+(?:\s[A-Za-z]+)?)")
_ISO = re.compile(
    r"(?<!\d)(?P<date>\d{4}-\d\d-\d\d)(?:[T ]?(?:at "
    r")?(?P<clock>\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)"
    r"\s?(?P<zone>Z|UTC|GMT|[+\-]\d\d:?\d\d)?)?(?!\d)"
)
_ZONES = "CES?T|[ECMP][SD]T|BST|IST|JST|KST|MSK|EES?T|WES?T|AES?T|AEDT|AWST|HKT|SGT|UTC|GMT|Z"
_CLOCK = re.compile(
    r"(?<![\d:.])(?P<clock>\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?)\s?(?P<half>[ap]\.?m\b\.?)?"
    rf"\s?(?P<zone>[+\-]\d\d:?\d\d|(?-i:(?:{_ZONES})\b))?(?![\d:])",
    re.IGNORECASE,
)
_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH = "|".join(f"{m[:3]}(?:{m[3:]})?" if len(m) > 3 else m for m in _MONTHS)
_DAY = re.compile(
    rf"\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\s(?P<m1>{_MONTH})|(?P<m2>{_MONTH})\s(?P<d2>\d{{1,"
    rf"2}})(?:st|nd|rd|th)?)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Quantity:
    """`value` in base units, `raw` as written, both unsigned; `tolerance` is half a unit of the
    last digit quoted."""

    text: str
    value: float
    raw: float
    dimension: Dimension
    tolerance: float
    raw_tolerance: float
    spelled: bool = False
    before: str = ""
    after: str = ""
    """The words around it, in lower case."""


@dataclass(frozen=True)
class Moment:
    """A time of day, a date or both, as quoted (UTC). `step` is the precision of the clock in
    seconds."""

    text: str
    day: date | None = None
    month_day: tuple[int, int] | None = None
    seconds: float | None = None
    step: float = 60.0
    readable: bool = True

    def matches(self, instant: datetime) -> bool:
        """Whether the instant, cut or rounded to the precision quoted, is this moment."""
        instant = instant.astimezone(UTC)
        if not self.readable or (
            self.month_day is not None and self.month_day != (instant.month, instant.day)
        ):
            return False
        if self.seconds is None:
            return self.day is None or self.day == instant.date()
        midnight = datetime(instant.year, instant.month, instant.day, tzinfo=UTC)
        offset = (instant - midnight).total_seconds() - self.seconds
        if self.day is None:
            offset = (offset + 43200) % 86400 - 43200
        else:
            offset += (instant.date() - self.day).days * 86400
        return -self.step / 2 - 1e-6 <= offset < self.step


def canonical(text: str) -> str:
    """The text with look-alike digits, fractions and dashes written plainly."""
    folded = unicodedata.normalize("NFKC", text)
    return (
        re.sub(r"[\u2010-\u2015\u2212]", "-", folded).replace("\u2044", "/").replace("\u00a0", " ")
    )


def moments(text: str) -> tuple[list[Moment], str]:
    """The dates and times of day in the text, and the text without them."""
    found: list[Moment] = []

    def take(read: re.Match[str]) -> str:
        found.append(_read_moment(read))
        return " " * len(read.group())

    for pattern in (_ISO, _CLOCK, _DAY):
        text = pattern.sub(take, text)
    return found, text


def quantities(text: str) -> list[Quantity]:
    """The numbers in a text from which dates and times have been taken, spelled ones included, in
    order."""
    found = [_read_number(m, text) for m in _NUMBER.finditer(text)]
    ranged = [
        _with_unit_of_range(q, n, text) for q, n in zip(found, [*found[1:], None], strict=False)
    ]
    return [*_joined_durations(ranged, text), *_spelled_quantities(text)]


def unit_of(name: str) -> tuple[Dimension, float] | None:
    """Dimension and factor of a unit's spelling, or of the unit a name ends with (`wait_ms`,
    `share_percent`)."""
    if name in _UNITS:
        return _UNITS[name]
    last = re.split(r"[_\s.]+", name)[-1]
    if last in ("ratio", "factor"):
        return "ratio", 1.0
    return (
        _UNITS.get(last)
        if last != name and last not in ("x", "m", "d", "h", "B", "M", "K", "k", "times")
        else None
    )


def in_unit(value: float, unit: tuple[Dimension, float] | None) -> Quantity:
    """A value known exactly, in its unit."""
    dimension, factor = unit or ("plain", 1.0)
    return Quantity(f"{value:g}", abs(value) * factor, abs(value), dimension, 0.0, 0.0)


def _read_number(match: re.Match[str], text: str) -> Quantity:
    digits = re.sub(r"[,\u2009\u202f]", "", match["digits"])
    exponent = match["exponent"] or ""
    raw = float(digits + exponent)
    step = 10.0 ** (int(exponent[1:] or 0) - len(digits.partition(".")[2]))
    if match["about"] and "." not in digits and raw:
        step = max(step, 10.0 ** (len(digits) - len(digits.rstrip("0"))))
    dimension, factor = _UNITS[match["unit"]] if match["unit"] else ("plain", 1.0)
    half = step / 2
    if dimension == "plain":
        raw, half, factor = raw * factor, half * factor, 1.0
    start, end = match.start("digits"), match.end("unit") if match["unit"] else match.end()
    before = _BEFORE.search(text[max(0, start - 24) : start])
    after = _AFTER.match(text[end : end + 40])
    return Quantity(
        text[start:end],
        raw * factor,
        raw,
        dimension,
        half * factor,
        half,
        before=before[1].lower() if before else "",
        after=after[1].lower() if after else "",
    )


def _with_unit_of_range(quantity: Quantity, following: Quantity | None, text: str) -> Quantity:
    """`10-15 ms`, `from 10 to 15 ms`: the first number has the second's unit."""
    if (
        following is None
        or quantity.dimension != "plain"
        or following.dimension == "plain"
        or not following.raw
    ):
        return quantity
    between = rf"{re.escape(quantity.text)}\s?(?:-|to|and|or|/|->|→)\s?{re.escape(following.text)}"
    if not re.search(between, text):
        return quantity
    factor = following.value / following.raw
    value, tolerance = quantity.raw * factor, quantity.raw_tolerance * factor
    return replace(quantity, value=value, tolerance=tolerance, dimension=following.dimension)


def _joined_durations(found: list[Quantity], text: str) -> list[Quantity]:
    """`4m30s`, `1 h 20 min`: one duration, not two."""
    joined: list[Quantity] = []
    for quantity in found:
        last = joined[-1] if joined else None
        if last and last.dimension == quantity.dimension == "time" and quantity.value < last.value:
            phrase = re.search(
                rf"{re.escape(last.text)}(?:\s?|\sand\s){re.escape(quantity.text)}", text
            )
            if phrase and quantity.value / max(quantity.raw, 1e-12) < last.value / max(
                last.raw, 1e-12
            ):
                value = last.value + quantity.value
                joined[-1] = replace(
                    last, text=phrase.group(), value=value, raw=value, tolerance=quantity.tolerance
                )
                continue
        joined.append(quantity)
    return joined


def _spelled_quantities(text: str) -> Iterable[Quantity]:
    words = list(_WORD.finditer(text))
    lower = [w.group().lower() for w in words]
    skip = 0
    for index, match in enumerate(words):
        if index < skip:
            continue
        word = lower[index]
        before = lower[index - 1] if index else ""
        after = " ".join(lower[index + 1 : index + 3])
        following = words[index + 1].group() if index + 1 < len(words) else ""
        share = _share(lower, index)
        if share is not None:
            value, skip = share
            slack = FRACTION_TOLERANCE * value
            yield Quantity(
                text[match.start() : words[skip - 1].end()],
                value,
                value,
                "ratio",
                slack,
                slack,
                True,
                before,
                after,
            )
        elif word in _FACTORS and text[match.end() : match.end() + 1] != "-":
            value = _FACTORS[word]
            slack = FACTOR_TOLERANCE * value
            yield Quantity(match.group(), value, value, "ratio", slack, slack, True, before, after)
        elif word in _SPELLED:
            number = float(_SPELLED[word])
            unit = _UNITS.get(following) if len(following) > 1 else None
            dimension, factor = unit or ("plain", 1.0)
            yield Quantity(
                match.group(),
                number * factor,
                number,
                dimension,
                0.5 * factor,
                0.5,
                True,
                before,
                after,
            )
        elif word in ("a", "an", "one") and (unit := _unit_after(text, match, following)):
            yield Quantity(
                f"{word} {following}", unit[1], 1.0, "time", 0.5 * unit[1], 0.5, True, before, after
            )


def _unit_after(
    text: str, article: re.Match[str], following: str
) -> tuple[Dimension, float] | None:
    """The unit in `an hour`; none in `a 4-minute gap`."""
    unit = _UNITS.get(following)
    adjacent = text[article.end() : article.end() + 1 + len(following)] == f" {following}"
    return unit if unit and unit[0] == "time" and len(following) > 3 and adjacent else None


def _share(words: list[str], index: int) -> tuple[float, int] | None:
    """A spelled fraction that begins here, and where the text goes on: `two thirds`, `a quarter`,
    `nine out of ten`."""
    word, following = words[index], words[index + 1 : index + 4]
    count = 1 if word in ("a", "an", "one") else _SPELLED.get(word, 0)
    if not count or not following:
        return None
    if following[0] in _PARTS and (count > 1 or following[0] != "third" or "of" in following):
        return count / _PARTS[following[0]], index + 2
    if following[:2] == ["out", "of"] and len(following) > 2:
        return (count / _SPELLED[following[2]], index + 4) if following[2] in _SPELLED else None
    if following[0] == "in" and len(following) > 1 and following[1] in _SPELLED:
        return count / _SPELLED[following[1]], index + 3
    return None


def _read_moment(match: re.Match[str]) -> Moment:
    parts = match.groupdict()
    text = match.group().strip()
    try:
        if parts.get("m1") or parts.get("m2"):
            name = (parts.get("m1") or parts.get("m2") or "").lower()[:3]
            month = next(n for n, m in enumerate(_MONTHS, start=1) if m[:3] == name)
            return Moment(text, month_day=(month, int(parts.get("d1") or parts.get("d2") or 0)))
        day = date.fromisoformat(parts["date"]) if parts.get("date") else None
        if not parts.get("clock"):
            return Moment(text, day=day)
        return _read_clock(text, day, parts["clock"], parts.get("half"), parts.get("zone"))
    except (ValueError, StopIteration):
        return Moment(text, readable=False)


def _read_clock(
    text: str, day: date | None, clock: str, half: str | None, zone: str | None
) -> Moment:
    hours, minutes, *rest = clock.replace(",", ".").split(":")
    seconds = float(rest[0]) if rest else 0.0
    hour = int(hours)
    if half:
        hour = hour % 12 + (12 if half.lower().startswith("p") else 0)
    if hour > 24 or int(minutes) > 59 or seconds >= 61:
        raise ValueError(text)
    step = 60.0 if not rest else 10.0 ** -len(rest[0].partition(".")[2])
    start = (
        datetime(2000, 1, 1, tzinfo=_zone(zone))
        if day is None
        else datetime(*_ymd(day), tzinfo=_zone(zone))
    )
    instant = (start + timedelta(hours=hour, minutes=int(minutes), seconds=seconds)).astimezone(UTC)
    of_day = instant.hour * 3600 + instant.minute * 60 + instant.second + instant.microsecond / 1e6
    return Moment(text, day=instant.date() if day else None, seconds=of_day, step=step)


def _ymd(day: date) -> tuple[int, int, int]:
    return day.year, day.month, day.day


def _zone(name: str | None) -> timezone:
    """The offset a time is quoted with; without one, UTC. Raises ValueError for zone names that are
    not UTC."""
    if name is None or name.upper() in ("Z", "UTC", "GMT"):
        return UTC
    match = re.fullmatch(r"([+\-])(\d\d):?(\d\d)", name)
    if not match:
        raise ValueError(name)
    offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
    return timezone(offset if match[1] == "+" else -offset)
