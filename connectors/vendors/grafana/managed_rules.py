"""Rules that Grafana manages, whole: which data source they ask, what, and from which value on they
fire.

A rule is a chain of nodes: queries of data sources, and expressions on them (reduce, threshold,
math, classic conditions). Read from grafana/grafana as of 2026 (pkg/services/ngalert/api/tooling/
definitions/cortex-ruler.go, GettableGrafanaRule; pkg/expr). Data sources are asked through
`/api/datasources/proxy/uid/`, which needs `datasources:query`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.alert_signal.conditions import GRAFANA_RULE
from faultline.analysis.kinds.signals import AlertQuery, Comparison, QueryLanguage
from faultline.analysis.vocabulary import Alert

MANAGED_RULES = "/api/ruler/grafana/api/v1/rules"
PROXY = "/api/datasources/proxy/uid"
EXPRESSIONS = frozenset({"__expr__", "-100"})
MOST_NODES = 8
"""Of a chain from the condition down to its query."""
COMPARISONS: Mapping[str, Comparison] = {
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "eq": "==",
    "ne": "!=",
}
"""Grafana's words for comparisons with one number (pkg/expr/threshold.go)."""
SOURCES: Mapping[str, tuple[QueryLanguage, str]] = {
    "prometheus": ("promql", "/api/v1/query_range"),
    "grafana-amazonprometheus-datasource": ("promql", "/api/v1/query_range"),
    "loki": ("logql", "/loki/api/v1/query_range"),
}
"""By type of the data source, its language and its call. Mimir, Thanos and VictoriaMetrics are
sources of type prometheus."""
_BY_SIGN: Mapping[str, Comparison] = {sign: sign for sign in COMPARISONS.values()}
_MATH = re.compile(
    r"\s*\$\{?(?P<node>\w+)\}?\s*(?P<sign>>=|<=|==|!=|>|<)\s*(?P<number>[-+]?\d+(?:\.\d+)?)\s*"
)


class RuleNode(msgspec.Struct):
    refId: str = ""
    datasourceUid: str = ""
    model: dict[str, Any] = {}

    def source(
        self, comparison: Comparison | None, threshold: float | None
    ) -> QueriedSource | None:
        """What a node that is no expression asks; None where its source has no such call."""
        text = self.model.get("expr")
        source = self.model.get("datasource")
        kind = source.get("type") if isinstance(source, dict) else None
        # Rules that were provisioned from files may leave the type out.
        language, call = SOURCES.get(kind or "prometheus", (None, ""))
        if not isinstance(text, str) or not text.strip() or language is None:
            return None
        query = AlertQuery(
            language=language, text=text.strip(), comparison=comparison, threshold=threshold
        )
        return QueriedSource(f"{PROXY}/{quote(self.datasourceUid, safe='')}{call}", query)

    def expression(self) -> tuple[str, Comparison | None, float | None]:
        """The node below an expression, and the comparison that it makes. An expression that joins
        several nodes has none below it."""
        try:
            node = msgspec.convert(self.model, ExpressionModel)
        except msgspec.ValidationError:
            return "", None, None
        if node.type == "math":
            match = _MATH.fullmatch(node.expression[:200])
            if match is None:
                return "", None, None
            return match["node"], _BY_SIGN[match["sign"]], float(match["number"])
        if node.type == "reduce":
            return node.expression, None, None
        if node.type not in ("threshold", "classic_conditions") or len(node.conditions) != 1:
            return "", None, None
        condition = node.conditions[0]
        comparison = COMPARISONS.get(condition.evaluator.type)
        if comparison is None or not condition.evaluator.params:
            return "", None, None
        below = node.expression
        if node.type == "classic_conditions":
            below = "".join(condition.query.params[:1])
        return below, comparison, condition.evaluator.params[0]


class ManagedAlert(msgspec.Struct):
    title: str = ""
    uid: str = ""
    condition: str = ""
    data: list[RuleNode] = []


class ManagedRule(msgspec.Struct):
    grafana_alert: ManagedAlert = msgspec.field(default_factory=ManagedAlert)


class ManagedGroup(msgspec.Struct):
    rules: list[ManagedRule] = []


class Evaluator(msgspec.Struct):
    type: str = ""
    params: list[float] = []


class QueriedNodes(msgspec.Struct):
    params: list[str] = []


class RuleCondition(msgspec.Struct):
    evaluator: Evaluator = msgspec.field(default_factory=Evaluator)
    query: QueriedNodes = msgspec.field(default_factory=QueriedNodes)


class ExpressionModel(msgspec.Struct):
    """The model of a node that is an expression."""

    type: str = ""
    expression: str = ""
    conditions: list[RuleCondition] = []


class MatrixSeries(msgspec.Struct):
    metric: dict[str, str] = {}
    values: list[tuple[float, str]] = []


class Matrix(msgspec.Struct):
    result: list[MatrixSeries]


class MatrixAnswer(msgspec.Struct):
    """The answer of Prometheus and of Loki to a range query."""

    data: Matrix


@dataclass(frozen=True)
class QueriedSource:
    """What a rule asks: the path of its data source's call, and the query with its threshold."""

    path: str
    query: AlertQuery


def linked_rules(alert: Alert) -> list[str]:
    """The uids of the rules that the alert's links lead to."""
    return [match[1] for link in alert.links if (match := GRAFANA_RULE.search(link.url))]


def managed_rule(folders: Mapping[str, Sequence[ManagedGroup]], alert: Alert) -> ManagedRule | None:
    """The rule by the uid in the alert's links, else the only one of its name."""
    rules = [rule for groups in folders.values() for group in groups for rule in group.rules]
    linked = linked_rules(alert)
    for rule in rules:
        if rule.grafana_alert.uid in linked:
            return rule
    name = alert.labels.get("alertname")
    named = [rule for rule in rules if rule.grafana_alert.title == name]
    return named[0] if len(named) == 1 and not linked else None


def queried_source(rule: ManagedRule) -> QueriedSource | None:
    """The query below the rule's condition; None where several are joined, or its data source has
    no such call."""
    nodes = {node.refId: node for node in rule.grafana_alert.data}
    node = nodes.get(rule.grafana_alert.condition)
    comparison: Comparison | None = None
    threshold: float | None = None
    for _ in range(MOST_NODES):
        if node is None:
            return None
        if node.datasourceUid not in EXPRESSIONS:
            return node.source(comparison, threshold)
        below, sign, number = node.expression()
        if sign is not None:
            comparison, threshold = sign, number
        node = nodes.get(below)
    return None
