"""SQL statements without what they are about: literals and comments removed, one line, cut.

A server shows statements as clients sent them, with the values of customers in them.
"""

from __future__ import annotations

import re

from faultline.connectors.shared.vendor_text import short

LONGEST_READ = 4000
LONGEST_SHOWN = 120
# Servers cut long statements, so what is quoted may have no end.
_COMMENTS = r"--[^\n]*|/\*.*?(?:\*/|\Z)"
_DOLLARS = r"\$(?P<tag>[A-Za-z_]*)\$.*?(?:\$(?P=tag)\$|\Z)"
# Whether a backslash escapes the quote after it is a setting of the server. Where one stands there,
# nobody knows where the text ends, and everything after it is removed.
_TEXT = r"[A-Za-z]?'(?:[^'\\]|\\[^']|'')*(?:\\'.*\Z|'|\Z)"
_ESCAPED = r"[eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)"
_DOUBLE_TEXT = r'"(?:[^"\\]|\\[^"]|"")*(?:\\".*\Z|"|\Z)'
_NAMES = r'"(?:[^"]|"")*(?:"|\Z)'
_BACKTICKS = r"`(?:[^`]|``)*(?:`|\Z)"
_NUMBERS = r"(?<![\w$.])[-+]?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:e[-+]?\d+)?)(?!\w)"


def _tokens(comments: str, names: str, *literals: str) -> re.Pattern[str]:
    kinds = f"(?P<comment>{comments})|(?P<name>{names})|(?:{'|'.join((*literals, _NUMBERS))})"
    return re.compile(kinds, re.DOTALL | re.IGNORECASE)


_STANDARD = _tokens(_COMMENTS, _NAMES, _DOLLARS, _ESCAPED, _TEXT)
_MYSQL = _tokens(rf"{_COMMENTS}|#[^\n]*", _BACKTICKS, _TEXT, _DOUBLE_TEXT)
_LISTS = re.compile(r"\((?:\s*\?\s*,)+\s*\?\s*\)")
_ROWS = re.compile(r"\(\?\)(?:\s*,\s*\(\?\))+")


def masked_statement(text: str, *, quotes_names: bool, limit: int = LONGEST_SHOWN) -> str:
    """The statement with `?` for each literal and for lists of them, at most `limit` characters.

    `quotes_names`: whether double quotes hold a name, as in standard SQL, or text, as in MySQL.
    """
    tokens = _STANDARD if quotes_names else _MYSQL
    sub = tokens.sub(_without, text[:LONGEST_READ])
    sub = _ROWS.sub("(?)", _LISTS.sub("(?)", sub))
    return short(sub, limit)


def _without(match: re.Match[str]) -> str:
    if match["comment"]:
        return " "
    return match["name"] or "?"
