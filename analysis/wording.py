"""How values and foreign text are put into a sentence: a few digits, one line, no markup."""

from __future__ import annotations

import math
import re

DIGITS = 4
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]+")


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
        return f"{shown:.{digits}g}" if shown and abs(shown) < 1e308 else repr(shown).removesuffix(".0")
    if shown == int(shown):
        return str(int(shown))
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(shown))))
    return f"{shown:.{decimals}f}".rstrip("0").rstrip(".")


def plain(text: str, limit: int = 80) -> str:
    """Foreign text on one line: control and direction characters gone, cut to `limit` characters."""
    line = " ".join(_CONTROL.sub(" ", text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def capitalised(text: str) -> str:
    """A sentence's first word with a capital letter; a name from code, `torch._dynamo.reset`, stays as it is."""
    first = text.split(maxsplit=1)[:1]
    return text[:1].upper() + text[1:] if first and first[0].rstrip(",:;.'").isalpha() else text


def counted(n: int, noun: str) -> str:
    """`1 line`, `2 lines`."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"
