from __future__ import annotations

import pytest

from faultline.analysis.wording.names import (
    call_of,
    change_name,
    counted_name,
    is_plural,
    operation_name,
    operation_of,
    signal_name,
    step_name,
    subject_name,
)


@pytest.mark.parametrize(
    ("signal", "said"),
    [
        ("http_server_duration_p99_ms", "p99 latency"),
        ("clientlat95", "p95 latency seen by callers"),
        ("trace.http.request.duration.95p", "p95 latency"),
        ("http_server_requests_seconds_max", "max latency"),
        ("error_ratio", "error rate"),
        ("HTTPCode_Target_5XX_Count", "rate of 5xx responses"),
        ("CPUUtilization", "CPU use"),
        ("requests_per_sec", "request rate"),
        ("token_validation_errors_per_sec", "token validation errors"),
        ("envelopes_flushed_per_min", "envelopes flushed"),
        ("step_time_ms", "time per step"),
        ("node_memory_MemAvailable_bytes", "node memory mem available"),
        ("latency_p999", "p99.9 latency"),
        ("http_request_duration_seconds_sum", "time spent on requests"),
        ("free_memory_bytes", "free memory"),
        ("redis_latency_p99", "Redis latency"),
        ("redis_stats_memory", "Redis memory use"),
        ("hystrix_redis_latency", "hystrix redis latency"),
        ("redis_commands", "redis commands"),
        # Two letters tell nothing unless they are a known abbreviation.
        ("ab_latency_ms", "latency"),
        ("abc_latency_ms", "abc latency"),
        ("io_wait", "IO wait"),
    ],
)
def test_a_signal_is_named_in_words(signal: str, said: str) -> None:
    assert signal_name(signal) == said


@pytest.mark.parametrize(
    ("subject", "said"),
    [
        ("payments", "payments"),
        ("updater_AWS::Lambda::Function", "updater (Lambda Function)"),
        ("db.example.com_Database::SQL", "db.example.com (Database SQL)"),
        ("ts_auth_service", "ts_auth_service"),
        ("namespace/shop", "namespace shop"),
        ("train/gpu 3", "GPU 3 of train"),
        ("train/rank 3", "rank 3 of train"),
        ("a" * 80, "a" * 80),
    ],
)
def test_what_a_vendor_adds_stands_in_parentheses(subject: str, said: str) -> None:
    assert subject_name(subject) == said


def test_an_operation_is_named_by_its_method_or_route() -> None:
    assert operation_name("hipstershop.CheckoutService/PlaceOrder") == "PlaceOrder"
    assert operation_name("GET /orders/{id}") == "GET /orders/{id}"


@pytest.mark.parametrize(
    ("operation", "said"),
    [("web/Get", "Get"), ("GET /x", "GET /x"), ("web.Handle", ""), ("handler", ""), ("web", "")],
)
def test_an_operation_beside_its_service_does_not_repeat_it(operation: str, said: str) -> None:
    assert operation_of("web", operation) == said
    assert call_of(f"call to web {operation}") == ("web", said)
    assert call_of(operation) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("error rate", "errors"),
        ("rate of 5xx responses", "5xx responses"),
        ("restarts", "restarts"),
    ],
)
def test_a_count_is_no_rate(name: str, said: str) -> None:
    assert counted_name(name) == said


@pytest.mark.parametrize(
    ("name", "plural"),
    [
        ("restarts", True),
        ("connections in use", True),
        ("queue length", False),
        ("rate of errors", False),
        ("disk access", False),
        ("status", False),
    ],
)
def test_a_plural_ends_in_s_but_not_every_such_word_is_one(name: str, *, plural: bool) -> None:
    assert is_plural(name) is plural


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("call to catalog shop.Catalog/GetProduct", "catalog GetProduct"),
        ("line * INFO TraceID: * [getRoute][found] at a.b.C#12", "[getRoute][found]"),
        ("shop.Checkout/Ship", "Ship"),
    ],
)
def test_a_step_is_a_call_or_the_words_of_a_line(event: str, said: str) -> None:
    assert step_name(event) == said


def test_a_commit_is_short_and_any_other_id_whole() -> None:
    assert change_name("559e94ce37a7b4b6053149c40ba8a5bc9113ca6e") == "559e94c"
    assert change_name("cfg-4127") == "cfg-4127"
