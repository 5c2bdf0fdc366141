"""Names and values of a finding's details as people say them: "duration" and "120 ms" of
`duration_ns` and 119929757."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from faultline.analysis.wording.amounts import NUMBER, PERCENT, SHARE, Unit, amount, times, unit_of
from faultline.bot.web.text import words

_UNIT_NAME = re.compile(
    r"(?:^|[ _])(ns|us|ms|s|sec|seconds|milliseconds|min|bytes|ratio|pct|per[ _]sec(?:ond)?)"
    r"(?=[ _]|$)"
)
_SHARE_NAME = re.compile(r"(?:^|[ _])(percent|share)(?=[ _]|$)")
_IDENTITY = re.compile(r"(?:^|[ _])(?:id|ids|pid|tid|port|code|line|index|seed|version)$")
_MOMENT = re.compile(r"^(?:start|begin|end|time|at|ts)(?:[ _]|$)|[ _](?:at|time)$")
MULTIPLES = ("ratio", "times")
"""Numbers of findings that say how many times as much there is of something."""
FIRST_MOMENT_S, LAST_MOMENT_S = 946_684_800, 4_102_444_800
"""From 2000 to 2100 a number of seconds since 1970 is a moment, and not a length of time."""


@dataclass(frozen=True)
class DetailQuantity:
    """What values under one name are. `compares`: whether bars help to compare them."""

    label: str
    unit: Unit
    is_number: bool
    is_moment: bool
    compares: bool

    def as_identity(self) -> DetailQuantity:
        """The same where the values only name something."""
        return replace(self, is_number=False, compares=False, unit=NUMBER)


def quantity_of(name: str, values: Sequence[object]) -> DetailQuantity:
    """What the values of this name are, by its ending and by their size."""
    numbers = [float(v) for v in values if isinstance(v, (int, float)) and is_number(v)]
    unit = _unit(name, numbers)
    moment = unit.kind == "time" and _are_moments(name, numbers, unit)
    measured = unit is not NUMBER or any(isinstance(v, float) for v in values)
    compares = measured and not moment and _IDENTITY.search(name) is None
    label = words(_UNIT_NAME.sub("", name)) if unit is not NUMBER else words(name)
    return DetailQuantity(
        label or words(name), unit, bool(numbers), moment, compares and bool(numbers)
    )


def value_text(value: object, quantity: DetailQuantity) -> str:
    """One plain value."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, (int, float)):
        return str(value)
    if not is_number(value):
        return "unknown"
    if quantity.label in MULTIPLES:
        return times(value)
    if quantity.is_moment:
        moment = datetime.fromtimestamp(value * quantity.unit.factor, UTC)
        return f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
    if not quantity.is_number or _IDENTITY.search(quantity.label):
        # An id in groups of three digits is another id.
        return str(value)
    return amount(value, quantity.unit)


def is_number(value: object) -> bool:
    """Whether it is a finite number."""
    # True and False are ints.
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) < math.inf


def _unit(name: str, numbers: Sequence[float]) -> Unit:
    ending = _UNIT_NAME.search(name)
    unit = unit_of(re.sub(r"\W", "_", name), ending[1] if ending else None, numbers)
    share = _SHARE_NAME.search(name)
    if share is None or unit is not NUMBER:
        return unit
    return PERCENT if share[1] == "percent" else SHARE


def _are_moments(name: str, numbers: Sequence[float], unit: Unit) -> bool:
    if not numbers or _MOMENT.search(name) is None:
        return False
    seconds = [number * unit.factor for number in numbers]
    return min(seconds) > FIRST_MOMENT_S and max(seconds) < LAST_MOMENT_S
