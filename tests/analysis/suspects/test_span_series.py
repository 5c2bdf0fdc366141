"""A provider that sends no spans, logs nothing and has no metrics is known from its callers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.suspects.deviations import call_deviations
from tests.analysis.cases import at, series, write_case

ALERT = {"title": "web fails", "service": "web", "signal": "error_ratio"}


def calls(minute: float, number: int, status: str | None, ms: float) -> list[dict[str, Any]]:
    """One request into web, and its call to the provider."""
    entry = {
        "trace_id": f"t{number}",
        "span_id": "a",
        "parent_id": None,
        "service": "web",
        "operation": "POST /orders",
        "start": at(minute),
        "duration_us": 1000 * (ms + 5),
        "status": status,
    }
    client = {
        **entry,
        "span_id": "b",
        "parent_id": "a",
        "operation": "POST",
        "duration_us": 1000 * ms,
        "attributes": json.dumps({"span.kind": "client", "server.address": "api.bank.example:443"}),
    }
    return [entry, client]


def requests(failing_from: float) -> list[dict[str, Any]]:
    rows = []
    for number in range(540):
        minute = -60 + number / 6
        fails = minute >= failing_from and number % 3 == 0
        rows += calls(minute, number, "ERROR" if fails else "OK", 20 + number % 5)
    return rows


def test_a_provider_that_only_client_spans_name_comes_first(tmp_path: Path) -> None:
    metrics = series("web", "error_ratio", 0.002, 0.3) + series("db", "cpu_percent", 20, 22)
    case = write_case(tmp_path, alert=ALERT, metrics=metrics, spans=requests(0))
    found = diagnose(case)
    assert found.causes[0].subject == "api.bank.example"
    assert ("web", "api.bank.example") in read_topology(case).edges


def test_its_failures_are_a_series_with_noise_of_its_own(tmp_path: Path) -> None:
    metrics = series("web", "error_ratio", 0.002, 0.3)
    failing = write_case(tmp_path / "f", alert=ALERT, metrics=metrics, spans=requests(0))
    by_signal = {one.signal: one for one in call_deviations(failing)}
    assert by_signal["call_error_ratio"].excess > 1
    assert by_signal["call_duration_us"].excess < 1
    healthy = write_case(tmp_path / "h", alert=ALERT, metrics=metrics, spans=requests(99))
    assert all(one.excess < 1 for one in call_deviations(healthy))


def test_too_few_calls_have_no_course(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, spans=calls(-10, 1, "OK", 5) + calls(5, 2, "OK", 5))
    assert call_deviations(case) == []


@pytest.mark.parametrize(("calls_a_minute", "step_s"), [(10, 30), (6, 60)])
def test_a_step_is_long_enough_for_four_calls(
    tmp_path: Path, calls_a_minute: int, step_s: int
) -> None:
    rows = []
    for number in range(90 * calls_a_minute):
        rows += calls(-60 + number / calls_a_minute, number, "OK", 20)
    first, *_ = call_deviations(write_case(tmp_path, alert=ALERT, spans=rows))
    assert float(np.median(np.diff(first.times))) / 1e9 == step_s


@pytest.mark.parametrize(("until", "has_course"), [(0.5, False), (1.0, True)])
def test_one_step_of_an_incident_is_no_course_and_two_are(
    tmp_path: Path, until: float, *, has_course: bool
) -> None:
    rows = []
    for number in range(int(10 * (60 + until))):
        rows += calls(-60 + number / 10, number, "OK", 20)
    found = call_deviations(write_case(tmp_path, alert=ALERT, spans=rows))
    assert bool(found) is has_course
