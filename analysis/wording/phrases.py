"""How values and foreign text are put into a sentence: a few digits, one line, no markup."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

DIGITS = 4
INVISIBLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f"
    r"\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]+"
)
"""Control, direction, filling and tag characters: none of them is visible, and each can hide
something."""


def rounded(value: float, digits: int = DIGITS) -> float:
    """The value as it is quoted: `digits` significant digits. Not finite becomes 0."""
    if not math.isfinite(value) or value == 0:
        return 0.0
    shown = float(f"{value:.{digits}g}")
    return shown if math.isfinite(shown) else value


def number(value: float, digits: int = DIGITS) -> str:
    """The rounded value without an exponent where a person would not write one."""
    shown = rounded(value, digits)
    if not 1e-9 <= abs(shown) < 1e15:
        # Rounding a value near the largest float would print infinity.
        if shown and abs(shown) < 1e308:
            return f"{shown:.{digits}g}"
        return repr(shown).removesuffix(".0")
    if shown == int(shown):
        return str(int(shown))
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(shown))))
    return f"{shown:.{decimals}f}".rstrip("0").rstrip(".")


def plain(text: str, limit: int = 80) -> str:
    """Foreign text on one line: control and direction characters gone, cut to `limit`
    characters."""
    line = " ".join(INVISIBLE.sub(" ", text).split())
    if len(line) <= limit:
        return line
    return line[: limit - 1].rstrip() + "…"


def plain_ends(text: str, limit: int) -> str:
    """The same cut in the middle: an error that wraps others names the object first and the reason
    last."""
    line = plain(text, len(text))
    if len(line) <= limit:
        return line
    last = limit // 2
    return f"{line[: limit - last - 3].rstrip()} … {line[-last:].lstrip()}"


def capitalised(text: str) -> str:
    """A sentence's first word with a capital letter; a name from code, `torch._dynamo.reset`, stays
    as it is."""
    words = text.split(maxsplit=1)
    if not words or not words[0].rstrip(",:;.'").isalpha():
        return text
    return text[:1].upper() + text[1:]


def listed(words: Sequence[str]) -> str:
    """`metrics`, `metrics and logs`, `metrics, logs and spans`."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def counted(n: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
