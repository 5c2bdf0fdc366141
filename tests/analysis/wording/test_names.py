from __future__ import annotations

import pytest

from faultline.analysis.wording.names import (
    change_name,
    operation_name,
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
    ],
)
def test_what_a_vendor_adds_stands_in_parentheses(subject: str, said: str) -> None:
    assert subject_name(subject) == said


def test_an_operation_is_named_by_its_method_or_route() -> None:
    assert operation_name("hipstershop.CheckoutService/PlaceOrder") == "PlaceOrder"
    assert operation_name("GET /orders/{id}") == "GET /orders/{id}"


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
