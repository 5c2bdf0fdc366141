"""A sentence of the diagnosis as an answer may show it, and names in texts."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from faultline.analysis.secrets.redaction import masked
from faultline.bot.answer.writer.plain_text import neutral

_DASH = re.compile(r"[\u2010-\u2015\u2212]")
_INVISIBLE = re.compile(
    r"[\u0300-\u036f\u00ad\u034f\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\U000e0000-\U000e0fff]"
)


# A report asks for the same sentences again and again, each time against every secret.
@lru_cache(maxsize=2048)
def quotable(text: str) -> str:
    """The text without secrets, and without anything that renders."""
    return neutral(masked(text))


def named_in(name: str, text: str) -> bool:
    """Whether the name stands in the text as a whole word; both folded."""
    return position_of(name, text) >= 0


def position_of(name: str, text: str) -> int:
    """Where the name first stands in the text as a whole word; -1 where it does not."""
    match = re.search(rf"(?<![a-z0-9]){re.escape(name)}(?![a-z0-9])", text)
    return match.start() if match else -1


def folded(text: str) -> str:
    """Text for comparison: look-alikes and accented letters plain, nothing invisible, lower
    case."""
    canonical = _DASH.sub("-", unicodedata.normalize("NFKC", text))
    letters = unicodedata.normalize("NFD", canonical)
    return _INVISIBLE.sub("", letters).lower()
