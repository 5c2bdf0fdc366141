"""What people write into titles and descriptions: a quantile, a threshold, a window."""

from __future__ import annotations

import re

from faultline.analysis.kinds.watched_signals import Comparison

_QUANTILE = re.compile(
    r"(?i)\bp(50|75|90|95|99|99\.9|999)\b"
    r"|\b(50|75|90|95|99|99\.9)(?:th|%)?[ -]?(?:percentile|quantile|pctl)"
)
_ABOVE = r"above|over|exceed(?:s|ed|ing)?|greater than|more than|higher than|at least|>=?|≥"
_BELOW = r"below|under|less than|lower than|fewer than|dropped to|<=?|≤"
_UNIT = (
    r"%|percent|ms|milliseconds?|s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?|[KMGT]i?B|bytes"
    r"|/s|rps|qps"
)
_THRESHOLD = re.compile(
    rf"(?i)(?:(?P<above>{_ABOVE})|(?P<below>{_BELOW}))\s*(?:the threshold of\s*|of\s*)?"
    rf"(?P<number>\d+(?:[.,]\d+)*)\s*(?P<unit>(?:{_UNIT})(?![a-z]))?"
)
_WINDOW = re.compile(
    r"(?i)\b(?:for|in|over|within|during|past|last)\s+(?:the\s+)?"
    r"(?:last\s+|past\s+|at least\s+|more than\s+)?"
    r"(?P<count>\d{1,4})\s*(?P<unit>s|sec(?:ond)?s?|m|min(?:ute)?s?|h|hours?|d|days?)\b"
)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def quantile_in(text: str) -> float | None:
    """The quantile that a text names: 0.99 for "p99" and "99th percentile"."""
    match = _QUANTILE.search(text)
    if match is None:
        return None
    digits = match[1] or match[2]
    return 0.999 if digits == "999" else round(float(digits) / 100, 4)


def threshold_in(text: str) -> tuple[Comparison, float, str | None] | None:
    """Comparison, number and unit of a text such as "p99 above 500 ms"."""
    match = _THRESHOLD.search(text)
    if match is None:
        return None
    comparison: Comparison = ">" if match["above"] else "<"
    unit = match["unit"]
    if unit and unit.lower() == "percent":
        unit = "%"
    # A comma separates thousands.
    return comparison, float(match["number"].replace(",", "")), unit


def without_threshold(text: str) -> str:
    """The text without what it is compared with: "above 500 ms" tells of no status 500."""
    return _THRESHOLD.sub(" ", text)


def window_in(text: str) -> float | None:
    """Seconds of a text such as "for 5 minutes"."""
    match = _WINDOW.search(text)
    if match is None:
        return None
    # The first letter tells the units apart: months are not matched.
    return float(match["count"]) * _SECONDS[match["unit"][0].lower()]
