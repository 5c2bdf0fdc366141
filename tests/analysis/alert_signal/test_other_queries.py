"""Datadog monitors, conditions on one metric, and what people write."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from faultline.analysis.alert_signal.deriving import watched_signal
from faultline.analysis.kinds.signals import AlertQuery, SignalClass, SignalSource, WatchedSignal
from faultline.analysis.vocabulary import Alert

AT = datetime(2026, 1, 1, tzinfo=UTC)


def monitor(text: str) -> WatchedSignal:
    query = AlertQuery(language="datadog", text=text)
    return watched_signal(Alert(source="datadog", title="Monitor", started_at=AT, query=query))


def test_a_datadog_monitor_names_metric_scope_group_threshold_and_window() -> None:
    found = monitor(
        "avg(last_5m):sum:trace.http.request.errors{env:prod,service:checkout} by {resource_name}"
        ".as_count() / sum:trace.http.request.hits{env:prod,service:checkout} by {resource_name}"
        ".as_count() > 0.05"
    )
    assert (found.signal_class, found.service) == (SignalClass.ERRORS, "checkout")
    assert (found.threshold, found.unit, found.window_s) == (0.05, "ratio", 300)
    assert found.place == {"env": "prod"}


@pytest.mark.parametrize(
    ("text", "signal_class", "label"),
    [
        ("max(last_1h):p95:trace.http.request{*} by {service} > 2", "latency", "service"),
        (
            'logs("status:error service:web").index("*").rollup("count").last("5m") > 9',
            "errors",
            None,
        ),
        ('"http.can_connect".over("*").by("host").last(4).count_by_status()', "availability", None),
        ('error-tracking("service:web").rollup("count").last("5m") > 9', "errors", None),
        ("avg(last_4h):anomalies(avg:system.cpu.user{*} by {host}, 'agile', 2) >= 1", "cpu", None),
        ("123 && 456", "other", None),
    ],
)
def test_what_other_monitors_watch(text: str, signal_class: str, label: str | None) -> None:
    found = monitor(text)
    assert (found.signal_class, found.service_label) == (signal_class, label)


def test_the_number_of_unusual_points_is_no_threshold_of_the_metric() -> None:
    assert monitor("avg(last_4h):anomalies(avg:a.b{*}, 'agile', 2) >= 1").threshold is None


def test_a_condition_on_one_metric_says_all_but_the_class() -> None:
    query = AlertQuery(
        language="metric",
        text="TargetResponseTime",
        namespace="AWS/ApplicationELB",
        statistic="p99",
        comparison=">",
        threshold=2.0,
        window_s=60,
        dimensions={"LoadBalancer": "app/shop/1", "TargetGroup": "targetgroup/checkout/2"},
    )
    alert = Alert(source="cloudwatch", title="Alarm 7", started_at=AT, query=query)
    found = watched_signal(alert)
    assert (found.signal_class, found.source) == (SignalClass.LATENCY, SignalSource.METRIC)
    assert (found.quantile, found.threshold, found.window_s) == (0.99, 2.0, 60)
    assert found.service_label == "TargetGroup"


def test_words_say_quantile_threshold_unit_and_window() -> None:
    title = "checkout: 95th percentile latency above 500 ms for the last 5 minutes"
    found = watched_signal(Alert(source="slack", title=title, started_at=AT))
    assert (found.signal_class, found.quantile) == (SignalClass.LATENCY, 0.95)
    assert (found.comparison, found.threshold, found.unit) == (">", 500, "ms")
    assert (found.window_s, found.source) == (300, SignalSource.TITLE)


@pytest.mark.parametrize(
    ("title", "signal_class"),
    [
        ("checkout throws 504s", "other"),
        ("HighErrorRate checkout", "errors"),
        ("payments is down", "availability"),
        ("disk almost full on db-1", "disk"),
        ("A little bump in the road", "other"),
    ],
)
def test_the_class_of_a_title(title: str, signal_class: str) -> None:
    assert watched_signal(Alert(source="slack", title=title, started_at=AT)).signal_class == (
        signal_class
    )


def test_what_an_error_tracker_reports_is_an_error_unless_it_says_otherwise() -> None:
    alert = Alert(source="sentry", title="KeyError: 'id'", started_at=AT)
    assert watched_signal(alert).signal_class is SignalClass.ERRORS
    slow = AlertQuery(language="metric", text="p95(transaction.duration)")
    alert = Alert(source="sentry", title="Checkout", started_at=AT, query=slow)
    found = watched_signal(alert)
    assert (found.signal_class, found.quantile) == (SignalClass.LATENCY, None)
