"""Numbers as people say them: the unit chosen by size, two or three digits, shares in percent.

A metric's unit is what its vendor says, or else what its name ends with; where neither says
anything the bare number stands.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.analysis.kinds.signals import SignalClass, classify, is_headroom
from faultline.analysis.wording.phrases import plain

Kind = Literal["time", "share", "bytes", "rate", "bytes/s", "number"]


@dataclass(frozen=True)
class Unit:
    """What a number counts. `factor` turns it into seconds, a share of 1, bytes, or per second."""

    kind: Kind
    factor: float = 1.0
    noun: str = ""
    """What stands behind a number of no other kind: "cores"."""


NUMBER = Unit("number")
SECONDS = Unit("time")
MILLISECONDS = Unit("time", 1e-3)
SHARE = Unit("share")
PERCENT = Unit("share", 0.01)
PER_SECOND = Unit("rate")
BYTES = Unit("bytes")

_UNITS: Mapping[str, Unit] = {
    "ns": Unit("time", 1e-9),
    "us": Unit("time", 1e-6),
    "µs": Unit("time", 1e-6),
    "microseconds": Unit("time", 1e-6),
    "ms": MILLISECONDS,
    "milliseconds": MILLISECONDS,
    "s": SECONDS,
    "sec": SECONDS,
    "seconds": SECONDS,
    "min": Unit("time", 60.0),
    "minutes": Unit("time", 60.0),
    "h": Unit("time", 3600.0),
    "hours": Unit("time", 3600.0),
    "d": Unit("time", 86400.0),
    "days": Unit("time", 86400.0),
    "ratio": SHARE,
    "fraction": SHARE,
    "%": PERCENT,
    "pct": PERCENT,
    "percent": PERCENT,
    "bytes": BYTES,
    "by": BYTES,
    "kilobytes": Unit("bytes", 1e3),
    "kb": Unit("bytes", 1e3),
    "megabytes": Unit("bytes", 1e6),
    "mb": Unit("bytes", 1e6),
    "gigabytes": Unit("bytes", 1e9),
    "gb": Unit("bytes", 1e9),
    "mib": Unit("bytes", 2.0**20),
    "gib": Unit("bytes", 2.0**30),
    "bytes/s": Unit("bytes/s"),
    "bytes/second": Unit("bytes/s"),
    "1/s": PER_SECOND,
    "/s": PER_SECOND,
    "per s": PER_SECOND,
    "per second": PER_SECOND,
    "count/second": PER_SECOND,
    "req/s": PER_SECOND,
    "rps": PER_SECOND,
    "1/min": Unit("rate", 1 / 60),
    "per min": Unit("rate", 1 / 60),
    "ncores": Unit("number", 1e-9, "cores"),
    "nanocores": Unit("number", 1e-9, "cores"),
    "mcores": Unit("number", 1e-3, "cores"),
    "millicores": Unit("number", 1e-3, "cores"),
    "1": NUMBER,
    "count": NUMBER,
    "none": NUMBER,
}
_ENDINGS: Sequence[tuple[str, Unit]] = (
    ("bytes_per_sec", Unit("bytes/s")),
    ("bytes_per_second", Unit("bytes/s")),
    ("per_sec", PER_SECOND),
    ("per_second", PER_SECOND),
    ("per_min", Unit("rate", 1 / 60)),
    ("per_minute", Unit("rate", 1 / 60)),
    ("_rps", PER_SECOND),
    ("_qps", PER_SECOND),
    ("_ns", Unit("time", 1e-9)),
    ("_us", Unit("time", 1e-6)),
    ("_ms", MILLISECONDS),
    ("_milliseconds", MILLISECONDS),
    ("_seconds", SECONDS),
    ("_sec", SECONDS),
    ("_ratio", SHARE),
    ("_share", SHARE),
    ("_fraction", SHARE),
    ("_proportion", SHARE),
    ("_percent", PERCENT),
    ("_pct", PERCENT),
    ("_bytes", BYTES),
)
_FRACTION = re.compile(
    r"(^|_)(utili[sz]ation|percent_usage_connections)$|(^|_)(process|system)_cpu_usage$"
)
"""Names of shares of 1 that say so in no unit: OpenTelemetry's `utilization` ("the fraction of
usage out of its limit"), Micrometer's CPU use, Datadog's share of PostgreSQL's connections."""
_NEVER_SMALL = frozenset(
    {SignalClass.DISK, SignalClass.MEMORY, SignalClass.AVAILABILITY, SignalClass.HIT_RATIO}
)
HALF_IN_PERCENT = 50.0
"""An availability in percent, and what alerts ask of it, is above this. What never is counts
something, such as tasks that run."""
_STATISTIC = re.compile(r"_(max|min|mean|avg|median|p\d{2,3}|quantile)$")
_TIMES = (
    (1e-9, "ns"),
    (1e-6, "µs"),
    (1e-3, "ms"),
    (1.0, "s"),
    (60.0, "min"),
    (3600.0, "h"),
    (86400.0, "days"),
)
_SIZES = ((1.0, "bytes"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"))
_COUNTS = ((1.0, ""), (1e6, " million"), (1e9, " billion"))
_TWO_OF_IT = frozenset({"min", "h", "days"})
"""Units that begin with two of them: 90 s say more than 1.5 min."""
LARGE_RATIO = 1000.0
"""From here on a multiple tells no more than that the value before was next to nothing."""
NEAR_ALL = 5.0
"""Percent that are missing to 100, below which they are what is of interest."""
MOST_OF_ALL = 99.5
"""Percent from which on nearly all fails."""
MOST_DIGITS = 6
LEAST_PLAIN, MOST_PLAIN = 1e-6, 1e12
"""Outside of these a number is written with its power of ten."""


def unit_of(signal: str, unit: str | None, samples: Sequence[float] = ()) -> Unit:
    """The unit of a metric, by what its vendor says or what its name ends with.

    An availability has no other unit than a share: which one tells the values that were seen.
    """
    vendor_unit = (unit or "").strip()
    table_unit = _UNITS.get(vendor_unit.lower())
    # "none" and "count" say nothing about the unit, so the name decides.
    if table_unit is not None and table_unit is not NUMBER:
        return table_unit
    name = _STATISTIC.sub("", re.sub(r"[.\-]", "_", signal.lower()))
    for ending, by_name in _ENDINGS:
        if name.endswith(ending):
            # Some exporters call a share of 1 a percentage. A CPU may well use less than 1 %.
            is_share = by_name is PERCENT and samples and max(samples) <= 1
            return SHARE if is_share and classify(signal) in _NEVER_SMALL else by_name
    if table_unit is None and vendor_unit:
        return Unit("number", noun=plain(vendor_unit, 12))
    return _share_by_values(signal, name, samples) if samples else NUMBER


def _share_by_values(signal: str, name: str, samples: Sequence[float]) -> Unit:
    """A share of 1 or of 100, where the name says that it is a share; a number otherwise."""
    largest = max(samples)
    if largest <= 1 and _FRACTION.search(name):
        return SHARE
    if classify(signal) is not SignalClass.AVAILABILITY or is_headroom(signal):
        return NUMBER
    if largest <= 1:
        return SHARE
    return PERCENT if min(samples) > 1 and HALF_IN_PERCENT <= largest <= 100 else NUMBER


def amount(value: float, unit: Unit = NUMBER) -> str:
    """One value: "104 ms", "8.7 %", "1.4 GB", "14/s", "1,400"."""
    return _amount_text(value, unit, 2)


def levels(before: float, after: float, unit: Unit = NUMBER) -> tuple[str, str]:
    """Two values that shall be compared: with as many digits as their difference needs."""
    # Use as few digits as show a difference: equal texts would say that nothing moved.
    for digits in range(2, MOST_DIGITS + 1):
        pair = _amount_text(before, unit, digits), _amount_text(after, unit, digits)
        if pair[0] != pair[1]:
            break
    return pair


def failing(percent: float) -> str:
    """A share of requests that fail, in percent. Near 100 no decimals: what still succeeds is of no
    interest then."""
    if percent >= MOST_OF_ALL:
        return "100 %" if percent >= 100 else "over 99 %"
    return f"{_digits(percent, 2)} %"


def times(ratio: float) -> str:
    """A ratio as a multiple: "3.7x", "250x", "over 1,000x"."""
    if ratio > LARGE_RATIO:
        return f"over {LARGE_RATIO:,.0f}x"
    return f"{_digits(ratio, 2)}x"


def _amount_text(value: float, unit: Unit, digits: int) -> str:
    if not math.isfinite(value):
        return "unknown"
    size = value * unit.factor
    match unit.kind:
        case "time":
            return _scaled(size, _TIMES, digits, zero="0 s")
        case "bytes":
            return _scaled(size, _SIZES, digits, zero="0 bytes")
        case "bytes/s":
            return _scaled(size, _SIZES, digits, zero="0 bytes") + "/s"
        case "share":
            # Near 100 it is the distance to it that matters: 99.95 %, not 100 %.
            percent = 100 * size
            missing = 100 - percent
            if 0 < missing < NEAR_ALL:
                return f"{_stripped(f'{percent:.{_decimals(missing, digits)}f}')} %"
            return f"{_digits(percent, digits)} %"
        case "rate":
            return f"{_digits(size, digits)}/s"
        case "number":
            factor, name = 1.0, ""
            for step, its_name in _COUNTS:
                if abs(size) >= step:
                    factor, name = step, its_name
            counted = f"{_digits(size / factor, digits)}{name}"
            return f"{counted} {unit.noun}" if unit.noun else counted


def _scaled(size: float, steps: Sequence[tuple[float, str]], digits: int, *, zero: str) -> str:
    if size == 0:
        return zero
    factor, name = steps[0]
    for step, its_name in steps:
        least = 2 * step if its_name in _TWO_OF_IT else step
        # What rounds up to a whole one is said as one: 1 s, not 1000 ms.
        if abs(size) >= least * (1 - 0.5 * 10.0**-digits):
            factor, name = step, its_name
    return f"{_digits(size / factor, digits)} {name}"


def _digits(value: float, digits: int) -> str:
    """That many significant digits, but all of those before the point; no trailing zeros."""
    if value == 0:
        return "0"
    if not LEAST_PLAIN <= abs(value) < MOST_PLAIN:
        return f"{value:.{digits}g}"
    return _stripped(f"{value:,.{_decimals(value, digits)}f}")


def _stripped(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _decimals(value: float, digits: int) -> int:
    # Rounding may leave the logarithm of a power of ten just below a whole number.
    return max(0, digits - 1 - math.floor(math.log10(abs(value)) + 1e-12))
