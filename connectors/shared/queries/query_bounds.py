"""What a query that a model wrote in PromQL or LogQL may ask for, before any server sees it.

The languages cannot write. What they can do is cost: read every series, or days of them. The text
is read as words, strings and brackets; what it means is the server's to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta

from faultline.analysis.errors import ConnectorError

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
    if len(text) > LONGEST_QUERY:
        raise ValueError(f"it is longer than {LONGEST_QUERY} characters")
    if not text.strip() or not all(char.isprintable() or char.isspace() for char in text):
        raise ValueError("it is empty or holds control characters")
    words = [match for match in _WORD.findall(text) if not match.isspace()]
    if "#" in words or "@" in words:
        raise ValueError("comments and @ are not taken; the times are start and end")
    _check_brackets(words)
    if language == "LogQL" and "{" not in words:
        raise ValueError('it needs a selector such as {app="checkout"}')
    for place, word in enumerate(words):
        is_label = words[place + 1 : place + 2] and words[place + 1][0] in "=!"
        if word in _REWRITES and not is_label:
            raise ValueError(f"{word} would make up labels or lines")
        if word == "{":
            inside = words[place + 1 : words.index("}", place)]
            before = words[place - 1] if place else ""
            named = before not in _NO_METRICS and re.fullmatch(r"[A-Za-z_:][\w:.]*", before)
            if language == "LogQL" or not named:
                _check_selector(inside)
        elif word == "[":
            _check_range(words[place + 1 : words.index("]", place)])
        elif word == "offset":
            after = [word for word in words[place + 1 : place + 3] if word != "-"]
            length = _seconds(after[0]) if after else None
            if length is None or length > FARTHEST_OFFSET.total_seconds():
                raise ValueError(f"an offset may be at most {FARTHEST_OFFSET.days} days")
    for _, operator, value in _matchers(words):
        if "~" in operator and len(value) > LONGEST_PATTERN:
            raise ValueError(f"a pattern is longer than {LONGEST_PATTERN} characters")


def _check_brackets(words: Sequence[str]) -> None:
    opened: list[str] = []
    for word in words:
        if word in _CLOSES.values():
            opened.append(word)
            if len(opened) > DEEPEST:
                raise ValueError(f"it is nested deeper than {DEEPEST} brackets")
        elif word in _CLOSES and (not opened or opened.pop() != _CLOSES[word]):
            raise ValueError(f"the bracket {word} closes nothing")
        elif word in "\"'`":
            raise ValueError("a string does not end")
    if opened:
        raise ValueError(f"the bracket {opened[-1]} is not closed")


def _check_selector(inside: Sequence[str]) -> None:
    """One matcher must say what is meant; a pattern counts if it begins with letters."""
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
    for name, operator, value in zip(words, words[1:], words[2:], strict=False):
        if operator in ("=", "=~", "!=", "!~") and value[:1] in "\"'`" and len(value) > 1:
            yield name.strip("\"'"), operator, value[1:-1]


def _check_range(inside: Sequence[str]) -> None:
    if any(":" in word for word in inside):
        raise ValueError("subqueries are not taken; ask for the series and use `calculate`")
    length = _seconds("".join(inside))
    if length is None or length > LONGEST_RANGE.total_seconds():
        hours = LONGEST_RANGE.total_seconds() / 3600
        raise ValueError(f"a range in brackets may be at most {hours:g}h")


def _seconds(text: str) -> float | None:
    if not _DURATION.fullmatch(text):
        return None
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
