"""The words of a question: normalised, their synonyms made one, and small typing errors
forgiven."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

MAX_TEXT = 2_000
MAX_WORDS = 200
SHORT, LONG = 4, 8
"""Words of fewer letters are never taken for a misspelt other one; from so many on two wrong
letters are forgiven."""
_WORD = re.compile(r"[a-z0-9_]+(?:[-./:][a-z0-9_]+)*")
_SHORTENED = (
    ("won't", "will not"),
    ("can't", "can not"),
    ("cannot", "can not"),
    ("n't", " not"),
    ("what's", "what is"),
    ("whats", "what is"),
    ("where's", "where is"),
    ("who's", "who is"),
    ("how's", "how is"),
    ("it's", "it is"),
    ("that's", "that is"),
    ("there's", "there is"),
    ("let's", "let us"),
    ("'re", " are"),
    ("'ve", " have"),
    ("'s", ""),
)


def words(text: str) -> list[str]:
    """The words in their order, without case, accents and punctuation; names such as `checkout-api`
    stay whole."""
    folded = unicodedata.normalize("NFKD", text[:MAX_TEXT].replace("\u2019", "'").casefold())
    plain = "".join(c for c in folded if not unicodedata.combining(c))
    for short, full in _SHORTENED:
        plain = plain.replace(short, full)
    return _WORD.findall(plain)[:MAX_WORDS]


def listed(text: str) -> frozenset[str]:
    """The words of a table written as text."""
    return frozenset(text.split())


def canonical(given: Sequence[str], synonyms: Mapping[str, str]) -> list[str]:
    """Each word as the one that stands for it; a misspelt one as the word it is near to; others as
    they are."""
    return [synonyms.get(word) or _guessed(word, synonyms) or word for word in given]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that this one is, but for a typing error; None when there is none, or two as
    near."""
    found: list[tuple[int, str]] = []
    for other in known:
        if not _comparable(word, other):
            continue
        errors = typing_errors(word, other)
        if errors <= _forgiven(other):
            found.append((errors, other))
    if not found:
        return None
    found.sort()
    fewest, best = found[0]
    if len(found) > 1 and found[1][0] == fewest:
        return None
    return best


@lru_cache(maxsize=4096)
def typing_errors(one: str, other: str) -> int:
    """Letters added, left out, wrong or swapped with their neighbour (optimal string alignment
    distance)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, start=1):
        new = [i]
        for j, b in enumerate(other, start=1):
            cost = min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (a != b))
            if before and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            new.append(cost)
        before, row = row, new
    return row[-1]


def _guessed(word: str, synonyms: Mapping[str, str]) -> str | None:
    """A word of at least six letters, one error away from exactly one meaning, that begins with the
    same letter."""
    if len(word) < 6 or len(word) > 20 or not word.isalpha():
        return None
    near: set[str] = set()
    for known, meaning in synonyms.items():
        # These are cheap, and most words end here.
        if known[0] != word[0] or len(known) < 6 or abs(len(known) - len(word)) > 1:
            continue
        if typing_errors(word, known) == 1:
            near.add(meaning)
    return near.pop() if len(near) == 1 else None


def _comparable(word: str, other: str) -> bool:
    return len(word) <= 40 and abs(len(word) - len(other)) <= _forgiven(other)


def _forgiven(word: str) -> int:
    if len(word) < SHORT:
        return 0
    return 1 if len(word) < LONG else 2
