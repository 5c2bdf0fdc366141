"""The variable parts of log lines as `<*>`: addresses, times, ids, numbers, payloads; names, routes
and codes stay.

What remains tells which statement of a program wrote the line. A number is a value unless it is
part of a name: behind a letter (`sha256`), of a code line (`OrderImpl#45`, `order.py:45`) or of an
error code (`ORA-00942`). One regular expression without captures does nearly all of it, so that the
cost stays linear (the `regex` crate, in Polars).
"""

from __future__ import annotations

import re

import polars as pl

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
