"""What a query that a model wrote in KQL or in the language of CloudWatch Logs Insights may ask
for, before any server sees it.

Both are stages joined by pipes over one source, which code has chosen. Only listed stages and
functions are taken. They cannot write; what they could do is reach other sources, and make rows up:
text in quotation marks stands in conditions alone, and the name of a new column says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.queries.query_bounds import (
    LONGEST_PATTERN,
    LONGEST_QUERY,
    OpenBrackets,
    words_of,
)

NEW_NAME = re.compile(r"[a-z]\d{0,2}")
"""Of a column that the query names itself: n, p99."""
# A slash begins a pattern only after `like`, `=~` and `parse`; elsewhere it divides.
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
_OPERATORS = words_of("and or not by between like has contains startswith endswith")
"""Words that may stand before a bracket and are no functions."""


@dataclass(frozen=True)
class PipeLanguage:
    """A language: its stages, which of them are conditions, which count rows, and the functions
    that are taken. `limit` is the stage that bounds the rows."""

    name: str
    limit: str
    stages: frozenset[str]
    conditions: frozenset[str]
    counting: frozenset[str]
    functions: frozenset[str]


KQL = PipeLanguage(
    "KQL",
    "take",
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
    "limit",
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
    most = bounded_query.rows
    keys: frozenset[str] = frozenset()
    if counting:
        # Rows that count are points of series, the others are lines.
        most *= bounded_query.points
        keys = frozenset(_keys(counting[-1]))
    most = min(most, limit) if limit else most
    return PipeQuery(f"{text}\n| {language.limit} {most}", source, bool(counting), keys, most)


def _stages(text: str) -> list[list[str]]:
    """The words of each stage. Raises ValueError where brackets or strings do not end."""
    stages: list[list[str]] = [[]]
    open_brackets = OpenBrackets()
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
        open_brackets.read(word)
        if word != "|":
            stages[-1].append(word)
        elif open_brackets.brackets:
            raise ValueError("a query in brackets is not taken")
        else:
            stages.append([])
    open_brackets.end()
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
    is_condition = command in language.conditions
    for place, word in enumerate(words):
        before = words[place - 1] if place else ""
        after = words[place + 1] if place + 1 < len(words) else ""
        _check_literal(language, word, is_condition)
        # KQL also quotes names in brackets: ["table"]. Only an index into a column is taken.
        is_column = place > 1 and _NAME.match(before) and before.lower() not in _OPERATORS
        if word == "[" and language is KQL and not (is_column or before == "]"):
            raise ValueError("names in brackets are not taken")
        if place and after == "(":
            _check_call(language, word, words[place + 2 :])
    _check_new_names(language, command, words)


def _check_literal(language: PipeLanguage, word: str, is_condition: bool) -> None:
    """A pattern or a string: outside a condition it could make rows up."""
    # A pattern ends in a slash; the lone `/` divides.
    if word[-1] == "/" and len(word) > 2 and (language is KQL or not is_condition):
        raise ValueError("patterns are not taken here")
    if word[0] not in "\"'":
        return
    if language is not KQL and re.search(r"\\[\"']", word):
        raise ValueError("no quotation mark in a string")
    if not is_condition:
        taken = " and ".join(sorted(language.conditions))
        raise ValueError(f"text in quotation marks is taken in {taken} only")


def _check_call(language: PipeLanguage, name: str, after: Sequence[str]) -> None:
    """A word before a bracket is a function that is taken, or begins a list of values."""
    if _LISTS.fullmatch(name):
        # A name could be a table, or a stored function that reads another workspace.
        for word in after[: after.index(")")]:
            if _NAME.match(word) and word.lower() not in ("true", "false"):
                raise ValueError(f"a list holds values only, not {word[:40]}")
    elif _NAME.match(name) and name.lower() not in language.functions | _OPERATORS:
        raise ValueError(f"{name[:40]}() is not taken")


def _check_new_names(language: PipeLanguage, command: str, words: Sequence[str]) -> None:
    """The columns that a stage names itself say nothing."""
    lowered = [word.lower() for word in words]
    if language is KQL:
        # In a condition, `=` compares.
        is_condition = command in language.conditions
        names = [] if is_condition else [name for name, word in pairwise(words) if word == "="]
    elif command == "parse" and "as" in lowered:
        names = _names(words[lowered.index("as") :])
    else:
        names = [name for word, name in pairwise(words) if word.lower() == "as"]
    for name in names:
        if not NEW_NAME.fullmatch(name):
            problem = f"{name[:40]}: a new name is one letter and at most two digits, such as p99"
            raise ValueError(problem)


def _names(words: Sequence[str]) -> list[str]:
    return [word for word in words if _NAME.match(word) and word.lower() not in ("as", "by")]


def _keys(words: Sequence[str]) -> list[str]:
    lowered = [word.lower() for word in words]
    return _names(words[lowered.index("by") :]) if "by" in lowered else []
