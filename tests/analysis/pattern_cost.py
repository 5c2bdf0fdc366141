"""How many ways a pattern can match from one place of a line: what bounds its work, read off its
parse tree."""

from __future__ import annotations

import re
from typing import Any

from re import _constants as sre  # type: ignore[attr-defined]  # isort: skip
from re import _parser  # type: ignore[attr-defined]  # isort: skip

ENDLESS = 10**9


def ways(pattern: str) -> int:
    """Upper bound of the paths that a backtracking matcher can take from one place; `ENDLESS`
    without a bound.

    A repetition has one way for each length, or one way at all where what follows cannot be part of
    it.
    """
    return _ways(list(_parser.parse(pattern, re.ASCII)))


def _ways(items: list[Any]) -> int:
    total = 1
    for place, (op, value) in enumerate(items):
        total *= _ways_of(op, value, items[place + 1 :])
    return min(total, ENDLESS)


def _ways_of(op: Any, value: Any, after: list[Any]) -> int:
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        low, high, body = value
        if high == sre.MAXREPEAT:
            return ENDLESS
        inner = _ways(list(body))
        return min(inner ** int(high), ENDLESS) * (
            1 if _ends(list(body), after) else int(high) - int(low) + 1
        )
    if op == sre.BRANCH:
        return sum(_ways(list(branch)) for branch in value[1])
    if op == sre.SUBPATTERN:
        return _ways(list(value[3]))
    return 1


def _ends(body: list[Any], after: list[Any]) -> bool:
    """Whether the literal that follows cannot be taken by the repeated set: the repetition ends at
    one place."""
    if len(body) != 1 or not after or after[0][0] != sre.LITERAL:
        return False
    op, value = body[0]
    char = chr(after[0][1])
    if op == sre.LITERAL:
        return chr(value) != char
    if op == sre.NOT_LITERAL:
        return chr(value) == char
    return op == sre.IN and not any(_takes(part, char) for part in _plain(value)) ^ _negated(value)


def _negated(parts: list[Any]) -> bool:
    return bool(parts) and parts[0][0] == sre.NEGATE


def _plain(parts: list[Any]) -> list[Any]:
    return parts[1:] if _negated(parts) else parts


def _takes(part: Any, char: str) -> bool:
    op, value = part
    if op == sre.LITERAL:
        return chr(value) == char
    if op == sre.RANGE:
        return int(value[0]) <= ord(char) <= int(value[1])
    names = {
        sre.CATEGORY_DIGIT: r"\d",
        sre.CATEGORY_SPACE: r"\s",
        sre.CATEGORY_WORD: r"\w",
        sre.CATEGORY_NOT_SPACE: r"\S",
        sre.CATEGORY_NOT_DIGIT: r"\D",
        sre.CATEGORY_NOT_WORD: r"\W",
    }
    return re.match(names[value], char, re.ASCII) is not None
