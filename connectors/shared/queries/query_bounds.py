"""What a query that a model wrote in PromQL or LogQL may ask for, before any server sees it.

The languages cannot write. What they can do is cost: read every series, or days of them. The text
is read as words, strings and brackets; what it means is the server's to say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import pairwise

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.vendor_text import short

LONGEST_QUERY = 1_000
LONGEST_PATTERN = 200
"""Of a regular expression. Both servers use RE2, whose time is linear."""
LONGEST_RANGE = timedelta(hours=6)
"""In brackets: what each point of an answer reads."""
FARTHEST_OFFSET = timedelta(days=8)
"""A week back, and the incident's length."""
DEEPEST = 20
_UNITS = {
    "ms": 0.001,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86400.0,
    "w": 604800.0,
    "y": 31536000.0,
}
_WORD = re.compile(
    r'"(?:[^"\\\n]|\\.){0,1000}"|\'(?:[^\'\\\n]|\\.){0,1000}\'|`[^`]{0,1000}`'
    r"|[A-Za-z_:][A-Za-z0-9_:.]{0,200}|\d[0-9A-Za-z.]{0,40}|[=!]~|!=|\s+|."
)
_DURATION = re.compile(r"(?:\d{1,9}(?:ms|[smhdwy])){1,6}")
_PART = re.compile(r"(\d+)(ms|[smhdwy])")
_NO_METRICS = frozenset({"by", "without", "on", "ignoring", "group_left", "group_right", "offset"})
_REWRITES = frozenset({"label_replace", "label_join", "line_format", "label_format"})
"""They write a row's labels or its line: with them a query could say what no data says."""
_CLOSES = {")": "(", "]": "[", "}": "{"}


class OpenBrackets:
    """The brackets that are open where a query is being read."""

    def __init__(self) -> None:
        self.brackets: list[str] = []

    def read(self, word: str) -> None:
        """Raises ValueError where a bracket closes nothing, or too many are open."""
        if word in _CLOSES.values():
            self.brackets.append(word)
            if len(self.brackets) > DEEPEST:
                raise ValueError(f"it is nested deeper than {DEEPEST} brackets")
        elif word in _CLOSES and (not self.brackets or self.brackets.pop() != _CLOSES[word]):
            raise ValueError(f"the bracket {word} closes nothing")

    def end(self) -> None:
        """Raises ValueError where a bracket is still open."""
        if self.brackets:
            raise ValueError(f"the bracket {self.brackets[-1]} is not closed")


def words_of(text: str) -> frozenset[str]:
    """The words of a list that is written as one text."""
    return frozenset(text.split())


def check_query(language: str, vendor: str, text: str) -> None:
    """Raise ConnectorError with the reason where a query has no bounds. `language` is PromQL or
    LogQL."""
    try:
        _check(language, text)
    except ValueError as error:
        raise ConnectorError(vendor, "query", f"the {language} is refused: {error}") from None


def _check(language: str, text: str) -> None:
    words = _words(text)
    if language == "LogQL" and "{" not in words:
        raise ValueError('it needs a selector such as {app="checkout"}')
    for place, (before, word) in enumerate(pairwise(["", *words])):
        after = words[place + 1 :]
        # A label may be called like a function: {label_replace="x"}.
        is_label = after and after[0][0] in "=!"
        if word in _REWRITES and not is_label:
            raise ValueError(f"{word} would make up labels or lines")
        if word == "{":
            _check_selector(language, before, after[: after.index("}")])
        elif word == "[":
            _check_range(after[: after.index("]")])
        elif word == "offset":
            _check_offset(after)
    for _, operator, value in _matchers(words):
        if "~" in operator and len(value) > LONGEST_PATTERN:
            raise ValueError(f"a pattern is longer than {LONGEST_PATTERN} characters")


def _words(text: str) -> list[str]:
    """The words, strings and brackets. Every bracket is closed, and every string ends."""
    if len(text) > LONGEST_QUERY:
        raise ValueError(f"it is longer than {LONGEST_QUERY} characters")
    if not text.strip() or not all(char.isprintable() or char.isspace() for char in text):
        raise ValueError("it is empty or holds control characters")
    words = [match for match in _WORD.findall(text) if not match.isspace()]
    # `@` reads a moment of the query's choice, not the window that was asked about.
    if "#" in words or "@" in words:
        raise ValueError("comments and @ are not taken; the times are start and end")
    open_brackets = OpenBrackets()
    for word in words:
        open_brackets.read(word)
        if word in "\"'`":
            raise ValueError("a string does not end")
    open_brackets.end()
    return words


def _check_selector(language: str, before: str, inside: Sequence[str]) -> None:
    """A metric's name or one matcher must say what is meant; a pattern counts if it begins with
    letters."""
    is_metric = before not in _NO_METRICS and re.fullmatch(r"[A-Za-z_:][\w:.]*", before)
    if is_metric and language != "LogQL":
        return
    for name, operator, value in _matchers(inside):
        exact = operator == "=" and value
        begins = operator == "=~" and re.match(r"\(?[A-Za-z0-9_]{2}", value)
        if exact or (begins and name != "__name__"):
            return
    # PromQL may have the metric's name itself in quotation marks.
    if inside and inside[0][:1] in "\"'" and len(inside[0]) > 2 and inside[1:2] in ([], [","]):
        return
    raise ValueError('a selector names nothing: give a label such as {service="checkout"}')


def _matchers(words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    # A matcher is three words in a row: a name, an operator and a string.
    for name, operator, value in zip(words, words[1:], words[2:], strict=False):
        if operator in ("=", "=~", "!=", "!~") and value[:1] in "\"'`" and len(value) > 1:
            yield name.strip("\"'"), operator, value[1:-1]


def _check_range(inside: Sequence[str]) -> None:
    # A subquery evaluates what it holds at every step, which multiplies the cost.
    if any(":" in word for word in inside):
        raise ValueError("subqueries are not taken; ask for the series and use `calculate`")
    if _seconds("".join(inside)) > LONGEST_RANGE.total_seconds():
        hours = LONGEST_RANGE.total_seconds() / 3600
        raise ValueError(f"a range in brackets may be at most {hours:g}h")


def _check_offset(after: Sequence[str]) -> None:
    # An offset into the future has a minus, which is a separate word.
    length = after[1:2] if after[:1] == ["-"] else after[:1]
    if _seconds("".join(length)) > FARTHEST_OFFSET.total_seconds():
        raise ValueError(f"an offset may be at most {FARTHEST_OFFSET.days} days")


def _seconds(text: str) -> float:
    """The length of a duration; infinite where the text is none, so that no bound takes it."""
    if not _DURATION.fullmatch(text):
        return math.inf
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))


# SQL statements without what they are about: literals and comments removed, one line, cut.
#
# A server shows statements as clients sent them, with the values of customers in them.

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
