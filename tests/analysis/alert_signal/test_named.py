"""The alert with what it watches, and the series that shows it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import polars as pl
import pytest

from faultline.analysis.alert_signal.deriving import with_watched_signal
from faultline.analysis.alert_signal.rule_texts import query_of_url
from faultline.analysis.alert_signal.series import with_alerting_series
from faultline.analysis.kinds.signals import SignalClass, SignalSource
from faultline.analysis.vocabulary import Alert, Link

AT = datetime(2026, 1, 1, tzinfo=UTC)
RULE = 'sum by (service) (rate(hits{code=~"5.."}[5m])) / sum by (service) (rate(hits[5m])) > 0.1'


def alert(source: str = "alertmanager", title: str = "Rule 7", **fields: object) -> Alert:
    return Alert.model_validate({"source": source, "title": title, "started_at": AT, **fields})


def generator(expression: str) -> str:
    return "http://prometheus:9090/graph?" + urlencode({"g0.expr": expression, "g0.tab": "1"})


def test_the_link_to_the_rule_holds_its_expression() -> None:
    link = Link(title="Alert rule", url=generator(RULE))
    found = with_watched_signal(alert(links=(link,), labels={"service": "checkout"}))
    assert found.watches is not None
    assert found.watches.signal_class is SignalClass.ERRORS
    assert (found.service, found.watches.source) == ("checkout", SignalSource.EXPRESSION)


@pytest.mark.parametrize("flat", [False, True])
def test_pagerduty_passes_on_what_alertmanager_wrote(flat: bool) -> None:
    note = (
        "Labels:\n - alertname = Rule 7\n - cluster = eu - 1\n - service = checkout\n"
        f"Annotations:\n - summary = half of it fails\nSource: {generator(RULE)}\n"
    )
    text = " ".join(note.split()) if flat else note
    given = alert("pagerduty", service="Shop team", labels={"firing": text, "incident_key": "k"})
    found = with_watched_signal(given)
    assert found.watches is not None
    assert (found.service, found.summary) == ("checkout", "half of it fails")
    assert found.watches.signal_class is SignalClass.ERRORS
    assert found.watches.place == {"cluster": "eu - 1"}
    assert found.fingerprint == given.fingerprint
    assert with_watched_signal(given, catalogue={"Shop team"}).service == "Shop team"


def test_an_exporters_job_is_not_whose_signal_it_is() -> None:
    rule = 'kube_deployment_status_replicas_available{job="kube-state-metrics"} == 0'
    labels = {"job": "kube-state-metrics", "deployment": "checkout"}
    given = alert(
        service="kube-state-metrics",
        labels=labels,
        links=(Link(title="Alert rule", url=generator(rule)),),
    )
    assert with_watched_signal(given).service == "checkout"
    pod = alert(labels={"job": "kubelet", "pod": "checkout-7d9f8c6b5-x2x4z"})
    assert with_watched_signal(pod).service == "checkout"


def test_links_of_other_tools_hold_expressions_too() -> None:
    victoria = "https://vm.example/vmui/#/?" + urlencode({"g0.expr": "up == 0"})
    explore = "https://grafana.example/explore?" + urlencode(
        {"left": '{"queries":[{"expr":"rate({app=\\"a\\"} |= \\"x\\" [5m]) > 1"}]}'}
    )
    found = query_of_url(victoria), query_of_url(explore)
    assert [one and (one.language, one.text) for one in found] == [
        ("promql", "up == 0"),
        ("logql", 'rate({app="a"} |= "x" [5m]) > 1'),
    ]
    assert query_of_url("https://play.grafana.org/alerting/1afz29v7z/edit") is None
    assert query_of_url("http://[bad") is None


def metrics(*signals: tuple[str, str]) -> pl.DataFrame:
    rows = []
    for signal, unit in signals:
        for minute in range(3):
            rows.append((AT + timedelta(minutes=minute), "checkout", signal, 1.0, unit))
    return pl.DataFrame(rows, schema=["time", "service", "signal", "value", "unit"], orient="row")


def test_the_series_of_the_rules_class_is_the_alerts_signal() -> None:
    table = metrics(("request_rate", "1/s"), ("errors", "1/s"), ("error_ratio", "%"))
    link = Link(title="Alert rule", url=generator(RULE))
    named = with_watched_signal(alert(service="checkout", links=(link,)))
    found = with_alerting_series(named, table)
    assert (found.signal, found.signal_source) == ("error_ratio", SignalSource.EXPRESSION)
    # The rule's 0.1 is a share, the series is in percent.
    assert found.threshold == 10


def test_the_quantile_decides_between_series_of_latency() -> None:
    table = metrics(("latency_p50", "ms"), ("latency_p95", "ms"), ("latency_p99", "ms"))
    named = with_watched_signal(alert(title="checkout p95 above 2 s", service="checkout"))
    found = with_alerting_series(named, table)
    assert (found.signal, found.threshold) == ("latency_p95", 2000)
    slow = with_watched_signal(alert(title="checkout is slow", service="checkout"))
    assert with_alerting_series(slow, table).signal == "latency_p99"


def test_a_rule_on_targets_that_cannot_be_scraped_watches_the_share_that_can() -> None:
    table = metrics(("availability", "ratio"), ("scrape_availability", "ratio"))
    down = "count(up == 0) by (service) / count(up) by (service)"
    link = Link(title="Alert rule", url=generator(f"100 * ({down}) > 10"))
    named = with_watched_signal(alert(title="TargetDown", service="checkout", links=(link,)))
    found = with_alerting_series(named, table)
    assert (found.signal, found.threshold) == ("scrape_availability", 0.9)


def test_a_threshold_of_unknown_unit_is_not_taken() -> None:
    named = with_watched_signal(alert(title="errors above 5", service="checkout"))
    found = with_alerting_series(named, metrics(("error_ratio", "%")))
    assert (found.signal, found.threshold) == ("error_ratio", None)


@pytest.mark.parametrize(
    "fields",
    [{"title": "Rule 7"}, {"title": "errors", "service": "cart"}, {"title": "queue is long"}],
)
def test_without_class_service_or_series_no_signal_is_made_up(fields: dict[str, str]) -> None:
    named = with_watched_signal(alert(**{"service": "checkout", **fields}))
    assert with_alerting_series(named, metrics(("error_ratio", "%"))).signal is None


def test_a_signal_that_the_sender_names_stays() -> None:
    named = with_watched_signal(alert(signal="rt", title="errors", service="checkout"))
    found = with_alerting_series(named, metrics(("error_ratio", "%")))
    assert (found.signal, found.signal_source) == ("rt", SignalSource.NAMED)
