"""How often the signal and the service of an alert rule are derived rightly: on 200 real rules that
were labelled by hand before the deriver was written.

    python benchmarks/alert_signals.py [--errors dev|test]

The rules were drawn with a fixed seed, stratified by monitor, from `alert-rules.jsonl` of the
shared data; their texts are not part of the project, so a label knows its rule by a hash of its
line. Every second rule of a stratum is for development, the others for the test. Some rules have
several right answers (an alert on failed backups is about failures and about a job); `first` counts
only the first of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from faultline.analysis.alert_signal.deriving import watched_signal
from faultline.analysis.kinds.signals import AlertQuery, WatchedSignal
from faultline.analysis.vocabulary import Alert

ROOT = Path(__file__).parent.parent
RULES = ROOT.parent / "shared" / "data" / "specs" / "alert-rules.jsonl"
LABELS = ROOT / "tests" / "analysis" / "alert_signal" / "labels.json"
COMPARISONS = {
    "GreaterThanThreshold": ">",
    "GreaterThanOrEqualToThreshold": ">=",
    "LessThanThreshold": "<",
    "LessThanOrEqualToThreshold": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "COMPARISON_GT": ">",
    "COMPARISON_LT": "<",
}


@dataclass(frozen=True)
class GradedRule:
    """A rule, what was derived, and whether it is right. `service` is None where no reader of the
    product could know it."""

    source: str
    half: str
    title: str
    watched: WatchedSignal
    label: Mapping[str, Any]
    signal: bool
    first: bool
    service: bool | None

    @property
    def right(self) -> bool:
        """Whether the signal is right, and the service where it could be known."""
        return self.signal and self.service is not False


def graded_rules() -> Iterator[GradedRule]:
    """Every labelled rule with its grade."""
    labels = json.loads(LABELS.read_text())
    for line in RULES.read_bytes().splitlines():
        label = labels.get(hashlib.sha256(line).hexdigest()[:16])
        if label is not None:
            yield _graded(json.loads(line), label)


def _graded(rule: Mapping[str, Any], label: Mapping[str, Any]) -> GradedRule:
    watched = watched_signal(alert_of(rule))
    signal = watched.signal_class.value
    services = label["services"]
    return GradedRule(
        source=rule["source"],
        half=label["half"],
        title=rule["title"],
        watched=watched,
        label=label,
        signal=signal in label["signals"],
        first=signal == label["signals"][0],
        service=naming(watched) in services if services else None,
    )


def naming(watched: WatchedSignal) -> str:
    """What names the service, as the labels write it."""
    if watched.service:
        return f"literal:{watched.service}"
    if watched.service_label:
        return f"label:{watched.service_label}"
    return "labels" if watched.keeps_labels else "none"


def alert_of(rule: Mapping[str, Any]) -> Alert:
    """The alert that the rule would send, without the labels of a series."""
    texts = [str(text) for text in rule["annotations"].values()]
    return Alert(
        source=rule["source"],
        title=rule["title"],
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        summary=" ".join(texts) or None,
        query=query_of(rule["source"], rule["expression_or_query"]),
    )


def query_of(source: str, raw_query: Any) -> AlertQuery | None:
    """The rule's query in one of the product's languages."""
    if source == "prometheus":
        return AlertQuery(language="promql", text=raw_query)
    if source == "datadog":
        return AlertQuery(language="datadog", text=raw_query)
    readers = {
        "grafana": _grafana,
        "cloudwatch": _cloudwatch,
        "azure-monitor": _azure,
        "google-cloud-monitoring": _google,
        "honeycomb": _honeycomb,
        "newrelic": _newrelic,
    }
    return readers[source](raw_query) if source in readers else None


def _grafana(raw_query: Sequence[Mapping[str, Any]]) -> AlertQuery | None:
    for part in raw_query:
        model = part.get("model")
        if isinstance(model, dict) and model.get("expr"):
            return AlertQuery(language="promql", text=model["expr"])
    return None


def _cloudwatch(raw_query: Mapping[str, Any]) -> AlertQuery:
    metric = raw_query
    for query in raw_query.get("Metrics", []):
        if "MetricStat" in query:
            metric = {**query["MetricStat"]["Metric"], "Statistic": query["MetricStat"]["Stat"]}
            break
    dimensions = {
        str(dimension["Name"]): json.dumps(dimension["Value"])
        for dimension in metric.get("Dimensions", [])
    }
    return AlertQuery(
        language="metric",
        text=metric["MetricName"],
        namespace=json.dumps(metric.get("Namespace")),
        statistic=str(metric.get("Statistic") or metric.get("ExtendedStatistic") or ""),
        comparison=COMPARISONS.get(str(raw_query.get("ComparisonOperator"))),
        threshold=_number(raw_query.get("Threshold")),
        dimensions=dimensions,
    )


def _azure(raw_query: Mapping[str, Any]) -> AlertQuery | None:
    if "metricName" not in raw_query:
        return None
    dimensions = {}
    for dimension in raw_query.get("dimensions", []):
        dimensions[dimension["name"]] = " ".join(dimension["values"])
    return AlertQuery(
        language="metric",
        text=raw_query["metricName"],
        namespace=raw_query.get("metricNamespace"),
        statistic=raw_query.get("timeAggregation"),
        comparison=COMPARISONS.get(str(raw_query.get("operator"))),
        threshold=_number(raw_query.get("threshold")),
        dimensions=dimensions,
    )


def _google(raw_query: Sequence[Mapping[str, Any]]) -> AlertQuery | None:
    first = raw_query[0]
    if "conditionPrometheusQueryLanguage" in first:
        return AlertQuery(
            language="promql", text=first["conditionPrometheusQueryLanguage"]["query"]
        )
    condition = first.get("conditionThreshold")
    metric = re.search(
        r'metric\.type\s*=\s*"[^"/]*/([^"]+)"', condition["filter"] if condition else ""
    )
    if metric is None:
        return None
    labels = re.findall(r'metric\.labels?\."?([\w.]+)"?\s*=\s*"([^"]*)"', condition["filter"])
    reducer = condition["aggregations"][0].get("crossSeriesReducer", "")
    return AlertQuery(
        language="metric",
        text=re.sub(r"/(counter|gauge|histogram|unknown|summary)$", "", metric[1]),
        statistic=reducer.replace("REDUCE_PERCENTILE_", "p"),
        comparison=COMPARISONS.get(str(condition.get("comparison"))),
        threshold=_number(condition.get("thresholdValue")),
        dimensions=dict(labels),
    )


def _honeycomb(raw_query: Mapping[str, Any]) -> AlertQuery:
    calculation = raw_query["query"]["calculation"][0]
    return AlertQuery(
        language="metric",
        text=calculation.get("column") or "requests",
        statistic=calculation["op"],
    )


def _newrelic(raw_query: str) -> AlertQuery | None:
    selected = re.search(r"(?i)select\s+(.*?)(?:\s+where|\s+facet|$)", raw_query)
    return AlertQuery(language="metric", text=selected[1]) if selected else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def wilson(right: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share."""
    if not of:
        return 0.0, 1.0
    z, share = 1.96, right / of
    middle = share + z * z / (2 * of)
    spread = z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    below = 1 + z * z / of
    return (middle - spread) / below, (middle + spread) / below


def _line(name: str, grades: Sequence[bool]) -> str:
    right, of = sum(grades), len(grades)
    low, high = wilson(right, of)
    share = 100 * right / of if of else 0.0
    return f"  {name:26} {right:3} of {of:3}  {share:5.1f} %  [{100 * low:.0f}, {100 * high:.0f}]"


def _services(rules: Sequence[GradedRule]) -> list[bool]:
    return [rule.service for rule in rules if rule.service is not None]


def print_shares(rules: Sequence[GradedRule]) -> None:
    """Of all rules, and of those of each source."""
    print(_line("signal", [rule.signal for rule in rules]))
    print(_line("signal, first label", [rule.first for rule in rules]))
    print(_line("service", _services(rules)))
    print(_line("both", [rule.right for rule in rules]))
    by_source: dict[str, list[GradedRule]] = defaultdict(list)
    for rule in rules:
        by_source[rule.source].append(rule)
    for source, of_source in by_source.items():
        print(_line(f"{source}: signal", [rule.signal for rule in of_source]))
        services = _services(of_source)
        if services:
            print(_line(f"{source}: service", services))


def main() -> None:
    """Print the shares, and the errors of a half where they are asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--errors", choices=("dev", "test"))
    args = parser.parse_args()
    rules = list(graded_rules())
    for half in ("dev", "test"):
        print(f"{half}: right, with Wilson's 95 % interval")
        print_shares([rule for rule in rules if rule.half == half])
    for rule in rules:
        if rule.half == args.errors and not rule.right:
            got = (
                f"{rule.watched.signal_class.value} {naming(rule.watched)} ({rule.watched.source})"
            )
            print(f"{rule.source}: {rule.title}: {got}; wanted {rule.label}")


if __name__ == "__main__":
    main()
