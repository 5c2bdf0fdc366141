"""Where alerts carry the rule that sent them: links to Prometheus and Grafana, and Alertmanager's
notes in other tools' alerts.

A `generatorURL` of Prometheus holds the expression as `g0.expr` of its query; VictoriaMetrics and
Thanos do the same, some of them behind `#`. Grafana's links to Explore hold it in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from faultline.analysis.kinds.watched_signals import AlertQuery, QueryLanguage

LONGEST_URL = 16_384
_LOGQL = re.compile(r"\}\s*(?:\|[=~]|!=|!~|\|\s*\w)")
_EXPRESSION = re.compile(r'"expr"\s*:\s*("(?:[^"\\]|\\.)*")')
_URL = re.compile(r"https?://[^\s<>|\"]{1,8000}")
_ENTRY = re.compile(r"(?:^|\s)-\s([A-Za-z_]\w{0,127})\s=\s")
LABELS, ANNOTATIONS, SOURCE = "Labels:", "Annotations:", "Source:"
"""Headings of Alertmanager's default text (its template `__text_alert_list`)."""


@dataclass(frozen=True)
class AlertmanagerNote:
    """The first alert of a text in Alertmanager's default form, as PagerDuty and others get it."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    query: AlertQuery | None = None


def query_of_url(url: str) -> AlertQuery | None:
    """The expression that a link to a rule or a graph shows."""
    # Links come with foreign text: do not parse any length.
    if len(url) > LONGEST_URL:
        return None
    try:
        # urlsplit raises ValueError for hosts such as `[`.
        parts = urlsplit(url)
    except ValueError:
        return None
    for query_string in (parts.query, parts.fragment.rpartition("?")[2]):
        parameters = parse_qs(query_string)
        for expression in parameters.get("g0.expr", []):
            return query_of_expression(expression)
        for explored in (*parameters.get("left", []), *parameters.get("panes", [])):
            query = query_of_expression(expression_in_json(explored))
            if query is not None:
                return query
    return None


def expression_in_json(text: str) -> str:
    """The first `expr` in the JSON of Grafana's queries; "" where there is none."""
    match = _EXPRESSION.search(text)
    if match is None:
        return ""
    try:
        return str(json.loads(match[1]))
    except ValueError:
        return ""


def query_of_expression(text: str) -> AlertQuery | None:
    """An expression of a rule, in PromQL unless it can only be LogQL."""
    text = text.strip()
    if not text:
        return None
    language: QueryLanguage = "logql" if _LOGQL.search(text) else "promql"
    return AlertQuery(language=language, text=text)


def queries_in(text: str) -> Iterator[AlertQuery]:
    """The expressions that the links of a text hold."""
    for match in _URL.finditer(text):
        query = query_of_url(match[0])
        if query is not None:
            yield query


def alertmanager_note(text: str) -> AlertmanagerNote | None:
    """The first alert of a text as Alertmanager's default template writes it, in lines or on one
    line; None where there is none."""
    _, begins, rest = text.partition(LABELS)
    before, ends, after = rest.partition(SOURCE)
    if not begins or not ends:
        return None
    labels, _, annotations = before.partition(ANNOTATIONS)
    source = after.split(maxsplit=1)
    return AlertmanagerNote(
        labels=_entries(labels),
        annotations=_entries(annotations),
        query=query_of_url(source[0]) if source else None,
    )


def _entries(text: str) -> dict[str, str]:
    # The pieces are what stands before the first name, then names and values in turn.
    _, *pieces = _ENTRY.split(text)
    values = (value.strip() for value in pieces[1::2])
    return dict(zip(pieces[::2], values, strict=True))
