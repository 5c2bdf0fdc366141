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


# Questions in other languages, recognised by their key words: each becomes the English question
# that is answered in its place.
#
# A table of words, no translation: where no row fits, the question stays what it is.

# German, Spanish, French, Portuguese, Japanese and Chinese, written without accents. The first row
# that fits holds, so that "since when" is read before "why".
_ROWS = (
    (
        "since when?",
        r"\b(?:seit wann|desde (?:cuando|quando)|depuis quand)\b|いつから|什么时候开始",
    ),
    (
        "what changed?",
        r"\b(?:geandert|cambi(?:o|ado)|change[es]?|mud(?:ou|ado))\b|変更|变更|改了什么",
    ),
    (
        "who is affected?",
        r"\b(?:betroffen|afectad[oa]s?|(?:affecte|touche)e?s?|afetad[oa]s?)\b|影響|影响",
    ),
    (
        "is it still happening?",
        r"\b(?:immer noch|sigue|toujours|encore|ainda)\b|まだ|还在|仍然",
    ),
    (
        "what next?",
        r"\b(?:was tun|nachste|que hacer|siguiente|que faire|prochaine|o que fazer|proximo)\b"
        r"|どうすれば|次に|怎么办|下一步",
    ),
    ("why?", r"\b(?:warum|wieso|weshalb|por ?que|pourquoi)\b|なぜ|どうして|为什么"),
    ("what is the cause?", r"\b(?:ursache|causa|la cause)\b|原因"),
)
_ACCENTS = re.compile("[\u0300-\u036f]+")
_PATTERNS = tuple((english, re.compile(pattern)) for english, pattern in _ROWS)


def in_english(text: str) -> str | None:
    """The English question that a question in another language asks; None where it is
    not recognised."""
    folded = unicodedata.normalize("NFKD", text[:MAX_TEXT].casefold())
    # Only accents: Japanese has combining marks that make another word.
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", folded))
    for english, pattern in _PATTERNS:
        if pattern.search(plain):
            return english
    return None
