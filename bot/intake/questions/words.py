"""The words of a question: without case, accents and punctuation; and what a misspelt one means."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from rapidfuzz.distance import OSA

MAX_TEXT = 2_000
MAX_WORDS = 200
SHORT, LONG = 4, 8
"""Words with fewer than SHORT letters are never taken for a misspelt other word. From LONG letters
on, two wrong ones are forgiven."""
LONGEST = 40
_WORD = re.compile(r"[a-z0-9_]+(?:[-./:][a-z0-9_]+)*")
_NOT = r"\b(is|are|was|were|do|does|did|has|have|could|would|should)n'?t\b"
_SHORTENED = (
    (r"\bwon'?t\b", "will not"),
    (r"\bcan'?t\b|\bcannot\b", "can not"),
    (_NOT, r"\1 not"),
    (r"\b(what|where|who|how|it|that|there|when|why)'?s\b", r"\1 is"),
    (r"\blet's\b", "let us"),
    (r"'re\b", " are"),
    (r"'ve\b", " have"),
    (r"'s\b", ""),
)


def words(text: str) -> list[str]:
    """The words in their order; names such as `checkout-api` stay whole."""
    folded = unicodedata.normalize("NFKD", text[:MAX_TEXT].replace("\u2019", "'").casefold())
    plain = "".join(c for c in folded if not unicodedata.combining(c))
    for short, full in _SHORTENED:
        plain = re.sub(short, full, plain)
    return _WORD.findall(plain)[:MAX_WORDS]


def listed(text: str) -> frozenset[str]:
    """The words of a table written as text."""
    return frozenset(text.split())


def nearest(word: str, vocabulary: Iterable[str]) -> str | None:
    """The known word that this one is, but for a typing error; None when there is none, or two as
    near."""
    if len(word) > LONGEST:
        return None
    candidates: list[tuple[int, str]] = []
    for other in vocabulary:
        forgiven = 0 if len(other) < SHORT else 1 if len(other) < LONG else 2
        errors = OSA.distance(word, other, score_cutoff=forgiven)
        if errors <= forgiven:
            candidates.append((errors, other))
    candidates.sort()
    is_clear = len(candidates) == 1 or (len(candidates) > 1 and candidates[0][0] < candidates[1][0])
    return candidates[0][1] if is_clear else None
