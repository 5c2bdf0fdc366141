"""The series of an alert's own query becomes the alert's signal where no collected series is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import polars as pl
import pytest

from faultline.analysis.alert_signal.deriving import with_watched_signal
from faultline.analysis.alert_signal.queried_series import (
    signal_named,
    with_queried_series,
    with_signal,
)
from faultline.analysis.alert_signal.series import with_alerting_series
from faultline.analysis.case.tables import empty
from faultline.analysis.kinds.signals import AlertQuery, SignalClass, classify
from faultline.analysis.vocabulary import Alert, Scope, Window

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)
SCOPE = Scope(
    incident=Window(start=AT - timedelta(minutes=30), end=AT),
    baseline=(Window(start=AT - timedelta(hours=2), end=AT - timedelta(minutes=30)),),
)
TIMES = "http_server_request_duration_seconds"
FAILED = f'sum by (job) (rate({TIMES}_count{{code=~"5.."}}[5m]))'
COUNT = f"sum by (job) (rate({TIMES}_count[5m]))"
RATIO = f"{FAILED} / {COUNT} > 0.1"
ON_TIME = f'sum by (job) (rate({TIMES}_bucket{{le="0.5"}}[5m])) / {COUNT}'


def alert_on(text: str, title: str = "Alert", **labels: str) -> Alert:
    query = AlertQuery(language="promql", text=text)
    alert = Alert(source="x", title=title, started_at=AT, labels=labels, query=query)
    return with_watched_signal(alert)


def queried(*series: str) -> pl.DataFrame:
    rows = [
        {
            "time": AT - timedelta(minutes=minute),
            "series": labels,
            "is_true": float(minute < 10),
            "value": 0.3 if minute < 10 else 0.0,
            "comparison": ">",
            "threshold": 0.1,
        }
        for labels in series
        for minute in range(120)
    ]
    return pl.DataFrame(rows, schema=empty("alert_query").schema)


@pytest.mark.parametrize(
    ("text", "title", "name"),
    [
        ("refunds_backlog > 500", "RefundBacklog", "refunds_backlog"),
        (RATIO, "HighErrorRate", "error_ratio"),
        (f"{ON_TIME} < 0.9", "Slow", "on_time_share"),
        (f"1 - {ON_TIME} > 0.1", "Slow", "slow_share"),
        (
            "histogram_quantile(0.95, sum by (le) (rate(wait_seconds_bucket[5m]))) > 1",
            "Slow",
            "wait_seconds_p95",
        ),
    ],
)
def test_a_signal_is_called_by_what_the_rule_makes_of_its_metric(
    text: str, title: str, name: str
) -> None:
    watches = alert_on(text, title).watches
    assert watches is not None
    assert name in signal_named(watches)


@pytest.mark.parametrize("text", [RATIO, f"{ON_TIME} < 0.9", f"1 - {ON_TIME} > 0.1"])
def test_a_share_of_requests_is_never_a_latency(text: str) -> None:
    watches = alert_on(text).watches
    assert watches is not None
    assert classify(signal_named(watches)) is not SignalClass.LATENCY


def test_a_scrape_job_names_the_service_behind_its_namespace() -> None:
    assert alert_on(RATIO, job="prod/telemetry").service == "telemetry"


def test_only_the_series_that_fired_is_added() -> None:
    alert = alert_on(RATIO, job="prod/telemetry")
    table = queried('{"job": "prod/telemetry"}', '{"job": "prod/other"}')
    changed, metrics = with_queried_series(alert, empty("metrics"), table, SCOPE)
    assert set(metrics["service"]) == {"telemetry"}
    assert set(metrics["unit"]) == {"ratio"}
    assert metrics.height == 120
    assert (changed.signal, changed.threshold) == ("error_ratio", 0.1)


def test_nothing_is_added_beside_the_error_ratio_that_was_collected() -> None:
    alert = alert_on(RATIO, job="prod/telemetry")
    row = {"time": [AT], "service": ["telemetry"], "signal": ["error_ratio"], "value": [0.3]}
    collected = pl.DataFrame({**row, "unit": ["ratio"], "labels": [None]})
    collected = collected.cast(dict(empty("metrics").schema))  # type: ignore[arg-type]
    named = with_alerting_series(alert, collected)
    table = queried('{"job": "prod/telemetry"}')
    changed, metrics = with_queried_series(named, collected, table, SCOPE)
    assert metrics.equals(collected)
    assert (changed.service, changed.signal) == ("telemetry", "error_ratio")


@pytest.mark.parametrize("has_answer", [True, False])
def test_the_share_of_slow_requests_is_no_percentile(*, has_answer: bool) -> None:
    alert = alert_on(f"1 - {ON_TIME} > 0.1", job="prod/telemetry")
    row = {"time": [AT], "service": ["telemetry"], "signal": ["latency_p99"], "value": [300.0]}
    collected = pl.DataFrame({**row, "unit": ["ms"], "labels": [None]})
    collected = collected.cast(dict(empty("metrics").schema))  # type: ignore[arg-type]
    table = queried('{"job": "prod/telemetry"}') if has_answer else empty("alert_query")
    changed, metrics = with_signal(alert, collected, table, SCOPE)
    assert changed.signal == ("slow_share" if has_answer else "latency_p99")
    assert set(metrics["signal"]) == {"latency_p99", *(["slow_share"] if has_answer else [])}
