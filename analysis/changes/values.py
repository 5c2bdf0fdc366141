"""Numbers that a change replaces: `timeout: 5s` by `timeout: 300ms`, `replicas 6 -> 2`, with their
units."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MAX_PAIRED_LINES = 100
"""Lines of each side that are compared with each other; what comes after is left out."""
ALIKE = 0.5
"""Share of words two lines must have in common to be before and after of one value."""

_UNITS = {
    "ns": 1e-9, "nanosecond": 1e-9, "us": 1e-6, "microsecond": 1e-6, "ms": 1e-3,
    "millisecond": 1e-3, "millis": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "m": 60.0, "min": 60.0, "minute": 60.0, "h": 3600.0,
    "hour": 3600.0,
    "d": 86400.0, "day": 86400.0,
    "k": 1e3, "kb": 1e3, "ki": 1024.0, "kib": 1024.0, "mb": 1e6, "mi": 1024.0**2, "mib": 1024.0**2,
    "gb": 1e9, "gi": 1024.0**3, "gib": 1024.0**3, "g": 1e9, "%": 0.01,
}  # fmt: skip
_VALUE = re.compile(
    r"(?<![\w.])(\d{1,15}(?:\.\d{1,9})?)\s?(?:\*\s?[a-z. ]{0,14}?)?"
    r"(nanosecond|microsecond|millisecond|millis|second|minute|hour|day|kib|mib|gib|ki|mi|gi|kb|mb"
    r"|gb|ns|us|ms|sec|min"
    r"|s|m|h|d|k|g|%)?s?(?![\w.])"
)
_STEP = re.compile(
    r"(?<![\w.-])(\d{1,12}(?:\.\d{1,6})?\s?[a-z%]{0,3})\s?(?:->|→|=>|\bto\b)\s?(\d{1,12}(?:\.\d{1,"
    r"6})?\s?[a-z%]{0,3})(?![\w.])"
)
_BACK = re.compile(r"\bto (\d{1,12}) from (\d{1,12})\b")
"""As Kubernetes tells it: Scaled down replica set web-5d to 2 from 6."""
_WORDS = re.compile(r"[a-z]+")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


@dataclass(frozen=True)
class ValueChange:
    """A value before and after, in base units (seconds, bytes, shares), and the words beside it."""

    words: str
    before: float
    after: float
    lines: int = 1
    """Changed lines it accounts for on each side; 0 where only the title tells it."""

    @property
    def factor(self) -> float:
        """How many times larger the larger one is."""
        low, high = sorted((abs(self.before), abs(self.after)))
        # From zero every change is infinitely large.
        return high / low if low > 0 else float("inf")


def value_changes(
    title: str, removed: Sequence[str], added: Sequence[str]
) -> tuple[ValueChange, ...]:
    """Values that differ between a removed line and the added line most like it, and steps that the
    title tells."""
    return (*_title_changes(title), *_paired(removed[:MAX_PAIRED_LINES], added[:MAX_PAIRED_LINES]))


def _title_changes(title: str) -> Iterator[ValueChange]:
    text = _worded(title[:400])
    # `to 2 from 6` names the new value first.
    for before, after in [*_STEP.findall(text), *((a, b) for b, a in _BACK.findall(text))]:
        value, other = _first_value(before), _first_value(after)
        if value is not None and other is not None and value != other:
            yield ValueChange(text, value, other, lines=0)


def _paired(removed: Sequence[str], added: Sequence[str]) -> Iterator[ValueChange]:
    befores = [
        (line, _key(line), value)
        for line in removed
        if (value := _first_value(_worded(line))) is not None
    ]
    afters = [
        (line, _key(line), value)
        for line in added
        if (value := _first_value(_worded(line))) is not None
    ]
    taken: set[int] = set()
    for line, words, before in befores:
        # Negate the number: of equal likeness, max() then takes the earlier line.
        likeness = [
            ((len(words & other) / max(1, min(len(words), len(other)))), -n)
            for n, (_, other, _) in enumerate(afters)
            if n not in taken
        ]
        top_likeness, n = max(likeness, default=(0.0, 0))
        if top_likeness < ALIKE:
            continue
        taken.add(-n)
        after = afters[-n][2]
        if after != before:
            yield ValueChange(_worded(line), before, after)


def _first_value(line: str) -> float | None:
    match = _VALUE.search(line)
    return float(match.group(1)) * _UNITS.get(match.group(2) or "", 1.0) if match else None


def _key(line: str) -> frozenset[str]:
    return frozenset(w for w in _WORDS.findall(_worded(line)) if w not in _UNITS)


def _worded(line: str) -> str:
    return _CAMEL.sub(" ", line).replace("_", " ").lower()
