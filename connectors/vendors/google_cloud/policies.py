"""The condition of an alerting policy, evaluated over windows.

Policies: Monitoring API v3, `projects.alertPolicies` (a threshold on a filter, PromQL, MQL).
PromQL is evaluated by the Prometheus HTTP API of the Monitoring API, MQL by `timeSeries.query`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery, Comparison
from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.connectors.shared.contract.base import Collected
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    Point,
    evaluated,
    matrix_series,
)
from faultline.connectors.shared.rows.collection_builder import time_of
from faultline.connectors.vendors.google_cloud.metrics import (
    GoogleValue,
    SeriesAnswer,
    literal,
    series_points,
    utc,
)
from faultline.connectors.vendors.google_cloud.session import VENDOR, GoogleSession

CONSOLE = "console.cloud.google.com"
MOST_POLICIES = 20
COMPARISONS: Mapping[str, Comparison] = {
    "COMPARISON_GT": ">",
    "COMPARISON_GE": ">=",
    "COMPARISON_LT": "<",
    "COMPARISON_LE": "<=",
    "COMPARISON_EQ": "==",
    "COMPARISON_NE": "!=",
}
_METRIC = re.compile(r'metric\.type\s*=\s*"([^"]+)"')
_EQUAL = re.compile(r'(?:resource|metric)\.labels?\.(?:"([^"]+)"|(\w+))\s*=\s*"([^"]*)"')
_MQL_CONDITION = re.compile(r"(?s)\|\s*condition\s+(?P<test>[^|]+)$")
_MQL_TEST = re.compile(
    r"(?s)[\w.]+(?:\([^)]*\))?\s*(?P<sign>>=|<=|==|!=|>|<)\s*"
    r"(?P<number>-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(?:'(?P<unit>[^']*)')?\s*"
)
_SIGNS: Mapping[str, Comparison] = {sign: sign for sign in COMPARISONS.values()}
_DURATION = re.compile(r"(\d+)s")


class _Aggregation(msgspec.Struct):
    alignmentPeriod: str = ""
    perSeriesAligner: str = ""
    crossSeriesReducer: str = ""
    groupByFields: list[str] = []


class _Threshold(msgspec.Struct):
    filter: str = ""
    aggregations: list[_Aggregation] = []
    denominatorFilter: str = ""
    denominatorAggregations: list[_Aggregation] = []
    comparison: str = ""
    thresholdValue: float = 0.0
    duration: str = ""
    forecastOptions: Any = None


class _Text(msgspec.Struct):
    query: str = ""
    duration: str = ""


class PolicyCondition(msgspec.Struct):
    """One condition of a policy, of whichever kind."""

    displayName: str = ""
    conditionThreshold: _Threshold | None = None
    conditionPrometheusQueryLanguage: _Text | None = None
    conditionMonitoringQueryLanguage: _Text | None = None

    @property
    def compares(self) -> bool:
        """Whether it compares something; a line that was logged and an absence do not."""
        return bool(
            self.conditionThreshold
            or self.conditionPrometheusQueryLanguage
            or self.conditionMonitoringQueryLanguage
        )


class _Policy(msgspec.Struct):
    displayName: str = ""
    conditions: list[PolicyCondition] = []


class PoliciesAnswer(msgspec.Struct):
    """What `alertPolicies.list` answers."""

    alertPolicies: list[_Policy] = []


class _Described(msgspec.Struct):
    key: str = ""


class _SeriesDescriptor(msgspec.Struct):
    labelDescriptors: list[_Described] = []


class _LabelValue(msgspec.Struct):
    stringValue: str = ""
    int64Value: str = ""
    boolValue: bool | None = None

    @property
    def text(self) -> str:
        """It, whatever its type."""
        return self.stringValue or self.int64Value or str(self.boolValue or "").lower()


class _PointData(msgspec.Struct):
    values: list[GoogleValue] = []
    timeInterval: dict[str, str] = {}


class _SeriesData(msgspec.Struct):
    labelValues: list[_LabelValue] = []
    pointData: list[_PointData] = []


class MqlAnswer(msgspec.Struct):
    """What `timeSeries.query` answers."""

    timeSeriesDescriptor: _SeriesDescriptor = msgspec.field(default_factory=_SeriesDescriptor)
    timeSeriesData: list[_SeriesData] = []


class _MatrixSeries(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class _Matrix(msgspec.Struct):
    result: list[_MatrixSeries] = []


class MatrixAnswer(msgspec.Struct):
    """What the Prometheus HTTP API answers to a range query."""

    data: _Matrix = msgspec.field(default_factory=_Matrix)


@dataclass(frozen=True)
class NamedPolicy:
    """The policy that an alert names, and its condition, where the alert says which."""

    policy: str
    condition: str

    def params(self) -> list[tuple[str, str]]:
        """Of `alertPolicies.list`."""
        return [
            ("filter", f"display_name={literal(self.policy)}"),
            ("pageSize", str(MOST_POLICIES)),
        ]

    def chosen(self, answer: PoliciesAnswer) -> PolicyCondition | None:
        """The condition that fired; None where none or several may have."""
        every = [condition for policy in answer.alertPolicies for condition in policy.conditions]
        named = [condition for condition in every if condition.displayName == self.condition]
        usable = [condition for condition in named or every if condition.compares]
        return usable[0] if len(usable) == 1 else None


def named_policy(alert: Alert, project: str) -> NamedPolicy | None:
    """The policy of an alert of Cloud Monitoring in this project; None for other alerts."""
    links = [urlsplit(link.url) for link in alert.links]
    is_google = any(link.hostname == CONSOLE for link in links)
    of_project = alert.labels.get("project") or alert.labels.get("project_id")
    condition = alert.labels.get("condition", "")
    if of_project not in (None, project) or not (is_google or (of_project and condition)):
        return None
    return NamedPolicy(alert.title, condition)


def query_of_condition(condition: PolicyCondition) -> AlertQuery:
    """The condition as an alert's query."""
    promql, mql = (
        condition.conditionPrometheusQueryLanguage,
        condition.conditionMonitoringQueryLanguage,
    )
    if promql is not None:
        return AlertQuery(
            language="promql", text=promql.query, holds_for_s=_seconds(promql.duration)
        )
    if mql is not None:
        text, test = mql_parts(mql.query)
        return AlertQuery(
            language="mql",
            text=text,
            comparison=_SIGNS.get(test["sign"]) if test else None,
            threshold=float(test["number"]) if test else None,
            unit=(test["unit"] or None) if test else None,
            holds_for_s=_seconds(mql.duration),
        )
    threshold = condition.conditionThreshold or _Threshold()
    metric = _METRIC.search(threshold.filter)
    dimensions = {}
    for in_quotes, plain, value in _EQUAL.findall(threshold.filter):
        dimensions[in_quotes or plain] = value
    is_ratio = bool(threshold.denominatorFilter)
    return AlertQuery(
        language="metric",
        text=metric[1] if metric is not None else condition.displayName,
        comparison=COMPARISONS.get(threshold.comparison),
        threshold=threshold.thresholdValue,
        holds_for_s=_seconds(threshold.duration),
        dimensions=dimensions,
        unit="ratio" if is_ratio else None,
    )


def mql_parts(text: str) -> tuple[str, re.Match[str] | None]:
    """What an MQL condition measures, and its comparison with a number."""
    condition = _MQL_CONDITION.search(text)
    if condition is None:
        return text, None
    return text[: condition.start()].strip(), _MQL_TEST.fullmatch(condition["test"].strip())


async def evaluated_condition(
    session: GoogleSession,
    project: str,
    condition: PolicyCondition,
    scope: Scope,
    link: str,
) -> Collected:
    """What the condition gives against its threshold. Raises FaultlineError."""
    query = query_of_condition(condition)
    queries = _ConditionQueries(session, quote(project, safe=":"))
    threshold = condition.conditionThreshold
    if query.language == "promql":
        return await evaluated(query, scope, queries.promql, link=link)
    if query.threshold is None or query.comparison is None:
        problem = "the condition compares its value with no plain number"
        raise ConnectorError(VENDOR, "alertPolicies", problem)
    if query.language == "mql":
        return await evaluated(query, scope, queries.mql, link=link, unit=query.unit)
    if threshold is None or threshold.forecastOptions is not None:
        problem = "the condition is about a forecast, which has no past"
        raise ConnectorError(VENDOR, "alertPolicies", problem)

    async def ask(_: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        above = await queries.filtered(threshold.filter, threshold.aggregations, at.window)
        if not threshold.denominatorFilter:
            return above
        below = await queries.filtered(
            threshold.denominatorFilter, threshold.denominatorAggregations, at.window
        )
        divisors = {series.key: dict(series.points) for series in below}
        ratios = []
        for series in above:
            by_time = divisors.get(series.key, {})
            # Where the denominator is zero there is no ratio.
            points = [(at, value / by_time[at]) for at, value in series.points if by_time.get(at)]
            ratios.append(EvaluatedSeries(series.labels, points))
        return ratios

    return await evaluated(query, scope, ask, link=link, unit=query.unit)


@dataclass(frozen=True)
class _ConditionQueries:
    """A condition's query in each of its three languages."""

    session: GoogleSession
    project: str

    async def promql(self, text: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        """Of the Prometheus HTTP API, which takes GET."""
        path = f"/v1/projects/{self.project}/location/global/prometheus/api/v1/query_range"
        params = [
            ("query", text),
            ("start", utc(at.window.start)),
            ("end", utc(at.window.end)),
            ("step", f"{at.step_s}s"),
        ]
        answer = await self.session.get(path, params, type=MatrixAnswer)
        return matrix_series(answer.data.result)

    async def mql(self, text: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
        """Of `timeSeries.query`, which takes POST and only reads."""
        times = f"d'{at.window.start:%Y/%m/%d-%H:%M:%S}', d'{at.window.end:%Y/%m/%d-%H:%M:%S}'"
        path = f"/v3/projects/{self.project}/timeSeries:query"
        answer = await self.session.time_series(
            path, {"query": f"{text} | within {times}"}, type=MqlAnswer
        )
        names = [label.key for label in answer.timeSeriesDescriptor.labelDescriptors]
        every = []
        for series in answer.timeSeriesData:
            points: list[Point] = []
            for point in series.pointData:
                moment = time_of(point.timeInterval.get("endTime", ""))
                number = point.values[0].number if point.values else None
                if moment is not None and number is not None:
                    points.append((moment, number))
            values = [value.text for value in series.labelValues]
            labels = {k: v for k, v in zip(names, values, strict=False) if v}
            every.append(EvaluatedSeries(labels, sorted(points)))
        return every

    async def filtered(
        self, text: str, aggregations: Sequence[_Aggregation], window: Window
    ) -> list[EvaluatedSeries]:
        """Of `timeSeries.list`, with the condition's own alignment."""
        params = [
            ("filter", text),
            ("interval.startTime", utc(window.start)),
            ("interval.endTime", utc(window.end)),
        ]
        names = ("aggregation", "secondaryAggregation")
        for name, aggregation in zip(names, aggregations, strict=False):
            values = {
                "alignmentPeriod": aggregation.alignmentPeriod,
                "perSeriesAligner": aggregation.perSeriesAligner,
                "crossSeriesReducer": aggregation.crossSeriesReducer,
            }
            params += [(f"{name}.{key}", value) for key, value in values.items() if value]
            params += [(f"{name}.groupByFields", field) for field in aggregation.groupByFields]
        path = f"/v3/projects/{self.project}/timeSeries"
        answer = await self.session.get(path, params, type=SeriesAnswer)
        every = []
        for series in answer.timeSeries:
            labels = {**series.resource.labels, **series.metric.labels}
            labels.pop("project_id", None)
            every.append(EvaluatedSeries(labels, sorted(series_points(series))))
        return every


def _seconds(text: str) -> float | None:
    match = _DURATION.fullmatch(text)
    return float(match[1]) or None if match is not None else None
