"""Finds known failures in lines of text: all words of all signatures at once, then only the
patterns they call for.

The words are searched by one Aho-Corasick automaton (Aho and Corasick 1975, in Polars) over a whole
column, so the cost of an ordinary line does not grow with the number of signatures. A line's
signature is the first in the table's order, which goes from the special to the general.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import polars as pl

from faultline.analysis.logs.failure_signatures import LINE_LIMIT, SIGNATURES, Signature


class SignatureTable:
    """Signatures in order of precedence."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        self.signatures = tuple(signatures)
        by_word: dict[str, list[int]] = defaultdict(list)
        for place, signature in enumerate(self.signatures):
            for word in signature.words:
                by_word[word].append(place)
        self._by_word = dict(by_word)
        self.words = tuple(self._by_word)

    def match(self, line: str) -> Signature | None:
        """The signature that one line shows."""
        # Patterns are bounded, but their work still grows with the line.
        shown = line[:LINE_LIMIT]
        low = shown.lower()
        return self._first((word for word in self.words if word in low), shown)

    def match_all(self, lines: Sequence[str]) -> list[Signature | None]:
        """The signature of each line, in one pass over all of them."""
        signatures: list[Signature | None] = [None] * len(lines)
        # Polars takes UTF-8 alone, and a line may hold half a surrogate pair.
        texts = pl.Series([_encodable(line[:LINE_LIMIT]) for line in lines], dtype=pl.String)
        suspects = self.suspects(texts).arg_true()
        hits = texts.gather(suspects).str.extract_many(
            list(self.words), ascii_case_insensitive=True, overlapping=True
        )
        for place, words in zip(suspects.to_list(), hits.to_list(), strict=True):
            signatures[place] = self._first(
                {word.lower() for word in words}, lines[place][:LINE_LIMIT]
            )
        return signatures

    def suspects(self, texts: pl.Series) -> pl.Series:
        """Which texts hold a word of any signature."""
        return texts.str.contains_any(list(self.words), ascii_case_insensitive=True)

    def _first(self, words: Iterable[str], line: str) -> Signature | None:
        # Keep the table's order, which goes from the special to the general.
        places = sorted({place for word in words for place in self._by_word.get(word, ())})
        return next(
            (s for s in map(self.signatures.__getitem__, places) if s.pattern.search(line)), None
        )


def _encodable(line: str) -> str:
    return line if line.isascii() else line.encode("utf-8", "replace").decode("utf-8")


TABLE = SignatureTable(SIGNATURES)


def match(line: str) -> Signature | None:
    """The signature that one line shows; None for an ordinary line."""
    return TABLE.match(line)


def match_all(lines: Sequence[str]) -> list[Signature | None]:
    """The signature of each line."""
    return TABLE.match_all(lines)
