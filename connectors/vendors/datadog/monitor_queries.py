"""What a monitor measures, told from its query: a metric expression, a search in logs or spans, or
other monitors.

Forms: API reference, "Create a monitor", "Query types". Read without regular expressions that could
backtrack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST_QUERY = 4000
MOST_PARTS = 5
"""Monitors that a composite one is made of, and facets that a search is grouped by."""
WRAPPERS = ("anomalies", "outliers", "forecast")
"""Functions that draw bands around an expression; the expression itself is asked."""
_THRESHOLD = re.compile(
    r"(>=|<=|==|!=|>|<)\s{0,9}(-?\d{1,30}(?:\.\d{1,30})?(?:[eE][+-]?\d{1,3})?)\s*$"
)
_METRIC = re.compile(r"\b[a-z0-9]{2,8}:([A-Za-z][\w.]{0,300})\{")
_SEARCHES = {"logs": "logs", "trace-analytics": "spans"}
"""Data source of the timeseries API by the function of the monitor's query."""
_STRING = r'"((?:[^"\\]|\\.){0,3000})"'
_SEARCH = re.compile(r"^(logs|trace-analytics)\(" + _STRING + r"\)")
_ROLLUP = re.compile(r'\.rollup\("(\w{1,20})"(?:,\s{0,9}"([^"]{1,200})")?\)')
_BY = re.compile(r"\.by\(([^()]{1,500})\)")
_INDEX = re.compile(r"\.index\(([^()]{1,500})\)")
AGGREGATIONS = {
    "count": "count",
    "cardinality": "cardinality",
    "sum": "sum",
    "min": "min",
    "max": "max",
    "avg": "avg",
}
AGGREGATIONS |= {f"pc{p}": f"pc{p}" for p in (75, 90, 95, 98, 99)}


@dataclass(frozen=True)
class MetricMonitor:
    """An expression over metrics, as the v1 query API takes it."""

    expression: str
    signal: str
    threshold: float | None = None


@dataclass(frozen=True)
class SearchMonitor:
    """A search, aggregated over time."""

    source: str
    search: str
    aggregation: str
    measure: str | None
    by: tuple[str, ...]
    indexes: tuple[str, ...]
    threshold: float | None = None

    @property
    def signal(self) -> str:
        """A name for what is counted."""
        what = {"logs": "log_lines", "spans": "spans"}[self.source]
        if "error" in self.search.lower():
            what = f"error_{what}"
        if self.aggregation == "count":
            return what
        return f"{self.aggregation}_{self.measure or what}".replace("@", "")


@dataclass(frozen=True)
class CompositeMonitor:
    """A condition over other monitors."""

    monitors: tuple[int, ...]


def read_monitor(query: str, kind: str) -> MetricMonitor | SearchMonitor | CompositeMonitor | None:
    """What the monitor measures; None for service checks, SLOs and what else has no series."""
    query = query.strip()[:LONGEST_QUERY]
    threshold = _THRESHOLD.search(query)
    limit = float(threshold[2]) if threshold else None
    if kind == "composite":
        ids = dict.fromkeys(int(number) for number in re.findall(r"\b\d{1,18}\b", query))
        return CompositeMonitor(tuple(ids)[:MOST_PARTS])
    search = _SEARCH.match(query)
    if search:
        return _search(search, query[search.end() :], limit)
    body = query[: threshold.start()] if threshold else query
    expression = _unwrapped(_without_window(body.strip()))
    metric = _METRIC.search(expression)
    if metric is None:
        return None
    # One metric divided by another is no longer what the first is called.
    is_ratio = len(set(_METRIC.findall(expression))) > 1 and "/" in expression
    signal = f"{metric[1]}_ratio" if is_ratio else metric[1]
    return MetricMonitor(expression, signal, limit)


def _search(match: re.Match[str], rest: str, limit: float | None) -> SearchMonitor:
    rollup, by, index = _ROLLUP.search(rest), _BY.search(rest), _INDEX.search(rest)
    aggregation = AGGREGATIONS.get(rollup[1] if rollup else "count", "count")
    return SearchMonitor(
        source=_SEARCHES[match[1]],
        # The search stands in a string of the query, where its quotes are escaped.
        search=match[2].replace('\\"', '"').replace("\\\\", "\\"),
        aggregation=aggregation,
        measure=rollup[2] if rollup and aggregation != "count" else None,
        by=tuple(facet for facet in _listed(by) if facet != "*")[:MOST_PARTS],
        indexes=tuple(name for name in _listed(index) if name != "*"),
        threshold=limit,
    )


def _listed(match: re.Match[str] | None) -> list[str]:
    if match is None:
        return []
    parts = [part for part in match[1].split(",") if part.strip(' "')]
    return [part.strip().strip('"').strip() for part in parts]


def _without_window(text: str) -> str:
    """Without the leading `avg(last_5m):` or `change(avg(last_5m),last_1h):`."""
    head, mark, rest = text.partition("):")
    is_window = mark and "{" not in head and "last_" in head
    return rest.strip() if is_window else text


def _unwrapped(text: str) -> str:
    """The first argument of `anomalies(...)` and its like."""
    name, mark, rest = text.partition("(")
    if not mark or name.strip() not in WRAPPERS:
        return text
    depth = 0
    for place, char in enumerate(rest):
        if char in "({":
            depth += 1
        elif char in ")}":
            depth -= 1
        # The wrapper's own comma, or its closing bracket where there is no other argument.
        if (char == "," and depth == 0) or depth < 0:
            return rest[:place].strip()
    return text
