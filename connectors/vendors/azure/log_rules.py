"""A log search rule of Azure Monitor, evaluated over windows: what its query measures in each of
the rule's own windows.

Rules as the common alert schema sends them (learn.microsoft.com, "Sample alert payloads" and
"Create a log search alert rule"): rows are counted, or one of their columns is aggregated, by
dimensions.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.auth.azure_token import VENDOR
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
)
from faultline.connectors.shared.rows.collection_builder import nanoseconds
from faultline.connectors.vendors.azure.rows import time_of
from faultline.connectors.vendors.azure.session import QuerySession

AGGREGATIONS = {
    "average": "avg",
    "count": "count",
    "maximum": "max",
    "minimum": "min",
    "total": "sum",
}
"""Functions of KQL by the rule's `timeAggregation`."""
AGGREGATED = "AggregatedValue"
"""What a metric measurement of the first version of the API calls its value, by time."""
CLASSIC = re.compile(
    r"\s*(?:requests|traces|dependencies|exceptions|customEvents|customMetrics|pageViews"
    r"|availabilityResults|browserTimings)\b"
)
"""Tables of Application Insights under the names that only its own API knows."""
FEWEST_S, USUAL_S = 60.0, 300.0
_SINCE = re.compile(
    r"(?i)\|\s*where\s+(?:TimeGenerated|timestamp)\s*(?:>=?|between\s*\()\s*ago\([^)]*\)"
    r"(?:\s*\.\.\s*now\(\)\s*\))?\s*(?=\||$)"
)
"""A stage that only counts back from now, as the window does."""
_FROM_NOW = re.compile(r"(?i)\b(?:ago|now)\s*\(")
_OUTSIDE = re.compile(r"(?i)\b(?:externaldata|http_request\w*|infer_storage_schema)\b|^\s*\.")
"""What reads from elsewhere than the workspace."""


async def evaluated_log_rule(
    session: QuerySession, path: str, query: AlertQuery, scope: Scope, *, link: str | None
) -> Collected:
    """What the rule's query gives against its threshold. Raises FaultlineError."""
    text = _SINCE.sub("", query.text).strip().rstrip(";")
    if _OUTSIDE.search(text):
        raise ConnectorError(VENDOR, "query", "the rule's query reads from outside the workspace")
    if _FROM_NOW.search(text):
        problem = "the rule's query counts back from now, so it cannot be asked about the past"
        raise ConnectorError(VENDOR, "query", problem)
    time = "timestamp" if CLASSIC.match(text) else "TimeGenerated"
    counts_rows = (query.statistic or "count").casefold() == "count" and not query.metrics

    async def ask(_: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        # Fewer points than the rule's own windows would blur what it compares.
        step_s = max(query.window_s or USUAL_S, FEWEST_S)
        start, end = at.window.start, at.window.end
        span = f"{start:%Y-%m-%dT%H:%M:%S}Z/{end:%Y-%m-%dT%H:%M:%S}Z"
        if AGGREGATED in text:
            answer = await session.query(path, text, span)
            return _series(answer.rows, AGGREGATED, time, None)
        sent = windowed(text, query, step_s, time)
        answer = await session.query(path, sent, span)
        bins = None
        if counts_rows:
            # A window without a row has none, which a rule may be about.
            first = math.floor(start.timestamp() / step_s)
            bins = [n * step_s for n in range(first, math.ceil(end.timestamp() / step_s))]
        return _series(answer.rows, "faultline_value", "faultline_at", bins)

    return await evaluated(query, scope, ask, link=link)


def windowed(text: str, query: AlertQuery, step_s: float, time: str) -> str:
    """The query with what the rule measures of it, for each of its windows."""
    function = AGGREGATIONS.get((query.statistic or "count").casefold(), "count")
    column = next(iter(query.metrics), "")
    measured = f"{function}({_quoted(column)})" if column and function != "count" else "count()"
    grouped = "".join(f", {_quoted(name)}" for name in query.dimensions)
    return (
        f"{text}\n| summarize faultline_value = {measured} by "
        f"faultline_at = bin({time}, {step_s:g}s){grouped}"
    )


def _quoted(name: str) -> str:
    return f"['{name.replace(chr(92), '').replace(chr(39), '')}']"


def _series(
    rows: Sequence[Mapping[str, Any]], value: str, time: str, bins: Sequence[float] | None
) -> list[EvaluatedSeries]:
    """The rows by their other columns; bins without a row are zero where bins are given."""
    labels: dict[str, dict[str, str]] = {}
    points: dict[str, dict[int, float]] = {}
    for row in rows:
        at, number = time_of(row.get(time)), row.get(value)
        if at is None or isinstance(number, bool) or not isinstance(number, (int, float)):
            continue
        named = {name: str(text) for name, text in row.items() if name not in (value, time)}
        key = json.dumps(named, sort_keys=True)
        labels[key] = named
        points.setdefault(key, {})[nanoseconds(at)] = float(number)
    if bins is not None:
        if not points:
            labels[""], points[""] = {}, {}
        for series in points.values():
            for begin in bins:
                series.setdefault(round(begin) * 1_000_000_000, 0.0)
    return [EvaluatedSeries(labels[key], sorted(points[key].items())) for key in points]
