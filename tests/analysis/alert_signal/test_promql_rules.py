"""What a rule in PromQL or LogQL watches: by what it does, not by the metric's name alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.alert_signal.deriving import watched_signal
from faultline.analysis.alert_signal.promql import LONGEST, read_logql, read_promql
from faultline.analysis.kinds.signals import (
    AlertQuery,
    QueryLanguage,
    SignalClass,
    SignalSource,
    WatchedSignal,
)
from faultline.analysis.vocabulary import Alert

RPC = "rpc_server_duration_milliseconds_count"


def watched(
    text: str, *, title: str = "Alert", language: QueryLanguage = "promql", **labels: str
) -> WatchedSignal:
    alert = Alert(
        source="alertmanager",
        title=title,
        started_at=datetime(2026, 1, 1, tzinfo=UTC),
        labels=labels,
        query=AlertQuery(language=language, text=text),
    )
    return watched_signal(alert)


@pytest.mark.parametrize(
    ("text", "signal_class"),
    [
        ('rate(hits_total{code=~"5.."}[5m]) / rate(hits_total[5m]) > 0.05', "errors"),
        ('rate(hits_total{status!~"2.."}[5m]) / rate(hits_total[5m]) > 0.05', "errors"),
        ('1 - rate(hits_total{outcome="success"}[5m]) / rate(hits_total[5m]) > 0.05', "errors"),
        # gRPC's own numbers of its codes.
        *(
            (f"rate({RPC}{{{code}}}[5m]) / rate({RPC}[5m]) > 0.05", signal_class)
            for code, signal_class in (
                ('rpc_grpc_status_code=~"2|4|13|14"', "errors"),
                ('rpc_grpc_status_code=~"^(2|13)$"', "errors"),
                ('rpc_grpc_status_code="14"', "errors"),
                ('grpc_status!="0"', "errors"),
                ('grpc_response_status!~"0|1|5"', "errors"),
                ('rpc_grpc_status_code="0"', "latency"),
            )
        ),
        ("rate(requests_total[5m]) < 1", "traffic"),
        ("histogram_quantile(0.99, rate(wait_seconds_bucket[5m])) > 1", "latency"),
        ("rate(reply_seconds_sum[5m]) / rate(reply_seconds_count[5m]) > 1", "latency"),
        ("absent(anything)", "availability"),
        ('up{job="checkout"} == 0', "availability"),
        ("x_expiry_timestamp - time() < 86400", "certificate"),
        ("time() - dump_last_success_timestamp_seconds > 86400", "job"),
        ("changes(process_start_time_seconds[15m]) > 3", "restarts"),
        ("app_uptime_seconds < 60", "restarts"),
        ("container_memory_working_set_bytes / container_spec_memory_limit_bytes > 0.9", "memory"),
        ("predict_linear(node_filesystem_avail_bytes[6h], 86400) < 0", "disk"),
        ("sum by (group) (kafka_consumergroup_lag) > 1000", "queue"),
        ("pool_connections_in_use / pool_connections_max > 0.8", "connections"),
        ("xyzzy > 3", "other"),
    ],
)
def test_the_class_follows_from_what_the_rule_computes(text: str, signal_class: str) -> None:
    assert watched(text).signal_class == signal_class


def test_a_title_says_what_the_expression_leaves_open() -> None:
    found = watched("xyzzy > 3", title="Consumers lag behind")
    assert (found.signal_class, found.source) == (SignalClass.QUEUE, SignalSource.TITLE)
    assert watched("up == 0", title="Backup server down").signal_class is SignalClass.AVAILABILITY


def test_threshold_window_and_quantile_stand_in_the_comparison_that_fires() -> None:
    found = watched(
        "histogram_quantile(0.95, sum by (le, service) (rate(reply_seconds_bucket[10m])))"
        " > 500 / 1000 and sum by (service) (rate(reply_seconds_count[5m])) > 10"
    )
    assert (found.comparison, found.threshold, found.unit) == (">", 0.5, "s")
    assert (found.window_s, found.quantile, found.service_label) == (600, 0.95, "service")


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("100 * used_bytes / limit_bytes > 90", "%"),
        ("requests / expected_requests > 1.5", "ratio"),
        ("queue_bytes > 1e9", "bytes"),
        ("rate(sent_bytes_total[5m]) > 1e6", None),
        ("rate(wait_seconds_sum[5m]) / rate(wait_seconds_count[5m]) > 1", "s"),
        ("load > 3", None),
        # What fires is the number on the left, and no share.
        ("kube_deployment_spec_replicas > kube_deployment_status_replicas_available", None),
        ("used_bytes > 0.8 * limit_bytes", "bytes"),
    ],
)
def test_the_threshold_has_the_unit_of_what_is_compared(text: str, unit: str | None) -> None:
    assert watched(text).unit == unit


def test_a_comparison_may_stand_the_other_way_round_or_with_another_metric() -> None:
    assert watched("0.8 < disk_used_ratio").comparison == ">"
    limit = watched("queue_size > 0.8 * queue_capacity")
    assert (limit.threshold, limit.signal_class) == (None, SignalClass.QUEUE)


@pytest.mark.parametrize(
    ("text", "service", "label", "keeps"),
    [
        ('errors_total{service="checkout"} > 0', "checkout", None, True),
        ('errors_total{job=~"checkout"} > 0', "checkout", None, True),
        ('errors_total{job=~".*out"} > 0', None, None, True),
        ("sum by (service) (rate(errors_total[5m])) > 0", None, "service", False),
        ("sum(rate(errors_total[5m])) > 0", None, None, False),
        ("topk(3, sum by (app) (rate(errors_total[5m]))) > 0", None, "app", False),
        ("sum without (pod) (errors_total) > 0", None, None, True),
        (
            'kube_deployment_status_replicas{job="kube-state-metrics"} == 0',
            None,
            "deployment",
            True,
        ),
        ('node_load1{job="node-exporter"} > 9', None, None, False),
    ],
)
def test_selectors_and_grouping_say_whose_signal_it_is(
    text: str, service: str | None, label: str | None, keeps: bool
) -> None:
    found = watched(text)
    keeps_labels = found.keeps_labels or bool(found.service_label and keeps)
    assert (found.service, found.service_label, keeps_labels) == (service, label, keeps)


def test_the_place_is_what_labels_and_selectors_fix() -> None:
    found = watched('errors_total{namespace="shop",cluster="a"} > 0', cluster="b", pod="x-1")
    assert found.place == {"cluster": "b", "namespace": "shop", "pod": "x-1"}


def test_a_rule_of_loki_counts_what_its_lines_must_hold() -> None:
    text = 'sum by (app) (rate({app="checkout"} |= "timed out" | json | took > 5 [5m])) > 10'
    found = watched(text, language="logql")
    assert (found.signal_class, found.threshold) == (SignalClass.ERRORS, 10)
    assert found.service == "checkout"


@pytest.mark.parametrize(
    "text", ["(" * 4000, "x" * (LONGEST + 1), "sum by (", "-" * 2000 + "x", ""]
)
def test_what_is_no_expression_is_left_open(text: str) -> None:
    assert read_promql(text) is None


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="(){}[]\"'=~!<>+-*/%, x15msumratebyupté|", max_size=60))
def test_no_text_breaks_the_readers(text: str) -> None:
    read_promql(text)
    read_logql(text)
    watched(text, title=text)
