"""What a query that a model wrote in KQL or in the language of CloudWatch Logs Insights may ask
for, before any server sees it.

Both are stages joined by pipes over one source, which code has chosen. Only listed stages and
functions are taken. They cannot write; what they could do is reach other sources, and make rows up:
text in quotation marks stands in conditions alone, and the name of a new column says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.queries.query_bounds import (
    DEEPEST,
    LONGEST_PATTERN,
    LONGEST_QUERY,
    words_of,
)

NEW_NAME = re.compile(r"[a-z]\d{0,2}")
"""Of a column that the query names itself: n, p99."""
_WORD = re.compile(
    r'"(?:[^"\\\n]|\\.){0,1000}"|\'(?:[^\'\\\n]|\\.){0,1000}\''
    r"|(?P<pattern>(?:\blike\s*|=~\s*|\bparse\s+@?[\w.]+\s*)/(?:[^/\\\n]|\\.){1,1000}/)"
    r"|project-(?:away|keep)\b|!?(?:in|has_any|has_all)\b~?"
    r"|@?[A-Za-z_][\w.]{0,200}|\d[0-9A-Za-z.]{0,40}|==|=~|!=|!~|<=|>=|//|\s+|.",
    re.IGNORECASE,
)
_NAME = re.compile(r"@?[A-Za-z_]")
_LISTS = re.compile(r"!?(?:in|has_any|has_all)~?", re.IGNORECASE)
_NOT_TAKEN = frozenset({"//", "#", ";", "`", "~", "@"})
"""Comments, ends of statements, and what verbatim and multi-line strings begin with: their end is
another (learn.microsoft.com, "The string data type")."""
_CLOSES = {")": "(", "]": "[", "}": "{"}
_OPERATORS = words_of("and or not by between like has contains startswith endswith")
"""Words that may stand before a bracket and are no functions."""


@dataclass(frozen=True)
class PipeLanguage:
    """A language: its stages, which of them are conditions, which count rows, and the functions
    that are taken."""

    name: str
    stages: frozenset[str]
    conditions: frozenset[str]
    counting: frozenset[str]
    functions: frozenset[str]


KQL = PipeLanguage(
    "KQL",
    words_of(
        "where summarize project project-away project-keep extend order sort top take limit count"
    ),
    frozenset({"where"}),
    frozenset({"summarize", "count"}),
    words_of(
        "count countif dcount dcountif sum sumif avg avgif min minif max maxif percentile "
        "percentiles stdev variance bin floor ceiling round abs log sqrt tostring toint tolong "
        "todouble toreal tobool todatetime totimespan datetime timespan time isempty isnotempty "
        "isnull isnotnull isnan isfinite tolower toupper strlen coalesce iff case now ago "
        "datetime_diff parse_json todynamic"
    ),
)
INSIGHTS = PipeLanguage(
    "Logs Insights",
    words_of("fields display filter stats sort parse dedup"),
    frozenset({"filter", "parse"}),
    frozenset({"stats"}),
    words_of(
        "count count_distinct sum avg min max pct stddev earliest latest bin datefloor dateceil "
        "abs ceil floor greatest least log sqrt isempty isblank ispresent isvalid coalesce strlen "
        "strcontains tolower toupper tomillis frommillis"
    ),
)
"""`source` would choose other log groups, `unmask` would show what a data protection policy hides
(docs.aws.amazon.com/AmazonCloudWatch/latest/logs, "CWL_QuerySyntax")."""


@dataclass(frozen=True)
class PipeQuery:
    """A query that is taken. `most` are the rows that it may bring; `source` is what it begins
    with, in KQL a table; `keys` are the columns that it counts by."""

    text: str
    source: str
    counts: bool
    keys: frozenset[str]
    most: int


def pipe_query(
    language: PipeLanguage, vendor: str, bounded_query: BoundedQuery, sources: Sequence[str] = ()
) -> PipeQuery:
    """The query, checked and with a limit on its rows. With `sources` it begins with one of them.

    Raises ConnectorError with the reason where it is not taken.
    """
    try:
        return _checked(language, bounded_query, sources)
    except ValueError as error:
        phrase = f"the {language.name} is refused: {error}"
        raise ConnectorError(vendor, "query", phrase) from None


def _checked(
    language: PipeLanguage, bounded_query: BoundedQuery, sources: Sequence[str]
) -> PipeQuery:
    text = bounded_query.text.strip()
    if len(text) > LONGEST_QUERY:
        raise ValueError(f"it is longer than {LONGEST_QUERY} characters")
    if not text or not all(char.isprintable() or char in "\n\r\t" for char in text):
        raise ValueError("it is empty or holds control characters")
    stages = _stages(text)
    source = ""
    if sources:
        source = " ".join(stages.pop(0))
        if source not in sources:
            raise ValueError(f"it must begin with one of {', '.join(sources)}, then |")
    limit = None
    if language is INSIGHTS:
        text, limit = _without_limit(text, stages)
    for words in stages:
        _check_stage(language, words)
    counting = [words for words in stages if words[0].lower() in language.counting]
    # Rows that count are points of series, the others are lines.
    most = bounded_query.rows * bounded_query.points if counting else bounded_query.rows
    most = min(most, limit) if limit else most
    keys = frozenset(_keys(counting[-1])) if counting else frozenset[str]()
    added = "limit" if language is INSIGHTS else "take"
    return PipeQuery(f"{text}\n| {added} {most}", source, bool(counting), keys, most)


def _stages(text: str) -> list[list[str]]:
    """The words of each stage. Raises ValueError where brackets or strings do not end."""
    stages: list[list[str]] = [[]]
    opened: list[str] = []
    for match in _WORD.finditer(text):
        word = match[0]
        if word.isspace():
            continue
        if word in _NOT_TAKEN:
            raise ValueError(f"{word} is not taken: no comments, plain strings, one statement")
        if word in ('"', "'"):
            raise ValueError("a string does not end")
        if match["pattern"] and len(word) > LONGEST_PATTERN:
            raise ValueError(f"a pattern is longer than {LONGEST_PATTERN} characters")
        if word in _CLOSES.values():
            opened.append(word)
        elif word in _CLOSES and (not opened or opened.pop() != _CLOSES[word]):
            raise ValueError(f"the bracket {word} closes nothing")
        if len(opened) > DEEPEST:
            raise ValueError(f"it is nested deeper than {DEEPEST} brackets")
        if word == "|" and opened:
            raise ValueError("a query in brackets is not taken")
        if word == "|":
            stages.append([])
        else:
            stages[-1].append(word)
    if opened:
        raise ValueError(f"the bracket {opened[-1]} is not closed")
    if not all(stages):
        raise ValueError("a stage is empty")
    return stages


def _without_limit(text: str, stages: list[list[str]]) -> tuple[str, int | None]:
    """Logs Insights takes one limit: that of the last stage is put together with ours."""
    last = stages[-1]
    if len(stages) < 2 or len(last) != 2 or last[0].lower() != "limit" or not last[1].isdecimal():
        return text, None
    stages.pop()
    return text[: text.rindex("|")].rstrip(), int(last[1]) or None


def _check_stage(language: PipeLanguage, words: Sequence[str]) -> None:
    command = words[0].split()[0].lower()
    if command not in language.stages:
        text = ", ".join(sorted(language.stages))
        raise ValueError(f"{words[0][:40]} is no stage that is taken; there are {text}")
    is_kql = language is KQL
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        after = words[place + 1] if place + 1 < len(words) else ""
        if word[-1] == "/" and len(word) > 2 and (is_kql or command not in language.conditions):
            raise ValueError("patterns are not taken here")
        if word[0] in "\"'" and not is_kql and re.search(r"\\[\"']", word):
            raise ValueError("no quotation mark in a string")
        if word[0] in "\"'" and command not in language.conditions:
            taken = " and ".join(sorted(language.conditions))
            raise ValueError(f"text in quotation marks is taken in {taken} only")
        is_column = place > 1 and _NAME.match(before) and before.lower() not in _OPERATORS
        if word == "[" and is_kql and not (is_column or before == "]"):
            raise ValueError("names in brackets are not taken")
        if after == "(" and place and _LISTS.fullmatch(word):
            _check_list(words[place + 2 :])
        elif after == "(" and place and _NAME.match(word):
            _check_function(language, word)
    if is_kql and command not in language.conditions:
        _check_names(words[n - 1] for n, word in enumerate(words) if word == "=" and n)
    if language is INSIGHTS and "as" in (lowered := [word.lower() for word in words]):
        _check_names(
            _names(words[lowered.index("as") :])
            if command == "parse"
            else (words[n + 1] for n, word in enumerate(lowered[:-1]) if word == "as")
        )


def _check_list(inside: Sequence[str]) -> None:
    """Values only: a name could be a table, or a stored function that reads another workspace."""
    for word in inside[: inside.index(")")]:
        if _NAME.match(word) and word.lower() not in ("true", "false"):
            raise ValueError(f"a list holds values only, not {word[:40]}")


def _check_function(language: PipeLanguage, name: str) -> None:
    if name.lower() not in language.functions | _OPERATORS:
        raise ValueError(f"{name[:40]}() is not taken")


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if not NEW_NAME.fullmatch(name):
            problem = f"{name[:40]}: a new name is one letter and at most two digits, such as p99"
            raise ValueError(problem)


def _names(words: Sequence[str]) -> list[str]:
    return [word for word in words if _NAME.match(word) and word.lower() not in ("as", "by")]


def _keys(words: Sequence[str]) -> list[str]:
    lowered = [word.lower() for word in words]
    return _names(words[lowered.index("by") :]) if "by" in lowered else []
