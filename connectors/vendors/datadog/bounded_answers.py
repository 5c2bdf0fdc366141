"""A query that a model wrote in one of Datadog's languages: metrics, or a search for logs."""

from __future__ import annotations

import re
from typing import Any

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.query_bounds import LONGEST_QUERY, words_of
from faultline.connectors.shared.queries.querying import LONGEST_SIGNAL, query_answer
from faultline.connectors.shared.rows.collection_builder import nanoseconds
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.datadog import logs, metrics
from faultline.connectors.vendors.datadog.inquiry import DatadogInquiry
from faultline.connectors.vendors.datadog.links import in_formula
from faultline.connectors.vendors.datadog.session import VENDOR

FUNCTIONS = words_of(
    "abs log2 log10 derivative diff monotonic_diff dt per_second per_minute per_hour default_zero "
    "clamp_min clamp_max cutoff_min cutoff_max ewma_3 ewma_5 ewma_10 ewma_20 median_3 median_5 "
    "top bottom hour_before day_before week_before mean min max sum last area norm l2norm avg asc "
    "desc"
)
"""Of a formula (docs.datadoghq.com, "Functions"). Those that forecast, or reach back for weeks, are
not among them."""
METRIC_METHODS = frozenset({"as_count", "as_rate", "rollup", "fill", "weighted"})
_METHOD = re.compile(r"\.([a-z_]+)\(")
_SCOPE = re.compile(r"\{([^{}]*)\}")
_GROUPED = re.compile(r"\}\s*by\s*\{")
_IN_FORMULA = re.compile(r"[\w\s+\-*/().,']*")
_TERM = re.compile(
    r'(?<!\S)(-|NOT\s+)?\(*(@?[\w.\-/]+):\(*("[^"]{2,}"|[\w.\-/]{2,})', re.IGNORECASE
)


async def answer_of(inquiry: DatadogInquiry, query: BoundedQuery) -> Collected:
    """The series of a metrics query, or the first lines of a search. Raises FaultlineError."""
    try:
        is_metrics = _check(query.text)
    except ValueError as error:
        raise ConnectorError(VENDOR, "query", f"the query is refused: {error}") from None
    return await (_series(inquiry, query) if is_metrics else _lines(inquiry, query))


def _check(text: str) -> bool:
    """Whether the query is one of metrics. Raises ValueError where it has no bounds."""
    if len(text) > LONGEST_QUERY:
        raise ValueError(f"it is longer than {LONGEST_QUERY} characters")
    if not text.strip() or not text.isprintable():
        raise ValueError("it is empty or holds control characters")
    # Only a query of metrics has a scope in braces.
    if "{" in text:
        _check_metrics(text)
        return True
    if text.count('"') % 2:
        raise ValueError("a string does not end")
    # A term that excludes something bounds nothing.
    if not any(not match[1] for match in _TERM.finditer(text)):
        raise ValueError("it must name something, such as service:checkout")
    return False


def _check_metrics(text: str) -> None:
    queries, formula = in_formula(text)
    if not queries or not _IN_FORMULA.fullmatch(formula):
        raise ValueError("it must be made of metrics such as avg:system.load.1{service:checkout}")
    names = {query["name"] for query in queries}
    for word in re.findall(r"[A-Za-z_]\w*", formula):
        if word not in names and word not in FUNCTIONS:
            raise ValueError(f"{word}() is not taken")
    for query in queries:
        metric = query["query"]
        for method in _METHOD.findall(metric.partition("}")[2]):
            if method not in METRIC_METHODS:
                raise ValueError(f"{method}() is not taken")
        if re.search(r"\.rollup\([^)]*\d", metric):
            raise ValueError("rollup() takes no seconds: the answer's interval goes by its length")
        scope = _SCOPE.search(metric)
        named = scope is not None and _names_something(scope[1])
        if _GROUPED.search(metric) and not named:
            raise ValueError("with `by`, the scope must name something, such as service:checkout")


def _names_something(scope: str) -> bool:
    """Whether one tag of a scope says what is meant."""
    return any(re.match(r"\(?[\w.\-/]+:[\w\"(]", part.strip()) for part in re.split(r",|\s", scope))


async def _series(inquiry: DatadogInquiry, query: BoundedQuery) -> Collected:
    queries, formula = in_formula(query.text)
    signal = short(query.text, LONGEST_SIGNAL)
    question = metrics.DatadogQuestion(signal, None, formula, {}, most=query.rows)
    rows = await metrics.computed(inquiry, question, queries, query.window, query.points)
    cut = None
    if len({(row[1], row[5]) for row in rows}) >= query.rows:
        cut = f"the first {query.rows} series"
    service_rows = [(at, service or query.service, *rest) for at, service, *rest in rows]
    link = inquiry.links.metrics(query.text, query.window)
    return query_answer("metrics", service_rows, query, link, cut)


async def _lines(inquiry: DatadogInquiry, query: BoundedQuery) -> Collected:
    lines, cut = await logs.first_lines(inquiry, query.text, query.rows, query.window)
    rows: list[tuple[Any, ...]] = []
    for line in lines:
        rows.append((nanoseconds(line.time), line.service or query.service, *line[2:]))
    link = inquiry.links.logs(query.text, query.window)
    return query_answer("logs", rows, query, link, cut)
