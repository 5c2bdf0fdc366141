"""The query of a Grafana rule, by its uid in an alert's links or by its name.

Grafana's rules API joins the expressions of a rule's data sources with " | ", and sends the whole
model as JSON where one of them has none (pkg/services/ngalert/api/prometheus, `ruleToQuery`). What
they are compared with stands in neither.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from faultline.analysis.alert_signal.conditions import GRAFANA_RULE
from faultline.analysis.alert_signal.promql import read_promql
from faultline.analysis.alert_signal.rule_texts import expression_in_json, query_of_expression
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert

JOINED = " | "


class GrafanaRuleQuery(msgspec.Struct):
    """What a rule asks."""

    name: str = ""
    uid: str | None = None
    query: str | None = None
    duration: float | None = None


class GrafanaQueryGroup(msgspec.Struct):
    rules: list[GrafanaRuleQuery] | None = None


class GrafanaQueryGroups(msgspec.Struct):
    groups: list[GrafanaQueryGroup]


class RuleQueriesAnswer(msgspec.Struct):
    data: GrafanaQueryGroups

    @property
    def rules(self) -> Iterable[GrafanaRuleQuery]:
        """All rules of all groups."""
        for group in self.data.groups:
            yield from group.rules or ()


def query_of_grafana_rule(answer: RuleQueriesAnswer, alert: Alert) -> AlertQuery | None:
    """The query of the rule that sent the alert: by the uid in its links, else by its name."""
    linked = [match[1] for link in alert.links if (match := GRAFANA_RULE.search(link.url))]
    name = alert.labels.get("alertname")
    named: AlertQuery | None = None
    for rule in answer.rules:
        if rule.uid in linked:
            return _query(rule)
        if named is None and rule.name == name:
            named = _query(rule)
    return None if linked else named


def _query(rule: GrafanaRuleQuery) -> AlertQuery | None:
    text = rule.query or ""
    # The pipelines of LogQL hold the same mark, so the whole is tried first.
    for part in (text, *text.split(JOINED), expression_in_json(text)):
        query = query_of_expression(part)
        if query is not None and (query.language == "logql" or read_promql(part) is not None):
            return query.model_copy(update={"holds_for_s": rule.duration})
    return None
