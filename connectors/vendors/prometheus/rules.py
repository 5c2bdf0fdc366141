"""Alert rules by name, as Prometheus tells them: for alerts whose sender gives no expression.

prometheus.io/docs/prometheus/latest/querying/api/#rules. Servers older than 2.52 ignore
`rule_name[]` and send all rules, so names are compared here too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from faultline.analysis.alert_signal.rule_texts import query_of_expression
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert

RULES = "/api/v1/rules"
NAME_LABEL = "alertname"


class PrometheusRule(msgspec.Struct):
    """An alert rule; recording rules have no `duration`."""

    name: str = ""
    query: str = ""
    duration: float | None = None
    labels: dict[str, str] = {}


class PrometheusRuleGroup(msgspec.Struct):
    rules: list[PrometheusRule] = []


class PrometheusRuleGroups(msgspec.Struct):
    groups: list[PrometheusRuleGroup] = []


class PrometheusRules(msgspec.Struct):
    data: PrometheusRuleGroups


def rule_params(name: str) -> Sequence[tuple[str, str]]:
    """What is asked for a rule of that name."""
    return (("type", "alert"), ("rule_name[]", name))


def query_of_rule(answer: PrometheusRules, alert: Alert) -> AlertQuery | None:
    """The query of the rule that sent the alert: of several with its name, the one whose labels
    the alert carries."""
    closest_rule: tuple[int, PrometheusRule] | None = None
    for group in answer.data.groups:
        for rule in group.rules:
            if rule.name != alert.labels.get(NAME_LABEL):
                continue
            fit = _fit(rule.labels, alert.labels)
            # Of rules that fit equally well the first stays.
            if fit is not None and (closest_rule is None or fit > closest_rule[0]):
                closest_rule = fit, rule
    if closest_rule is None:
        return None
    query = query_of_expression(closest_rule[1].query)
    return query and query.model_copy(update={"holds_for_s": closest_rule[1].duration})


def _fit(rule_labels: Mapping[str, str], carried: Mapping[str, str]) -> int | None:
    """How many of the rule's labels the alert carries; None where it has another value of one.
    Templates are filled in when the alert fires, so they fit anything."""
    agreed = 0
    for label, value in rule_labels.items():
        if "{{" in value:
            continue
        if carried.get(label, value) != value:
            return None
        agreed += label in carried
    return agreed
