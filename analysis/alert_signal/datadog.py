"""Datadog monitors' queries: metric, scope, groups, comparison, window.

Shapes: docs.datadoghq.com, "Monitors API", `query`.
"""

from __future__ import annotations

import re

from faultline.analysis.alert_signal.promql import COMPARISONS
from faultline.analysis.alert_signal.rule_texts import MetricSelection, QueryReading, duration_s
from faultline.analysis.kinds.signals import Comparison

LONGEST = 8192
_METRIC = re.compile(
    r"(?<![\w./-])(?:(?P<statistic>avg|sum|min|max|count|p\d\d|p9\d\.\d|percentile)\s*:)?"
    r"(?P<metric>[A-Za-z][\w./-]*)\s*\{(?P<scope>[^{}]*)\}(?:\s*by\s*\{(?P<by>[^{}]*)\})?"
)
_COMPARED = re.compile(r"(>=|<=|==|!=|>|<)\s*(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*$")
_PERCENT = re.compile(r"\*\s*100\b|\b100\s*\*")
_WINDOW = re.compile(
    r"\(\s*last_(\d+[smhdw]|\d+mo)\b|\.last\(\"(\d+[smhdw])\"\)|\.over\(\"(\d+d)\"\)"
)
_SEARCH = re.compile(
    r"^\s*(?P<kind>logs|error-tracking(?:-\w+)*|trace-analytics|rum|events|spans|ci-\w+)"
    r"\(\"(?P<search>(?:[^\"\\]|\\.)*)\"\)"
)
_CHECK = re.compile(r"^\s*\"(?P<check>[\w. -]+)\"\.(?:over|by)\(")
_CALLED_BY = re.compile(r"\.by\(([^)]*)\)")
_TAG = re.compile(r"(?<![\w-])([A-Za-z_][\w.-]*):([^\s,()*]+)")
_WORDS_OF_SEARCH = {"trace-analytics": "requests", "spans": "requests", "logs": "log lines"}


def read_datadog_query(text: str) -> QueryReading | None:
    """The query taken apart; None for one that names no metric, check or search: a composite."""
    # Foreign text: bound the work of the patterns.
    text = text[:LONGEST]
    compared = _COMPARED.search(text)
    comparison: Comparison | None = None
    threshold: float | None = None
    if compared:
        comparison, threshold = COMPARISONS[compared[1]], float(compared[2])
    measured, divisors, grouped, quantile = _metrics(text)
    functions = set(re.findall(r"\b(anomalies|forecast|outliers|change|pct_change|diff)\(", text))
    if not measured:
        search_query = _searched(text)
        if search_query is None:
            return None
        measured, grouped = search_query
    if functions & {"anomalies", "outliers"}:
        # It counts how many points are unusual; the metric itself has no threshold.
        comparison = threshold = None
    window_s: float | None
    match = _WINDOW.search(text)
    if match is None:
        window_s = None
    else:
        group = next(group for group in match.groups() if group)
        window_s = 30 * 86400.0 * int(group[:-2]) if group.endswith("mo") else duration_s(group)
    return QueryReading(
        measured=measured,
        divisors=divisors,
        functions=frozenset(functions),
        quantile=quantile,
        percent=_PERCENT.search(text) is not None,
        grouped=grouped,
        comparison=comparison,
        threshold=threshold,
        window_s=window_s,
    )


def _metrics(
    text: str,
) -> tuple[tuple[MetricSelection, ...], tuple[MetricSelection, ...], tuple[str, ...], float | None]:
    measured: list[MetricSelection] = []
    divisors: list[MetricSelection] = []
    grouped: tuple[str, ...] = ()
    quantile: float | None = None
    end = 0
    for number, match in enumerate(_METRIC.finditer(text)):
        # Past the first slash everything divides: `a / (b + c)`.
        divides = number > 0 and ("/" in text[end : match.start()] or bool(divisors))
        selection = MetricSelection(match["metric"], _tags(match["scope"]))
        if divides:
            divisors.append(selection)
        else:
            measured.append(selection)
        if not grouped and match["by"]:
            grouped = tuple(tag.strip() for tag in match["by"].split(",") if tag.strip())
        if match["statistic"] and match["statistic"].startswith("p"):
            quantile = quantile or _quantile(match["statistic"])
        end = match.end()
    return tuple(measured), tuple(divisors), grouped, quantile


def _quantile(statistic: str) -> float | None:
    digits = statistic[1:]
    try:
        return float(digits) / 100
    except ValueError:
        return None


def _tags(scope: str) -> dict[str, str]:
    """`{service:checkout,env:prod}`; excluded tags and patterns select nothing in particular."""
    tags: dict[str, str] = {}
    for part in scope.split(","):
        name, mark, value = part.strip().partition(":")
        is_named = mark and name and value and not name.startswith(("!", "-", "NOT "))
        if is_named and "*" not in value and "$" not in value:
            tags[name] = value
    return tags


def _searched(text: str) -> tuple[tuple[MetricSelection, ...], tuple[str, ...]] | None:
    """A monitor of logs, traces, errors or a check."""
    by = _CALLED_BY.search(text)
    grouped = tuple(re.findall(r"[\w.@-]+", by[1])) if by else ()
    check = _CHECK.search(text)
    if check:
        # A check is OK, warning or critical: it says whether something works.
        return (MetricSelection(f"{check['check']} up"),), grouped
    search = _SEARCH.search(text)
    if search is None:
        return None
    kind = search["kind"]
    tags: dict[str, str] = {}
    for name, value in _TAG.findall(search["search"]):
        tags[name.lstrip("@")] = value.strip('\\"')
    words = _WORDS_OF_SEARCH.get(kind, kind)
    if kind.startswith("error-tracking"):
        words = "errors"
    # A rollup of the duration watches latency, not the number of spans.
    if re.search(r"rollup\(\"(avg|p\d\d|max)\"[^)]*duration", text):
        words = "duration"
    return (MetricSelection(f"{words} {search['search']}", tags),), grouped
