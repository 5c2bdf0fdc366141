"""Evidence as it comes: empty, healthy, bursty, cumulative, about somebody else. No verdict may
overstate it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.vocabulary import Verdict
from tests.analysis.cases import at, logs, series, write_case

ALERT = {"service": "web", "signal": "latency_ms"}


def points(service: str, signal: str, values: dict[int, float]) -> list[dict[str, Any]]:
    return [
        {"time": at(m), "service": service, "signal": signal, "value": v} for m, v in values.items()
    ]


def test_metrics_that_are_no_numbers_are_no_evidence_of_health(tmp_path: Path) -> None:
    rows = [{**row, "value": "NaN"} for row in series("web", "latency_ms", 1, 1)]
    assert diagnose(write_case(tmp_path, metrics=rows)).verdict is Verdict.INSUFFICIENT_EVIDENCE


def test_calm_metrics_of_others_say_nothing_about_a_service_that_was_not_seen(
    tmp_path: Path,
) -> None:
    case = write_case(
        tmp_path, alert={"service": "nobody"}, metrics=series("api", "latency_ms", 100, 100)
    )
    found = diagnose(case)
    assert found.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert found.missing[0] == "Nothing that was collected is about nobody, which alerts."


def test_an_alerting_signal_that_moved_is_never_no_incident(tmp_path: Path) -> None:
    rows = points("web", "latency_ms", {-50: 200, -30: 205, -10: 210, 10: 900})
    found = diagnose(write_case(tmp_path, alert=ALERT, metrics=rows))
    assert found.findings[0].sentence == "Latency of web rose from 205 ms to 900 ms (4.4x)."
    assert found.verdict is not Verdict.NO_ACTIVE_INCIDENT
    # One sample alone makes nothing sure.
    assert found.confidence < 0.5


def test_one_large_spike_of_the_alerting_signal_has_recovered(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 200, 60000, onset=7, until=8)
    found = diagnose(write_case(tmp_path, alert=ALERT, metrics=rows))
    assert found.verdict is Verdict.RECOVERED
    assert found.confidence < 0.4


@pytest.mark.parametrize("seed", range(5))
def test_spikes_that_the_baseline_has_too_are_no_incident(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    rows = [
        {
            "time": at(m),
            "service": s,
            "signal": signal,
            "value": value * (2 if chance.random() < 0.1 else 1),
        }
        for s in ("web", "api")
        for signal, value in (("latency_ms", 200.0), ("cpu_percent", 40.0))
        for m in range(-60, 30)
        if m % 12 or m < 0
    ]
    found = diagnose(write_case(tmp_path, alert=ALERT, metrics=rows))
    assert found.verdict is Verdict.NO_ACTIVE_INCIDENT, found.causes


def test_the_restart_of_a_steady_counter_is_no_fall_of_traffic(tmp_path: Path) -> None:
    values = {m: 1e6 + 600 * m if m < 5 else 600.0 * (m - 5) for m in range(-60, 30)}
    assert (
        metric_shifts(write_case(tmp_path, metrics=points("web", "requests_total", values))) == []
    )


def test_a_steady_counter_is_read_as_its_rate(tmp_path: Path) -> None:
    values = {m: 1e6 + (600 * m if m < 5 else 3000 + 2400 * (m - 5)) for m in range(-60, 30)}
    (found,) = metric_shifts(write_case(tmp_path, metrics=points("web", "requests_total", values)))
    assert found.sentence == "Request rate of web rose from 10/s to 40/s (4x)."


def test_a_gauge_with_a_counters_name_and_a_counter_that_stands_still_keep_their_level(
    tmp_path: Path,
) -> None:
    rows = points("web", "restarts_total", {m: 3.0 if m < 3 else 9.0 for m in range(-60, 30)})
    rows += series("web", "connection_count", 100, 400)
    said = [f.sentence for f in metric_shifts(write_case(tmp_path, metrics=rows))]
    assert said == [
        "Connection count of web rose from 100 to 400 (4x).",
        "Restarts of web rose from 3 to 9 (3x).",
    ]


@pytest.mark.parametrize(
    "signal", ["node_memory_MemAvailable_bytes", "disk_free_percent", "memory_free_bytes"]
)
def test_a_resource_whose_free_part_falls_runs_out(tmp_path: Path, signal: str) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", signal, 50, 1))
    found = diagnose(case)
    assert found.causes[0].kind == "resource_saturation"
    relieved = diagnose(
        write_case(tmp_path / "freed", alert=ALERT, metrics=series("web", signal, 10, 50))
    )
    assert relieved.causes == ()


def test_less_traffic_is_not_to_be_shed(tmp_path: Path) -> None:
    found = diagnose(write_case(tmp_path, metrics=series("web", "requests_per_sec", 500, 1)))
    assert (found.causes[0].next_step or "").startswith("Find out why fewer requests reach web")


def test_a_line_at_its_usual_rate_has_not_vanished_among_new_errors(tmp_path: Path) -> None:
    rows = logs("web", "order stored", range(-60, 30)) + logs(
        "web", "payment timed out", range(1, 30), level="ERROR"
    )
    rows += logs("web", "payment refused by upstream", [m / 2 for m in range(60)], level="ERROR")
    assert {f.kind for f in diagnose(write_case(tmp_path, logs=rows)).findings} == {"log_new"}


def test_without_an_onset_a_change_is_dated_from_the_alert(tmp_path: Path) -> None:
    change = {"time": at(-3), "service": "web", "kind": "deploy", "id": "v2", "title": "release"}
    case = write_case(
        tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 100), changes=[change]
    )
    assert (
        diagnose(case).findings[0].sentence
        == 'Deploy v2 of web, "release", came 3 min before the alert.'
    )


def test_a_later_change_is_said_to_be_later_once(tmp_path: Path) -> None:
    change = {"time": at(9), "service": "web", "kind": "deploy", "id": "v2", "title": "release"}
    case = write_case(
        tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 900), changes=[change]
    )
    assert "Deploy v2 of web came 9 min after the onset." in [
        f.sentence for f in diagnose(case).findings
    ]
