"""Texts as lz-string packs them for addresses (`compressToEncodedURIComponent`), byte for byte.

Datadog's pages keep their state this way in the part behind the `#`. Our own code, because the
library for Python (lzstring 1.0.4, of 2018) needs a package for Python 2, and only packing is
needed here. It is LZW over characters, whose codes get wider as they become many
(github.com/pieroxy/lz-string).
"""

from __future__ import annotations

ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-$"
BITS_PER_LETTER = 6
NEW_BYTE, NEW_CHARACTER, END = 0, 1, 2
"""Codes that stand for no phrase: a character of 8 or of 16 bits follows, or nothing more."""


def packed(text: str) -> str:
    """The text in letters that an address may hold. Characters beyond the basic plane count as two,
    as in JavaScript."""
    return _Packer().packed(_code_units(text))


def _code_units(text: str) -> list[str]:
    raw = text.encode("utf-16-le", "surrogatepass")
    return [chr(raw[at] | raw[at + 1] << 8) for at in range(0, len(raw), 2)]


class _Packer:
    """One text. A phrase that was seen has a code; a new one gets the next."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._unwritten: set[str] = set()
        """Characters that have a code and were not written yet."""
        self._next_code = 3
        self._width = 2
        self._until_wider = 2
        self._bits: list[int] = []

    def packed(self, characters: list[str]) -> str:
        phrase = ""
        for character in characters:
            if character not in self._codes:
                self._add(character)
                self._unwritten.add(character)
            longer = phrase + character
            if longer in self._codes:
                phrase = longer
                continue
            self._write(phrase)
            self._add(longer)
            phrase = character
        if phrase:
            self._write(phrase)
        self._put(END, self._width)
        return self._letters()

    def _add(self, phrase: str) -> None:
        self._codes[phrase] = self._next_code
        self._next_code += 1

    def _write(self, phrase: str) -> None:
        if phrase not in self._unwritten:
            self._put(self._codes[phrase], self._width)
            self._count()
            return
        self._unwritten.discard(phrase)
        is_byte = ord(phrase) < 256
        self._put(NEW_BYTE if is_byte else NEW_CHARACTER, self._width)
        # A new character counts twice, as in the original.
        self._put(ord(phrase), 8 if is_byte else 16)
        self._count()
        self._count()

    def _count(self) -> None:
        """Codes are one bit wider as soon as there may be one that needs it."""
        self._until_wider -= 1
        if self._until_wider == 0:
            self._until_wider = 2**self._width
            self._width += 1

    def _put(self, value: int, width: int) -> None:
        for place in range(width):
            # The lowest bit comes first here, while a letter takes its highest bit first.
            self._bits.append(value >> place & 1)

    def _letters(self) -> str:
        # One more letter than is full, as the original writes it.
        missing = BITS_PER_LETTER - len(self._bits) % BITS_PER_LETTER
        bits = self._bits + [0] * missing
        letters = []
        for first in range(0, len(bits), BITS_PER_LETTER):
            value = 0
            for bit in bits[first : first + BITS_PER_LETTER]:
                value = value << 1 | bit
            letters.append(ALPHABET[value])
        return "".join(letters)
