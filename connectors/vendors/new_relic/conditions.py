"""The NRQL condition that sent an alert, and its signal over a window.

Conditions as NerdGraph has them: docs.newrelic.com, "NerdGraph tutorial: NRQL condition alerts",
and newrelic/newrelic-client-go, pkg/alerts/nrql_conditions.go. Rows of a TIMESERIES: "NRQL
reference".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import msgspec

from faultline.analysis.kinds.signals import AlertQuery, Comparison
from faultline.analysis.vocabulary import Alert
from faultline.connectors.shared.queries.alert_evaluation import EvaluatedSeries, EvaluatedWindow
from faultline.connectors.vendors.new_relic.queries import during

CONDITION_LABELS = ("condition", "condition_name", "details.condition_name", "conditionName")
"""Where our webhook preset, PagerDuty and New Relic's own templates keep the condition's name."""
COMPARISONS: Mapping[str, Comparison] = {
    "ABOVE": ">",
    "ABOVE_OR_EQUALS": ">=",
    "BELOW": "<",
    "BELOW_OR_EQUALS": "<=",
    "EQUALS": "==",
    "NOT_EQUALS": "!=",
}
MOST_BUCKETS = 366
"""Of one TIMESERIES."""
MOST_FACETS = 100
DEFAULT_WINDOW_S = 60.0
"""A condition's aggregation window where it says none."""
_CLAUSES = re.compile(
    r"(?is)\s+(?:since|until|timeseries|limit|compare\s+with)\b[^()']*?"
    r"(?=\s+(?:since|until|timeseries|limit|compare|facet|where)\b|\s*$)"
)
"""What the condition's own window replaces."""
_FACET = re.compile(r"(?is)\bfacet\s+(.+?)(?=\s+(?:where|extrapolate|slide|order|with)\b|\s*$)")
_OF_ROWS = frozenset({"beginTimeSeconds", "endTimeSeconds", "facet", "inspectedCount"})


class _Term(msgspec.Struct):
    operator: str = ""
    priority: str = ""
    threshold: float | None = None
    thresholdDuration: float | None = None
    thresholdOccurrences: str = ""


class _ConditionNrql(msgspec.Struct):
    query: str = ""


class _Signal(msgspec.Struct):
    aggregationWindow: float | None = None


class NrqlCondition(msgspec.Struct):
    """One condition. Only a static one compares with a number."""

    name: str = ""
    type: str = ""
    nrql: _ConditionNrql = msgspec.field(default_factory=_ConditionNrql)
    signal: _Signal | None = None
    terms: list[_Term] = []


class _Search(msgspec.Struct):
    nrqlConditions: list[NrqlCondition] = []


class _Alerts(msgspec.Struct):
    nrqlConditionsSearch: _Search | None = None


class _Account(msgspec.Struct):
    alerts: _Alerts | None = None


class _Actor(msgspec.Struct):
    account: _Account | None = None


class ConditionsAnswer(msgspec.Struct):
    """What NerdGraph answers."""

    actor: _Actor

    @property
    def conditions(self) -> list[NrqlCondition]:
        """The conditions; none where the account's alerts cannot be read."""
        alerts = self.actor.account.alerts if self.actor.account is not None else None
        search = alerts.nrqlConditionsSearch if alerts is not None else None
        return search.nrqlConditions if search is not None else []


def condition_name(alert: Alert) -> str:
    """The name of the condition that an alert of New Relic names; "" for others."""
    for label in CONDITION_LABELS:
        if alert.labels.get(label):
            return alert.labels[label]
    hosts = [urlsplit(link.url).hostname or "" for link in alert.links]
    is_ours = any(host == "newrelic.com" or host.endswith(".newrelic.com") for host in hosts)
    return alert.title if is_ours else ""


def query_of_condition(conditions: Iterable[NrqlCondition], name: str) -> AlertQuery | None:
    """The condition of that name; None where none or several have it."""
    named = [condition for condition in conditions if condition.name == name]
    # The search compares names without case. Two conditions may also have one name.
    if len({condition.nrql.query for condition in named}) != 1:
        return None
    condition = named[0]
    text = condition.nrql.query
    critical = [term for term in condition.terms if term.priority.upper() == "CRITICAL"]
    term = next(iter([*critical, *condition.terms]), _Term())
    is_static = condition.type.upper() != "BASELINE"
    window_s = condition.signal.aggregationWindow if condition.signal is not None else None
    return AlertQuery(
        language="nrql",
        text=text,
        comparison=COMPARISONS.get(term.operator.upper()) if is_static else None,
        threshold=term.threshold if is_static else None,
        window_s=window_s or DEFAULT_WINDOW_S,
        holds_for_s=term.thresholdDuration if term.thresholdOccurrences.upper() == "ALL" else None,
        unit="%" if "percentage(" in re.split(r"(?i)\bfrom\b", text)[0].lower() else None,
    )


def timeseries(text: str, at: EvaluatedWindow, window_s: float | None) -> str:
    """The condition's query in its own aggregation windows, or in as many as New Relic answers."""
    step_s = max(window_s or DEFAULT_WINDOW_S, at.window.seconds / MOST_BUCKETS)
    seconds = math.ceil(step_s / 60) * 60 if step_s > 60 else math.ceil(step_s)
    bare = _CLAUSES.sub("", text).strip().rstrip(";")
    limit = f" LIMIT {MOST_FACETS}" if _FACET.search(bare) else ""
    return f"{bare}{limit} TIMESERIES {seconds} seconds {during(at.window)}"


def condition_series(text: str, rows: Iterable[Mapping[str, Any]]) -> list[EvaluatedSeries]:
    """The rows of a TIMESERIES, by facet."""
    match = _FACET.search(_CLAUSES.sub("", text))
    names = [name.strip(" `") for name in match[1].split(",")] if match is not None else []
    labels: dict[tuple[str, ...], dict[str, str]] = {}
    points: dict[tuple[str, ...], list[tuple[int, float]]] = {}
    for row in rows:
        begin, value = row.get("beginTimeSeconds"), _value(row, names)
        if not isinstance(begin, (int, float)) or value is None:
            continue
        facet = row.get("facet")
        values: Sequence[Any] = facet if isinstance(facet, list) else [facet]
        key = tuple(str(part) for part in values if part is not None)
        labels.setdefault(key, dict(zip(names, key, strict=False)))
        points.setdefault(key, []).append((round(begin) * 1_000_000_000, value))
    return [EvaluatedSeries(labels[key], sorted(points[key])) for key in points]


def _value(row: Mapping[str, Any], facets: Iterable[str]) -> float | None:
    """The number that the query selects: of a percentile it is in an object by its quantile."""
    for name, value in row.items():
        if name in _OF_ROWS or name in facets or isinstance(value, bool):
            continue
        number = next(iter(value.values()), None) if isinstance(value, Mapping) else value
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            return float(number)
    return None
