"""Values of events as the file writes them: the bytes of one JSON value, read without loss.

The compiled scanner reads numbers by the same rules (native/numbers.c); text is always read here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

# Where JSON values begin and end, by the rules of the compiled scanner (native/json_walk.h).
#
# Text is JSON bytes decoded as latin-1: its structure is the same, and places are bytes of the
# file.

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


MAX_NUMBER_TEXT = 64
"""Longest text of a number that is read as one."""
MAX_TIME_DIGITS = 16
"""Digits before the decimal point of a time in microseconds."""
INT64 = 2**63
HANDLES = 2**30
"""Streams that are handles or text are numbered from here."""
NO_STREAM = 2**32 - 1

_NUMBER = re.compile(rb"(-?)([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]{1,5}))?")
_HEX = re.compile(rb"0[xX]([0-9a-fA-F]{1,16})")
_NAMED_STREAM = re.compile(rb'"stream ([0-9]{1,9})"')
_SPACE_OUTSIDE_STRINGS = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\r\n]+', re.DOTALL)
_TEXT_STARTS = b'"-0123456789{['


def nanoseconds(microseconds: bytes) -> int | None:
    """Microseconds (a number, or a number in quotes) in whole ns, half to even; None when it is no
    finite time."""
    text = microseconds.strip(b'" ')
    number = _NUMBER.fullmatch(text) if len(text) <= MAX_NUMBER_TEXT else None
    if number is None:
        return None
    sign, whole, fraction, exponent = number[1], number[2], number[3] or b"", int(number[4] or 0)
    digits = (whole + fraction).lstrip(b"0")
    if not digits:
        return 0
    scale = exponent - len(fraction)
    if len(digits) + scale > MAX_TIME_DIGITS:
        return None
    # + 3: from microseconds to nanoseconds.
    value = _rounded(digits, scale + 3)
    if value >= INT64 - 1:
        return None
    return -value if sign else value


def _rounded(digits: bytes, scale: int) -> int:
    """digits * 10^scale to the nearest whole number, half to even."""
    if scale >= 0:
        return int(digits + b"0" * scale)
    # Less than a tenth rounds to 0.
    if len(digits) + scale < 0:
        return 0
    unit = int(b"1" + b"0" * -scale)
    whole, rest = divmod(int(digits), unit)
    return whole + int(2 * rest > unit or (2 * rest == unit and whole % 2 == 1))


def real_number(token: bytes) -> float | None:
    """A finite number, or one in quotes (AMD writes "0x10" too)."""
    text = token
    if token.startswith(b'"'):
        text = token[1:-1]
        if len(text) >= 3 and text[:2] in (b"0x", b"0X"):
            bits = _HEX.fullmatch(text)
            return float(int(bits[1], 16)) if bits else None
    if len(text) > MAX_NUMBER_TEXT or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def whole_number(token: bytes) -> int | None:
    """A number cut to a whole one, exact where it is written as one; None where it needs more than
    64 bits."""
    text = token[1:-1] if token.startswith(b'"') else token
    number = _NUMBER.fullmatch(text) if len(text) <= MAX_NUMBER_TEXT else None
    # Keep a whole number exact: a float loses digits above 2**53.
    if number and number[3] is None and number[4] is None:
        value = int(text)
    elif token.startswith(b'"') and (bits := _HEX.fullmatch(text)):
        value = int(bits[1], 16)
    else:
        real = real_number(token)
        if real is None:
            return None
        value = int(real)
    return value if abs(value) < INT64 else None


def stream_number(token: bytes) -> int | None:
    """A stream's number, -1 for none; None where the token is a handle or a name, to be
    numbered."""
    named = _NAMED_STREAM.fullmatch(token)
    if named:
        return int(named[1])
    real = real_number(token)
    if real is None:
        return None if token.startswith(b'"') and len(token) > 2 else -1
    if real == NO_STREAM or real < 0:
        return -1
    return int(real) if real < HANDLES and real == int(real) else None


def is_text(token: bytes) -> bool:
    """Whether an argument that is kept as text says anything: not null, not "", not N/A."""
    starts = (
        token[:1] in _TEXT_STARTS and token[1:2] not in b"iI"
        if token[:1] == b"-"
        else token[:1] in _TEXT_STARTS
    )
    return token in (b"true", b"false") or (bool(token) and starts and token != b'""')


def text_of(token: bytes) -> str:
    """A string's text, a number as it is written; "" for anything else."""
    if token[:1] == b'"':
        return _unquoted(token)
    return token.decode("ascii", "replace") if _NUMBER.fullmatch(token) else ""


def compact(token: bytes) -> str:
    """A string's text; anything else as JSON without spaces."""
    if token[:1] == b'"':
        return _unquoted(token)
    return _SPACE_OUTSIDE_STRINGS.sub(
        lambda match: match[1] or "", token.decode("utf-8", "replace")
    )


def _unquoted(token: bytes) -> str:
    if b"\\" not in token:
        return token[1:-1].decode("utf-8", "replace")
    try:
        text = str(json.loads(token.decode("utf-8", "replace"), strict=False))
    except ValueError:
        return token[1:-1].decode("utf-8", "replace")
    # Join surrogates that were escaped one by one; a lone one is replaced.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def merged(texts: list[str]) -> tuple[tuple[str, ...], list[int] | None]:
    """Distinct texts in their order, and the new number of each where several were one (else
    None)."""
    numbers: dict[str, int] = {}
    renumbered = [numbers.setdefault(text, len(numbers)) for text in texts]
    return tuple(numbers), None if len(numbers) == len(texts) else renumbered


def json_object(text: bytes) -> Mapping[str, Any]:
    """A JSON object, or nothing where it cannot be read."""
    try:
        value = json.loads(without_bare_words(text.decode("utf-8", "replace")), strict=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
