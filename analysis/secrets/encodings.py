"""Texts inside texts: what a text says once its escapes are undone, and what its base64 holds.

An undone text knows where each of its characters came from, so that a secret found in it can be
taken out of the text as it was written.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass

DEEPEST = 3
"""Times that escapes are undone: JSON in JSON in JSON, an address in a query of an address."""
LONGEST_UNDONE = 200_000
"""Characters of a text whose escapes are undone; a longer text is read as it stands."""
MOST_RUNS = 64
"""Runs of base64 that are looked into, of one text."""

_ESCAPE = re.compile(
    r"\\u00([0-7][0-9a-fA-F])|\\x([0-7][0-9a-fA-F])|\\([\"'\\/nrt`])|&(quot|amp|lt|gt|apos|#39|#34);"
    r"|%([0-7][0-9a-fA-F])"
)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}
_ENTITIES = {"quot": '"', "amp": "&", "lt": "<", "gt": ">", "apos": "'", "#39": "'", "#34": '"'}
_RUN = re.compile(r"(?<![\w+/=\-])[A-Za-z0-9+/_\-]{16,65536}={0,2}(?![\w+/=\-])")
_AFTER_SIGN = re.compile(r"(?<==)[A-Za-z0-9+/_\-]{16,65536}={0,2}(?![\w+/=\-])")


@dataclass(frozen=True)
class Undone:
    """A text without escapes; `places` holds where each character, and the end, was before."""

    text: str
    places: list[int]


def undone(text: str) -> Iterator[Undone]:
    """The text with its escapes undone once, twice and three times, while it has any."""
    places: list[int] | None = None
    for _ in range(DEEPEST):
        if len(text) > LONGEST_UNDONE:
            return
        pieces: list[str] = []
        positions: list[int] = []
        last = 0
        for match in _ESCAPE.finditer(text):
            pieces.append(text[last : match.start()])
            positions.extend(range(last, match.start()))
            # The notations `\u00..`, `\x..` and `%..` give the code of a character.
            digits = match[1] or match[2] or match[5]
            if digits:
                meant = chr(int(digits, 16))
            elif match[3]:
                meant = _LETTERS.get(match[3], match[3])
            else:
                meant = _ENTITIES[match[4]]
            pieces.append(meant)
            positions.append(match.start())
            last = match.end()
        if not pieces:
            return
        pieces.append(text[last:])
        positions.extend(range(last, len(text) + 1))
        places = positions if places is None else [places[place] for place in positions]
        text = "".join(pieces)
        yield Undone(text, places)


def base64_runs(text: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and decoded text of the runs of base64 that hold text, not bytes."""
    run_count = 0
    for pattern in (_RUN, _AFTER_SIGN):
        for match in pattern.finditer(text):
            run_count += 1
            if run_count > MOST_RUNS:
                # Each run costs a decoding, and a text may consist of nothing else.
                return
            decoded = _decoded(match.group())
            if decoded is not None:
                yield match.start(), match.end(), decoded


def _decoded(run: str) -> str | None:
    bare = run.rstrip("=")
    standard = bare.replace("-", "+").replace("_", "/")
    try:
        # A few bytes are enough to tell nearly everything that is no text.
        head = base64.b64decode(standard[:16] + "=" * (-len(standard[:16]) % 4))
        if not _is_text(head[:12], whole=False):
            return None
        decoded = base64.b64decode(standard + "=" * (-len(standard) % 4))
    except (binascii.Error, ValueError):
        return None
    if not _is_text(decoded, whole=True):
        return None
    return decoded.decode(errors="replace")


def _is_text(data: bytes, *, whole: bool) -> bool:
    if whole:
        try:
            data.decode()
        except UnicodeDecodeError:
            return False
    odd = sum(
        (byte < 32 and byte not in (0, 9, 10, 13)) or byte == 127 or byte > 127 for byte in data
    )
    return odd * 10 <= len(data)
