"""The words of a text, the same for both databases: what is searched, and what a search asks for.

A word is a run of letters and digits without case and accents; a Chinese or Japanese character is a word by itself, as
those scripts put no blanks between words. Words hold nothing that a query language could read as its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

MAX_TEXT = 8_000
"""Characters of one text that are read."""
MAX_WORD = 64
MAX_WORDS = 600
"""Words that are kept of one investigation."""
MAX_ASKED = 16
"""Words of one search."""
MAX_ASKED_TEXT = 1_000

_RUN = re.compile(r"[^\W_]+")
_ALONE = re.compile(
    "([\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)


def words_of(*texts: str, limit: int = MAX_WORDS) -> tuple[str, ...]:
    """The distinct words of the texts, in their order."""
    found: dict[str, None] = {}
    for text in texts:
        for word in _words(text[:MAX_TEXT]):
            found[word] = None
            if len(found) >= limit:
                return tuple(found)
    return tuple(found)


def asked_words(text: str) -> tuple[str, ...]:
    """The words of a search."""
    return words_of(text[:MAX_ASKED_TEXT], limit=MAX_ASKED)


def _words(text: str) -> Iterable[str]:
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return (run[:MAX_WORD] for run in _RUN.findall(_ALONE.sub(r" \1 ", plain.casefold())))
