"""Rules in PromQL, and in LogQL once its pipelines are taken out: what is compared with what."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import promql_parser as pql

from faultline.analysis.alert_signal.rule_texts import (
    MetricSelection,
    QueryReading,
    single_value,
)
from faultline.analysis.kinds.signals import Comparison

LONGEST = 4096
"""Characters of an expression that is parsed: the longest of 1,717 real rules has 1,063, and the
parser's time grows with the square of the operators."""
COMPARISONS: dict[str, Comparison] = {
    ">": ">", ">=": ">=", "<": "<", "<=": "<=", "==": "==", "!=": "!=",
}  # fmt: skip
MIRRORED: dict[Comparison, Comparison] = {">": "<", ">=": "<=", "<": ">", "<=": ">="}
_KEEPING = frozenset({"topk", "bottomk", "limitk", "limit_ratio"})
"""Aggregations that choose series and keep their labels."""
_AFTER_SELECTOR = re.compile(r"(\{[^{}]*\})([^\[\]{}]*)(?=\[)")
_LOG_FUNCTIONS = re.compile(r"\b(bytes_rate|bytes_over_time|rate_counter|first_over_time)\b")
_OUTCOME = re.compile(r"(?i)code|status|result|outcome|error|response")
_GOOD = re.compile(r"(?i)\^?(\(?[23]|0(?:\||$)|ok\b|success|no ?error|$)")
_GRPC_FAILED = re.compile(r"\^?\(?(?:(?:1[0-6]|[1-9])(?:\||\)?\$?$))+")
"""gRPC's own numbers of its status codes, without that of OK."""
_BAD_ESCAPE = re.compile(r'\\(?![abfnrtv\\"\'0-7xuU])')


def read_promql(text: str) -> QueryReading | None:
    """The rule taken apart; None for what is no PromQL, or too long or too deep."""
    tree = parsed(text)
    if tree is None:
        return None
    try:
        comparison = _deciding_comparison(tree)
        if comparison is None:
            return _measured(tree, QueryReading())
        left, right = comparison.lhs, comparison.rhs
        operator = COMPARISONS[str(comparison.op)]
        # Rules may put the number first, as in `0.9 > up`: turn the comparison round.
        if constant_of(left) is not None and constant_of(right) is None:
            left, right = right, left
            operator = MIRRORED.get(operator, operator)
        bounds = QueryReading(comparison=operator, threshold=constant_of(right))
        reading = _measured(left, bounds)
        other = _Collected.of(right)
        # A limit that is itself measured divides, as "used > 0.8 * limit" means a share of it.
        divisors = (*reading.divisors, *other.above)
        grouped = _grouping(tree).labels if reading.grouped is None else reading.grouped
        return replace(reading, divisors=divisors, grouped=grouped)
    # A rule that is nested too deeply is read as none.
    except RecursionError:
        return None


def read_logql(text: str) -> QueryReading | None:
    """A rule of Loki. What its lines must hold counts as a word of what is measured."""
    line_words: list[str] = []

    def without_pipeline(match: re.Match[str]) -> str:
        line_words.append(match[2])
        return match[1]

    plain = _AFTER_SELECTOR.sub(without_pipeline, text[:LONGEST])
    reading = read_promql(_LOG_FUNCTIONS.sub("rate", plain))
    if reading is None:
        return None
    words = " ".join(line_words)
    measured = [
        replace(selection, metric=f"log lines {words}".strip()) for selection in reading.measured
    ]
    return replace(reading, measured=tuple(measured))


def parsed(text: str) -> pql.Expr | None:
    """The tree of an expression; None for what is no PromQL, or too long or too deep."""
    if len(text) > LONGEST:
        return None
    # Rules hold escapes such as `\.` that the parser refuses: try again with them doubled.
    for tried in (text, _BAD_ESCAPE.sub(r"\\\\", text)):
        try:
            return pql.parse(tried)
        except (ValueError, RecursionError):
            continue
    return None


def _deciding_comparison(tree: pql.Expr) -> pql.BinaryExpr | None:
    """The comparison that an alert fires by: the outermost, left of `and`, `or` and `unless`."""
    for node in _outside_in(tree):
        if isinstance(node, pql.BinaryExpr) and str(node.op) in COMPARISONS:
            return node
    return None


def _outside_in(tree: pql.Expr) -> Iterator[pql.Expr]:
    """The nodes of the tree, breadth first."""
    level = [tree]
    while level:
        yield from level
        level = [child for node in level for child in _children(node)]


def _children(node: pql.Expr) -> Sequence[pql.Expr]:
    if isinstance(node, pql.BinaryExpr):
        # What stands right of a set operator narrows the alert down, and decides nothing.
        return (node.lhs,) if str(node.op) in ("and", "unless") else (node.lhs, node.rhs)
    if isinstance(node, pql.Call):
        return list(node.args)
    if isinstance(node, (pql.ParenExpr, pql.UnaryExpr, pql.AggregateExpr, pql.SubqueryExpr)):
        return (node.expr,)
    return ()


def constant_of(node: pql.Expr) -> float | None:
    """The value of an expression of numbers alone."""
    if isinstance(node, pql.NumberLiteral):
        return node.val
    if isinstance(node, pql.ParenExpr):
        return constant_of(node.expr)
    if isinstance(node, pql.UnaryExpr):
        value = constant_of(node.expr)
        return None if value is None else -value
    if not isinstance(node, pql.BinaryExpr):
        return None
    left, right = constant_of(node.lhs), constant_of(node.rhs)
    if left is None or right is None:
        return None
    return _computed(str(node.op), left, right)


def _computed(operator: str, left: float, right: float) -> float | None:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    if operator == "/" and right:
        return left / right
    return None


@dataclass
class _Collected:
    """What is met on the way down an expression."""

    above: list[MetricSelection] = field(default_factory=list)
    below: list[MetricSelection] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)
    quantile: float | None = None
    window_s: float | None = None
    complement: bool = False
    since: bool = False
    until: bool = False
    percent: bool = False

    @classmethod
    def of(cls, tree: pql.Expr) -> _Collected:
        parts = cls()
        parts.visit(tree, divides=False)
        return parts

    def visit(self, node: pql.Expr, *, divides: bool) -> None:
        if isinstance(node, pql.VectorSelector):
            (self.below if divides else self.above).append(_selection(node))
        elif isinstance(node, pql.MatrixSelector):
            self._keep_window(node.range.total_seconds())
            self.visit(node.vector_selector, divides=divides)
        elif isinstance(node, pql.BinaryExpr):
            self._visit_binary(node, divides=divides)
        elif isinstance(node, pql.Call):
            self._visit_call(node, divides=divides)
        else:
            if isinstance(node, pql.SubqueryExpr) and node.range is not None:
                self._keep_window(node.range.total_seconds())
            if isinstance(node, pql.AggregateExpr):
                self.functions.add(str(node.op))
            for child in _children(node):
                self.visit(child, divides=divides)

    def _keep_window(self, seconds: float) -> None:
        if self.window_s is None:
            self.window_s = seconds

    def _visit_call(self, node: pql.Call, *, divides: bool) -> None:
        name = node.func.name
        self.functions.add(name)
        if name in ("histogram_quantile", "quantile_over_time") and self.quantile is None:
            self.quantile = constant_of(node.args[0])
        for argument in node.args:
            self.visit(argument, divides=divides)

    def _visit_binary(self, node: pql.BinaryExpr, *, divides: bool) -> None:
        operator = str(node.op)
        # `1 - x` and `100 - x` measure what is left; with the clock, a span of time.
        if operator == "-":
            self.complement = self.complement or _is_number(node.lhs, 1, 100)
            self.since = self.since or _is_clock(node.lhs)
            self.until = self.until or _is_clock(node.rhs)
        if operator == "*":
            self.percent = self.percent or _is_number(node.lhs, 100) or _is_number(node.rhs, 100)
        self.visit(node.lhs, divides=divides)
        if operator in ("and", "unless"):
            return
        self.visit(node.rhs, divides=divides or operator == "/")


def _is_number(node: pql.Expr, *numbers: float) -> bool:
    while isinstance(node, pql.ParenExpr):
        node = node.expr
    return isinstance(node, pql.NumberLiteral) and node.val in numbers


def _is_clock(node: pql.Expr) -> bool:
    while isinstance(node, pql.ParenExpr):
        node = node.expr
    return isinstance(node, pql.Call) and node.func.name == "time"


def _measured(tree: pql.Expr, bounds: QueryReading) -> QueryReading:
    parts = _Collected.of(tree)
    return replace(
        bounds,
        measured=tuple(parts.above),
        divisors=tuple(parts.below),
        functions=frozenset(parts.functions),
        quantile=parts.quantile,
        complement=parts.complement,
        since=parts.since,
        until=parts.until,
        percent=parts.percent,
        grouped=_grouping(tree).labels,
        window_s=parts.window_s,
    )


def _selection(node: pql.VectorSelector) -> MetricSelection:
    equal: dict[str, str] = {}
    alike: dict[str, str] = {}
    name = node.name or ""
    for matcher in node.matchers.matchers:
        only = matcher.value if matcher.op == pql.MatchOp.Equal else None
        if matcher.op == pql.MatchOp.Re:
            only = single_value(matcher.value)
        if matcher.name == "__name__" and matcher.op in (pql.MatchOp.Equal, pql.MatchOp.Re):
            name = matcher.value
        elif _is_grpc_failure(matcher):
            alike[f"failing {matcher.name}"] = "error"
        elif only:
            equal[matcher.name] = only
        elif matcher.op == pql.MatchOp.Re:
            alike[matcher.name] = matcher.value
        elif _OUTCOME.search(matcher.name) and _GOOD.match(matcher.value):
            # All but the good outcomes: what fails.
            alike[f"not good {matcher.name}"] = "error"
    return MetricSelection(name, equal, alike)


def _is_grpc_failure(matcher: pql.Matcher) -> bool:
    is_code = "grpc" in matcher.name and _OUTCOME.search(matcher.name) is not None
    chooses = matcher.op in (pql.MatchOp.Equal, pql.MatchOp.Re)
    return is_code and chooses and _GRPC_FAILED.fullmatch(matcher.value) is not None


@dataclass(frozen=True)
class _Grouping:
    """The labels that an expression's result keeps: None for all, none for a total."""

    selects: bool
    """Whether there are any series in it: numbers have no labels."""
    labels: tuple[str, ...] | None = None


def _grouping(tree: pql.Expr) -> _Grouping:
    if isinstance(tree, (pql.VectorSelector, pql.MatrixSelector)):
        return _Grouping(selects=True)
    if isinstance(tree, pql.AggregateExpr):
        return _aggregate_grouping(tree)
    if isinstance(tree, pql.Call) and tree.func.name in ("absent", "absent_over_time", "vector"):
        return _Grouping(selects=True, labels=())
    for child in _children(tree):
        grouping = _grouping(child)
        if grouping.selects:
            return grouping
    return _Grouping(selects=False)


def _aggregate_grouping(node: pql.AggregateExpr) -> _Grouping:
    inner = _grouping(node.expr)
    modifier = node.modifier
    if str(node.op) in _KEEPING:
        return inner
    if modifier is None:
        return _Grouping(selects=True, labels=())
    if modifier.type == pql.AggModifierType.By:
        # `le` tells the buckets of a histogram apart, and goes with the quantile.
        labels = tuple(label for label in modifier.labels if label != "le")
        return _Grouping(selects=True, labels=labels)
    if inner.labels is None:
        return _Grouping(selects=True)
    remaining_labels = tuple(label for label in inner.labels if label not in modifier.labels)
    return _Grouping(selects=True, labels=remaining_labels)
