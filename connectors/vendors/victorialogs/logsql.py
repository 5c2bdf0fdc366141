"""LogsQL that is sent, and links to the same in VictoriaLogs' own pages.

Language: docs.victoriametrics.com/victorialogs/logsql, as of 2026. Names and values always stand in
quotation marks, so that none of them can be anything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.log_windows import BAD_WORDS, FAILING
from faultline.connectors.vendors.prometheus.promql import names_pattern, quoted

EVERYTHING = "*"


def exactly(field: str, values: Sequence[str]) -> str:
    """Lines whose field has one of these values."""
    name, texts = _name(field), [f'"{quoted(value)}"' for value in values]
    return f"{name}:={texts[0]}" if len(texts) == 1 else f"{name}:in({', '.join(texts)})"


def in_any_case(field: str, values: Sequence[str]) -> str:
    """Lines whose field has one of these values, in whatever case."""
    # Anchored, or it would match a part of the value.
    return f'{_name(field)}:~"(?i)^({names_pattern(values)})$"'


def in_place(place: Mapping[str, str]) -> str:
    """Lines of a place: values by field."""
    return " ".join(exactly(field, [value]) for field, value in place.items()) or EVERYTHING


def errors(levels: Sequence[str]) -> str:
    """Lines that are errors by one of these fields or, without any, by their words."""
    if not levels:
        return saying(BAD_WORDS)
    failing_levels = sorted(FAILING)
    return f"({' or '.join(in_any_case(field, failing_levels) for field in levels)})"


def saying(words: Sequence[str]) -> str:
    """Lines that say one of the words."""
    return f'_msg:~"(?i)({names_pattern(words)})"'


def both(query: str, other: str) -> str:
    """Lines for which both hold."""
    return query if other == EVERYTHING else f"{query} {other}"


def first(query: str, limit: int) -> str:
    """The first of these lines, oldest first."""
    return f"{query} | sort by (_time) limit {limit}"


def between(window: Window) -> list[tuple[str, str]]:
    """The window as parameters; the end is not in it."""
    return [("start", moment(window.start)), ("end", moment(window.end))]


def moment(at: datetime) -> str:
    """A time as it is sent."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def page(base: str, query: str, window: Window, account: int | None, project: int | None) -> str:
    """The lines in VictoriaLogs' own pages."""
    params = {
        "query": query,
        "g0.range_input": f"{round(window.seconds)}s",
        "g0.end_input": window.end.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S"),
        "g0.relative_time": "none",
    }
    if account is not None or project is not None:
        params |= {"accountID": str(account or 0), "projectID": str(project or 0)}
    # These pages keep their state behind the `#`.
    return f"{base}/select/vmui/?#/?{urlencode(params)}"


def _name(field: str) -> str:
    return f'"{quoted(field)}"'
