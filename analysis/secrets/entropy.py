"""The last net: words that only a random generator writes.

A word counts where it has 36 or more characters of the base64 alphabet, small letters, capitals and
digits among them, and changes between these kinds about as often as chance would (62 % of the
places of a random word, 10 to 25 % of names such as `ThreadPoolExecutor2Worker`). Commits, digests,
UUIDs and trace ids are of one case and so none. What stands behind the name of a digest, such as
`sha512-`, is none either.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

SHORTEST = 36
FEWEST_CHANGES = 0.42
LEAST_BITS = 4.1
"""Shannon entropy per character; 36 random characters of 62 have about 4.6."""
MOST_SLASHES = 0.1
"""Share of slashes; paths have more."""

_WORD = re.compile(
    rf"(?<![A-Za-z0-9+/_.$\-])[A-Za-z0-9+/]{{{SHORTEST},4096}}={{0,2}}(?![\w+/.(\-])"
)
_DIGEST_BEFORE = re.compile(
    r"(?i)(?:sha-?\d{1,3}|md5|h1|blake\w{0,3}|digest|checksum|etag|fingerprint|base64|integrity)"
    r"[\"']?[\s:=,\-]{1,3}[\"']?\Z"
)


def random_words(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of the words that look random."""
    for match in _WORD.finditer(text):
        if _is_random(match.group().rstrip("=")) and not _DIGEST_BEFORE.search(
            text, max(0, match.start() - 24), match.start()
        ):
            yield match.span()


def _is_random(word: str) -> bool:
    # The beginning of a long word decides as well as all of it.
    word = word[:256]
    kinds = [_kind(c) for c in word]
    if len(set(kinds) - {"s"}) < 3 or kinds.count("s") > MOST_SLASHES * len(word):
        return False
    changes = sum(previous_kind != other for previous_kind, other in pairwise(kinds))
    if changes < FEWEST_CHANGES * (len(word) - 1):
        return False
    counts = Counter(word).values()
    bits = -sum(n / len(word) * math.log2(n / len(word)) for n in counts)
    return bits >= LEAST_BITS


def _kind(character: str) -> str:
    if character.isdigit():
        return "d"
    if character.isalpha():
        return "u" if character.isupper() else "l"
    return "s"
