"""The condition of an alert rule taken apart: what it measures, what it compares that with, and
what has to be asked to know when it was true."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import promql_parser as pql

from faultline.analysis.alert_signal.promql import COMPARISONS, MIRRORED, constant_of, parsed
from faultline.analysis.kinds.signals import AlertQuery, Comparison
from faultline.analysis.vocabulary import Link

_COMPARED = re.compile(
    r"(?P<operator>>=|<=|==|!=|>|<)\s*(?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)$"
)
_COMPARE: Mapping[Comparison, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_ABSENT = frozenset({"absent", "absent_over_time"})


@dataclass(frozen=True)
class AlertCondition:
    """A rule's condition. Without `measured` only the whole expression can be asked, which has a
    value while it is true."""

    whole: str
    measured: str | None = None
    """What is compared: it has a value whether the condition is true or not."""
    comparison: Comparison | None = None
    threshold: float | None = None
    decides: bool = False
    """Whether the comparison with the threshold alone decides, so that `measured` is enough."""
    is_absence: bool = False
    """Whether it is true where there is no series."""

    def holds(self, value: float) -> bool:
        """Whether a measured value is beyond the threshold."""
        if self.threshold is None or self.comparison is None or math.isnan(value):
            return False
        return bool(_COMPARE[self.comparison](value, self.threshold))


def condition_of(query: AlertQuery) -> AlertCondition:
    """The condition of a query in any language. Never fails: what cannot be taken apart is asked
    as it is."""
    if query.language == "promql":
        condition = _promql(query.text)
    elif query.language == "logql":
        condition = _trailing(query.text)
    else:
        condition = AlertCondition(query.text, query.text)
    # The sender's own threshold stands for one that the text lacks, as Grafana's rules do.
    if condition.threshold is None and query.threshold is not None and query.comparison:
        return AlertCondition(
            query.text, condition.measured or query.text, query.comparison, query.threshold, True
        )
    return condition


GRAFANA_RULE = re.compile(r"/alerting/(?:grafana/)?([\w-]{1,64})/(?:view|edit)")
"""The page of a rule that Grafana manages, with the rule's uid."""


def is_complete(query: AlertQuery, links: Iterable[Link]) -> bool:
    """Whether the query says when it is true. Grafana keeps the threshold of its rules apart from
    the expression, which then has a value at all times."""
    condition = condition_of(query)
    if condition.comparison is not None or condition.is_absence:
        return True
    return not any(GRAFANA_RULE.search(link.url) for link in links)


def _promql(text: str) -> AlertCondition:
    tree = parsed(text)
    if tree is None:
        # MetricsQL and other dialects: the server may still know it.
        return _trailing(text)
    node, narrowed = _bare(tree), False
    # What stands right of `and` and `unless` narrows the alert down, and measures nothing.
    while isinstance(node, pql.BinaryExpr) and str(node.op) in ("and", "unless"):
        node, narrowed = _bare(node.lhs), True
    if isinstance(node, pql.Call) and node.func.name in _ABSENT:
        return AlertCondition(text, is_absence=True)
    branches = list(_branches(node))
    comparisons = [_comparison(branch) for branch in branches]
    first = comparisons[0]
    if first is None or any(other is None or other[1:] != first[1:] for other in comparisons):
        return AlertCondition(text)
    measured = [side.prettify() for side, _, _ in filter(None, comparisons)]
    joined = measured[0] if len(measured) == 1 else " or ".join(f"({part})" for part in measured)
    _, comparison, threshold = first
    decides = threshold is not None and not narrowed
    return AlertCondition(text, joined, comparison, threshold, decides)


def _bare(node: pql.Expr) -> pql.Expr:
    while isinstance(node, pql.ParenExpr):
        node = node.expr
    return node


def _branches(node: pql.Expr) -> Iterator[pql.Expr]:
    """The alternatives that `or` joins."""
    node = _bare(node)
    if isinstance(node, pql.BinaryExpr) and str(node.op) == "or":
        yield from _branches(node.lhs)
        yield from _branches(node.rhs)
    else:
        yield node


def _comparison(node: pql.Expr) -> tuple[pql.Expr, Comparison, float | None] | None:
    """What is measured, how it is compared, and with which number; None for a number that is
    itself measured."""
    if not isinstance(node, pql.BinaryExpr) or str(node.op) not in COMPARISONS:
        return None
    # With `bool` the result is 0 or 1, and so it is always there.
    if node.modifier is not None and node.modifier.return_bool:
        return None
    comparison = COMPARISONS[str(node.op)]
    left, right = constant_of(node.lhs), constant_of(node.rhs)
    if left is not None and right is None:
        return _bare(node.rhs), MIRRORED.get(comparison, comparison), left
    return _bare(node.lhs), comparison, right


def _trailing(text: str) -> AlertCondition:
    """A comparison with a number at the very end, outside of all brackets: how rules of Loki and
    queries of unknown dialects end."""
    text = text.strip()
    match = _COMPARED.search(text)
    if match is None:
        return AlertCondition(text)
    depth, quote = 0, ""
    for place, char in enumerate(text[: match.start()]):
        if quote:
            if char == quote and text[place - 1] != "\\":
                quote = ""
        elif char in "\"'`":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
    # Within a string or brackets it compares something else.
    if quote or depth > 0:
        return AlertCondition(text)
    measured = text[: match.start()].strip()
    comparison = COMPARISONS[match["operator"]]
    return AlertCondition(text, measured, comparison, float(match["number"]), True)
