"""Groups masked lines into templates, in a time linear in their words.

Like Drain (He et al. 2017), lines of equal length that agree in their constant words are one
template. Which words are constant is decided in two steps instead of by a share of equal words: a
word that holds a digit, or a value that was masked, is variable at once; any other word becomes
variable where enough different words stand in its place while the rest of the line stays the same.
So `session opened` and `session closed` stay apart, and users and hosts do not.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

# The variable parts of log lines as `<*>`: addresses, times, ids, numbers, payloads; names, routes
# and codes stay.
#
# What remains tells which statement of a program wrote the line. A number is a value unless it is
# part of a name: behind a letter (`sha256`), of a code line (`OrderImpl#45`, `order.py:45`) or of
# an error code (`ORA-00942`). One regular expression without captures does nearly all of it, so
# that the cost stays linear (the `regex` crate, in Polars).

VALUE = "<*>"
_JOINTS = (
    ("#", r"([A-Za-z])#([0-9])", "${1}zZhQ${2}", "zZhQ"),
    (
        ":",
        r"(\.(?:java|kt|scala|go|py|rb|rs|php|js|mjs|ts|tsx|cs|cpp|cc|c|h)):([0-9])",
        "${1}zZcQ${2}",
        "zZcQ",
    ),
    ("-", r"\b([A-Z]{2,10})-([0-9]{3,6})\b", "${1}zZdQ${2}", "zZdQ"),
    ("=", r"\b(msg|message|err|error|event|reason|level|severity|lvl)=", "${1}zZeQ", "zZeQ"),
)
"""Joints of a name and its number, and of keys whose values are kept: held by letters while values
are masked."""
_B = r"(?-u:\b)"
_VALUES = (
    # addresses with a scheme; what may follow one in a sentence ends it
    ("://", r"[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>|,;)\]}]+"),
    ("@", r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63})+"),
    # the signed tokens of RFC 7519 begin with {" in base64
    ("eyJ", r"eyJ[A-Za-z0-9_.-]{10,}"),
    # Sun Mar 01 12:00:00 UTC 2026, Mar  1 12:00:00
    (
        ":",
        r"(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? "
        r")?(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [ 0-9][0-9] "
        r"[0-9:.]{5,15}(?: [A-Z]{3,4})?(?: [0-9]{4})?",
    ),
    # ids: order_20260301_07, blk_-16089; pods of a Kubernetes deployment end in -7d9f8b6c5d-x2x9z
    ("_", r"[A-Za-z]+_-?[0-9]{3,}[A-Za-z0-9_]*"),
    ("-", r"-[0-9a-f]{8,10}-[a-z0-9]{5}" + _B),
)
"""A character that must be there, and the pattern."""
_NUMBERS = "|".join(
    (
        # 2026-03-01T12:00:00.123Z, 2026/03/01 12:00:00, 01/Mar/2026:12:00:00 +0000
        r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}(?:[T ][0-9]{2}(?:[:.,][0-9]+)+(?:Z| "
        r"?[+-][0-9]{2}:?[0-9]{2})?)?",
        r"[0-9]{1,2}/[A-Z][a-z]{2}/[0-9]{4}[0-9:]*(?: [+-][0-9]{4})?",
        _B + r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}" + _B,
        _B + r"(?:0x[0-9a-fA-F]+|[0-9a-fA-F]{16,}|[a-f]{0,6}[0-9][0-9a-f]{6,})" + _B,
        # an IPv6 address
        _B + r"[0-9a-fA-F]{1,4}(?::[0-9a-fA-F]{0,4}){4,7}" + _B,
        # numbers, with separators: 12.5, 10.0.0.1:53, 1h20m3.5; D1345
        _B + r"[0-9]+(?:[.,:][0-9]+)*(?:[a-z]{1,2}[0-9]+(?:[.][0-9]+)?)*",
        _B + r"[A-Z][0-9]{4,}" + _B,
    )
)
_ANSI = r"\x1b\[[0-9;]*[A-Za-z]"
_PAYLOAD = r"(\S\s*)\{[\"\w][^{}]*[\":=][^{}]*\}"
"""A JSON object or a map inside a line. A line that begins with one is kept: it is all there is."""
_QUOTED = r"([=:]\s?)(?:\"[^\"]*\"|'[^']*')"
_SIGNS = ("-<*>", "+<*>")
_SIGNED = r"(^|[ =(\[])[-+]<\*>"
_RUN = r"<\*>(?: ?[.,;:/|x-]? ?<\*>)+"
"""Neighbouring values are one: a list is as long as it is."""


def masked(texts: pl.Series) -> pl.Series:
    """The texts with their variable parts as `<*>`."""
    out = _replaced(texts, "\x1b", _ANSI, "")
    for sign, pattern, replacement, _ in _JOINTS:
        out = _replaced(out, sign, pattern, replacement)
    out = _replaced(_replaced(out, "{", _PAYLOAD, "${1}{<*>}"), ('"', "'"), _QUOTED, "${1}<*>")
    for sign, pattern in _VALUES:
        out = _replaced(out, sign, pattern, VALUE)
    out = out.str.replace_all(_NUMBERS, VALUE)
    out = _replaced(out, _SIGNS, _SIGNED, "${1}<*>")
    out = _replaced(out, ">", _RUN, VALUE)
    for joint, _, _, signs in _JOINTS:
        out = _replaced(out, signs, signs, joint)
    return out


def _replaced(texts: pl.Series, signs: str | tuple[str, ...], pattern: str, by: str) -> pl.Series:
    """The pattern replaced where one of the signs is in the text: most patterns concern few
    lines."""
    hit = (
        texts.str.contains(signs, literal=True)
        if isinstance(signs, str)
        else texts.str.contains_any(list(signs))
    )
    at = hit.arg_true()
    if len(at) == 0:
        return texts
    if 2 * len(at) > len(texts):
        return texts.str.replace_all(pattern, by)
    return texts.scatter(at, texts.gather(at).str.replace_all(pattern, by))


def template_pattern(template: str) -> str:
    """A regular expression for the lines that show the template: `<*>` is anything, spaces may be
    missing."""
    parts = (
        r"\s*".join(re.escape(word) for word in part.split())
        for part in template.rstrip("…").split(VALUE)
    )
    return r"\s*.*?\s*".join(parts)


VARIANTS = 5
"""This many different words in one place of otherwise equal lines are values. States and methods of
a request are fewer, users and hosts are more (the labels of loghub, Zhu et al. 2023, keep apart
what has up to four)."""
CONSTANT = 0.5
"""Share of the words that must agree around such a place."""
MAX_WORDS = 24
MAX_TEMPLATES = 2000
OTHER = "(other lines)"
_CODE = (
    r"(?:[\w$.-]*\.(?:java|kt|scala|go|py|rb|rs|php|js|mjs|ts|tsx|cs|cpp|cc|c|h):[0-9]+"
    r"|[\w$.]+#[0-9]+|[A-Z]{2,10}-?[0-9]{3,6})"
)
_CONSTANT_CODE = re.compile(rf"^[\[(]*{_CODE}[\])\]:,-]*$")
_BRACKETED = re.compile(r"([\[({\"'<]*)(.*?)([\])}\"'>,;:.]*)", re.S)
_DIGIT = re.compile(r"[0-9]")
_UNIT = re.compile(r"<\*>(?:[kKMGTP]?i?[bB]|[nuµm]?s|min|[mhd]|%)(?![A-Za-z])")
_LIKE_A_VALUE = re.compile(r"\w[./@=\\-]\w")
"""Paths, names with dots, addresses, key=value."""
_ONLY_VALUES = re.compile(r"^[^A-Za-z0-9]*$")


class TemplateMiner:
    """Groups the masked lines of one service. Beyond `limit` templates lines that fit none fall
    into one rest."""

    def __init__(self, limit: int = MAX_TEMPLATES) -> None:
        self._limit = limit
        self._keys: dict[tuple[str, ...], int] = {}
        self._lines: dict[str, int] = {}
        self._merged: dict[int, int] = {}
        self._words: list[list[str]] = []

    def add(self, masked: str) -> int:
        """The number of the group of this line, before groups are merged; -1 for the rest."""
        line = self._lines.get(masked)
        if line is None:
            words = key_words(masked)
            line = self._keys.get(words)
            if line is None:
                if len(self._words) >= self._limit:
                    return -1
                line = self._keys[words] = len(self._words)
                self._words.append(list(words))
                self._merged[line] = line
            # Bounded, so that lines which never repeat do not fill the memory.
            if len(self._lines) < 10 * self._limit:
                self._lines[masked] = line
        return line

    def merge(self) -> None:
        """Join the groups that differ only in one word that takes many values, then those that do
        in several."""
        for place in (True, False):
            groups = {
                number: tuple(self._words[number]) for number in sorted(set(self._merged.values()))
            }
            for family, places in _families(groups, place):
                members = [m for m in family if self._merged[m] == m]
                if len(members) >= VARIANTS:
                    self._join(members, places)
            self._join_equal()

    def template(self, number: int) -> int:
        """The template of a group, after `merge`."""
        return self._merged.get(number, number)

    def _join(self, members: Sequence[int], places: Iterable[int]) -> None:
        first = min(members)
        for place in places:
            # `rhost=a` and `rhost=b` are `rhost=<*>`.
            words = [self._words[m][place] for m in members]
            key, equals, _ = words[0].partition("=")
            self._words[first][place] = (
                f"{key}={VALUE}"
                if equals and all(word.startswith(f"{key}=") for word in words)
                else VALUE
            )
        self._point(dict.fromkeys(members, first))

    def _join_equal(self) -> None:
        # Sorted, so that the lowest number stands for the template, in every run.
        first: dict[tuple[str, ...], int] = {}
        self._point(
            {
                m: first.setdefault(tuple(self._words[m]), m)
                for m in sorted(set(self._merged.values()))
            }
        )

    def _point(self, moved: dict[int, int]) -> None:
        self._merged.update(moved)
        self._merged = {number: self._merged[at] for number, at in self._merged.items()}

    def text(self, number: int) -> str:
        """The template's words, variable ones as `<*>`."""
        return (
            " ".join(self._words[self.template(number)]).replace("] [", "][")
            if number >= 0
            else OTHER
        )


def group_lines(
    lines: Iterable[str], limit: int = MAX_TEMPLATES
) -> tuple[list[int], dict[int, str]]:
    """The template's number of each masked line, and the templates' texts."""
    miner = TemplateMiner(limit)
    groups = [miner.add(line) for line in lines]
    miner.merge()
    numbers = [miner.template(group) for group in groups]
    return numbers, {number: miner.text(number) for number in set(numbers)}


def key_words(masked: str) -> tuple[str, ...]:
    """The first words of a line as they are compared: variable ones as `<*>`, units of values left
    out."""
    text = _UNIT.sub(VALUE, masked) if VALUE in masked else masked
    words = text.replace("][", "] [").split(maxsplit=MAX_WORDS)[:MAX_WORDS]
    return tuple(_key(word) if _DIGIT.search(word) else word for word in words)


def _key(word: str) -> str:
    """A word with a digit is a value, of `key=value` what follows; a place in code is not."""
    if _CONSTANT_CODE.match(word):
        return word
    before, inner, after = _BRACKETED.fullmatch(word).groups()  # type: ignore[union-attr]
    key, equals, _ = inner.partition("=")
    return (
        f"{before}{key}={VALUE}{after}"
        if equals and not _DIGIT.search(key)
        else f"{before}{VALUE}{after}"
    )


def _families(
    groups: Mapping[int, tuple[str, ...]], single_place: bool
) -> list[tuple[list[int], tuple[int, ...]]]:
    """Groups that differ in one word only, or only in words that look like values, and where; large
    families first."""
    alike: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, words in groups.items():
        alike[len(words), words[0] if words else ""].append(number)
    families: dict[tuple[tuple[int, ...], tuple[str, ...]], list[int]] = defaultdict(list)
    # Too few lines alike can form no family: skip them before the costly part.
    for number in (n for numbers in alike.values() if len(numbers) >= VARIANTS for n in numbers):
        for chosen in _variable_places(groups[number], single_place):
            rest = list(groups[number])
            for place in chosen:
                rest[place] = VALUE
            families[chosen, tuple(rest)].append(number)
    large = [
        (family, places) for (places, _), family in families.items() if len(family) >= VARIANTS
    ]
    return sorted(large, key=lambda f: (-len(f[0]), f[1], f[0]))


def _variable_places(words: Sequence[str], single_place: bool) -> list[tuple[int, ...]]:
    """Choices of places whose words may be values; enough of the others must agree around them."""
    plain = [place for place, word in enumerate(words) if not _ONLY_VALUES.match(word)]
    # Only lines with the same first word are compared.
    choices: list[tuple[int, ...]] = [(place,) for place in plain if place]
    if not single_place:
        choices = [tuple(place for (place,) in choices if _LIKE_A_VALUE.search(words[place]))]
    least = CONSTANT * len(plain)
    return [chosen for chosen in choices if chosen and len(plain) - len(chosen) >= least]
