"""What callers measure of their calls is said of the callee, and of who asks more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.alert_signal.series import about_service, alerting_series
from faultline.analysis.case.folder import Case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.kinds.finding_details import CallsIntoDetails
from faultline.analysis.kinds.signals import SignalClass, WatchedSignal
from faultline.analysis.metrics.explained_share import measured
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.requests.topology import case_calls, read_topology
from faultline.analysis.vocabulary import Diagnosis, Finding
from tests.analysis.cases import series, write_case

ALERT = {"title": "checkout is slow", "service": "checkout", "signal": "latency_p99"}
Rows = list[dict[str, Any]]


def of_calls(caller: str, callee: str, signal: str, before: float, now: float) -> Rows:
    """Points that a caller measures of its calls."""
    rows = series(caller, f"client_{signal}", before, now)
    unit = {"latency_p99": "ms", "error_ratio": "ratio", "request_rate": "1/s"}[signal]
    return [{**row, "labels": json.dumps({"peer": callee}), "unit": unit} for row in rows]


def of_itself(service: str, signal: str, before: float, now: float) -> Rows:
    unit = {"latency_p99": "ms", "error_ratio": "ratio", "request_rate": "1/s"}[signal]
    return [{**row, "unit": unit} for row in series(service, signal, before, now)]


def slow(payments_itself: float) -> Rows:
    """checkout waits for payments, and calls stock as ever."""
    return [
        *of_itself("checkout", "latency_p99", 60, 2400),
        *of_itself("checkout", "request_rate", 50, 50),
        *of_itself("payments", "latency_p99", 20, payments_itself),
        *of_itself("stock", "latency_p99", 15, 15),
        *of_calls("checkout", "payments", "latency_p99", 25, 2300),
        *of_calls("checkout", "payments", "request_rate", 50, 50),
        *of_calls("checkout", "stock", "latency_p99", 18, 18),
    ]


def answered(folder: Path, metrics: Rows, **alert: str) -> tuple[Case, Diagnosis]:
    case = write_case(folder, alert=ALERT | alert, metrics=metrics)
    return case, diagnose(case)


def the(diagnosis: Diagnosis, kind: str) -> Finding:
    [finding] = [finding for finding in diagnosis.findings if finding.kind == kind]
    return finding


def test_a_slow_callee_is_blamed_and_not_its_caller(tmp_path: Path) -> None:
    _, diagnosis = answered(tmp_path, slow(2200))
    assert diagnosis.causes[0].subject == "payments"
    finding = the(diagnosis, "calls_into")
    assert finding.sentence == (
        "Calls from checkout to payments fail or wait more than before: p99 latency seen by "
        "callers rose from 25 ms to 2.3 s."
    )
    details = CallsIntoDetails.of(finding)
    assert details is not None
    assert not details.is_calm_itself


def test_a_callee_that_is_fast_itself_points_to_what_lies_between(tmp_path: Path) -> None:
    _, diagnosis = answered(tmp_path, slow(20))
    assert diagnosis.causes[0].subject == "payments"
    finding = the(diagnosis, "calls_into")
    assert finding.sentence.endswith("to 2.3 s, while payments itself measures nothing unusual.")
    said = statement(finding)
    assert said is not None
    assert str(said.clause()).startswith(
        "calls from checkout to payments take 2.3 s instead of 25 ms, while payments itself sees"
    )


def test_what_a_caller_measures_of_its_calls_is_no_trouble_of_its_own(tmp_path: Path) -> None:
    _, diagnosis = answered(tmp_path, slow(2200))
    shifts = [f for f in diagnosis.findings if f.kind == "metric_shift"]
    assert {(f.subject, f.signal) for f in shifts} == {
        ("checkout", "latency_p99"),
        ("payments", "latency_p99"),
    }


def test_an_alert_watches_what_its_service_serves_and_not_what_it_calls(tmp_path: Path) -> None:
    case, _ = answered(tmp_path, slow(2200))
    watched = WatchedSignal(signal_class=SignalClass.LATENCY, quantile=0.95)
    calls = case.metrics.filter(~about_service())
    assert calls.height
    assert alerting_series(calls, "checkout", watched, "") is None
    series_watched = alerting_series(case.metrics, "checkout", watched, "")
    assert series_watched is not None
    assert series_watched.signal == "latency_p99"
    assert measured(case).requests == {"checkout": pytest.approx(50, rel=0.02)}


@pytest.mark.parametrize(
    ("calls", "failing", "is_told"),
    [(50, 0.0, False), (75, 0.0, False), (400, 0.0, True), (150, 0.4, False), (300, 0.4, True)],
)
def test_a_caller_that_asks_more_for_each_of_its_requests_is_told(
    tmp_path: Path, calls: float, failing: float, *, is_told: bool
) -> None:
    metrics = [
        *of_itself("checkout", "latency_p99", 60, 900),
        *of_itself("checkout", "request_rate", 50, 50),
        *of_calls("checkout", "orders-db", "request_rate", 50, calls),
        *of_calls("checkout", "orders-db", "error_ratio", 0.001, 0.001 + failing),
    ]
    _, diagnosis = answered(tmp_path, metrics)
    found = [f for f in diagnosis.findings if f.kind == "fan_out"]
    assert bool(found) is is_told
    if calls == 400:
        assert found[0].subject == "checkout"
        assert found[0].sentence == (
            "checkout makes 8 calls to orders-db for each of its requests, 1 in the baseline."
        )


def line(text: str, second: int) -> dict[str, Any]:
    return {
        "time": f"2026-03-01T12:00:{second:02d}Z",
        "service": "checkout",
        "message": text,
        "level": "error",
    }


def test_addresses_in_failing_lines_are_calls(tmp_path: Path) -> None:
    texts = (
        "dial tcp orders-db.shop.svc.cluster.local:5432: connect: connection refused",
        "POST https://api.bank.example/v1/charge: 502",
        "panic in train.py:186, status:500",
    )
    logs = [line(text, second) for second in range(4) for text in texts]
    logs.append(line("GET http://seen-once.example/ failed", 30))
    metrics = of_itself("orders-db", "latency_p99", 5, 5)
    case = write_case(tmp_path, alert=ALERT, metrics=metrics, logs=logs)
    calls = {call.callee: call for call in case_calls(case)}
    assert set(calls) == {"orders-db", "api.bank.example"}
    assert calls["orders-db"].sources == ("log_lines",)
    assert calls["orders-db"].certainty == 0.6
    # The ranking weighs the lines themselves.
    assert not read_topology(case).edges


def test_what_policies_allow_counts_where_nothing_tells_what_happens(tmp_path: Path) -> None:
    allowed = {"caller": "web", "callee": "api", "source": "network_policies"}
    seen = {"caller": "web", "callee": "db", "source": "mesh"}
    case = write_case(tmp_path / "allowed", alert=ALERT, topology=[allowed])
    assert read_topology(case).edges == (("web", "api"),)
    case = write_case(tmp_path / "seen", alert=ALERT, topology=[allowed, seen])
    assert read_topology(case).edges == (("web", "db"),)


def test_a_call_is_as_certain_as_the_best_of_its_sources(tmp_path: Path) -> None:
    row = {"caller": "web", "callee": "api", "last_seen": "2026-03-01T12:00:00Z"}
    topology = [
        {**row, "source": "client_metrics", "certainty": 0.6},
        {**row, "source": "kubernetes"},
        {**row, "callee": "db", "source": "client_metrics", "certainty": 0.6},
        {**row, "callee": "cache", "source": "written by hand"},
    ]
    case = write_case(tmp_path, alert=ALERT, topology=topology)
    certain = {call.callee: call.certainty for call in case_calls(case)}
    assert certain == {"api": 0.8, "db": 0.6, "cache": 0.5}
