"""Questions in other languages, recognised by their key words: each becomes the English question
that is answered in its place.

A table of words, no translation: where no row fits, the question stays what it is.
"""

from __future__ import annotations

import re
import unicodedata

from faultline.bot.intake.questions.words import MAX_TEXT

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
