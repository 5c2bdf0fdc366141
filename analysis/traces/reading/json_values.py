"""Where JSON values begin and end, by the rules of the compiled scanner (native/json_walk.h).

Text is JSON bytes decoded as latin-1: its structure is the same, and places are bytes of the file.
"""

from __future__ import annotations

import json
import re
from typing import Any

MAX_DEPTH = 128
"""Deepest nesting of an event that is read."""
NEAR_THE_END = 10
"""An error that close to the end of the text may be the cut."""
STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_WORD = re.compile(r"(?:N/A|NaN|nan|inf|Infinity)[ \t\r\n,}\]]")
_BARE = re.compile(
    r'"(?:[^"\\]|\\.)*+"|(?<![^:,\[ \t\r\n])(N/A|NaN|nan|-?inf|-?Infinity)(?=[ \t\r\n,}\]])',
    re.DOTALL,
)


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


STRICT = json.JSONDecoder(strict=False, parse_float=str, parse_int=str, parse_constant=_refuse)
"""Finds where a value ends. Control characters in strings are let pass; numbers are not
converted."""


def looks_cut(error: json.JSONDecodeError, length: int) -> bool:
    """Whether the text may be good and only end too early."""
    return error.pos >= length - NEAR_THE_END or error.msg.startswith("Unterminated string")


def depth(text: str) -> int:
    """How deep lists and objects nest in valid JSON, at most."""
    brackets = text.count("{") + text.count("[")
    if brackets <= MAX_DEPTH:
        return brackets
    deepest = now = 0
    for bracket in re.sub(r'[^\[\]{}"]+', "", STRING.sub("", text)):
        now += 1 if bracket in "[{" else -1
        deepest = max(deepest, now)
    return deepest


def without_bare_words(text: str) -> str:
    """JSON with bare NaN, N/A and the like as empty strings, padded to their length; what stands in
    strings stays."""
    if not _WORD.search(text):
        return text
    return _BARE.sub(lambda match: '""' + " " * (len(match[1]) - 2) if match[1] else match[0], text)
