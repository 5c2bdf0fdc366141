"""Stories of whole cases: who comes first, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.diagnosis import diagnose, established
from faultline.analysis.suspects.deviations import Deviation, deviations
from faultline.analysis.suspects.error_lines import error_lines
from faultline.analysis.vocabulary import Diagnosis, Verdict
from tests.analysis.cases import logs, series, write_case

CHAIN = [{"caller": "web", "callee": "api"}, {"caller": "api", "callee": "db"}]
SLOW = {"title": "web is slow", "service": "web", "signal": "latency_ms"}
FAILS = {"title": "web fails", "service": "web", "signal": "error_ratio"}


def diagnosed(folder: Path, metrics: list[dict[str, Any]], **given: Any) -> Diagnosis:
    return diagnose(
        write_case(folder, **{"topology": CHAIN, "alert": SLOW, "metrics": metrics, **given})
    )


def subjects(diagnosis: Diagnosis) -> list[str]:
    return [cause.subject for cause in diagnosis.causes]


def on_nodes(service: str, bad: set[str], nodes: int = 4) -> list[dict[str, Any]]:
    """Latency of one instance per node; those on `bad` nodes become slow."""
    rows = []
    for number in range(nodes):
        node = f"node-{number}"
        labels = json.dumps({"pod": f"{service}-{number}", "node": node})
        own = series(service, "latency_ms", 50, 400 if node in bad else 50)
        rows += [{**row, "labels": labels} for row in own]
    return rows


def test_what_was_bad_already_while_the_alert_was_calm_is_not_the_cause(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 290) + series("api", "latency_ms", 60, 260)
    rows += series("db", "cpu_percent", 20, 95, onset=-25)
    found = diagnosed(tmp_path, rows)
    assert subjects(found)[0] == "api"


def test_the_callee_that_times_out_explains_its_callers_failures(tmp_path: Path) -> None:
    rows = series("web", "error_ratio", 0.001, 0.2) + series("web", "latency_ms", 90, 1000)
    rows += series("api", "latency_ms", 60, 2300) + series("db", "latency_ms", 5, 5)
    assert subjects(diagnosed(tmp_path, rows, alert=FAILS))[0] == "api"


def test_a_provider_without_any_signal_is_found_by_the_lines_that_name_it(tmp_path: Path) -> None:
    rows = series("web", "error_ratio", 0.001, 0.3) + series("api", "error_ratio", 0.001, 0.3)
    usual = logs("api", "cache warmed", range(-60, 30, 5), level="info")
    failing = logs(
        "api",
        "call to card-provider failed: certificate has expired",
        [m / 4 for m in range(120)],
        level="error",
    )
    found = diagnosed(
        tmp_path,
        rows,
        alert=FAILS,
        logs=usual + failing,
        topology=[*CHAIN, {"caller": "api", "callee": "card-provider"}],
    )
    assert subjects(found)[0] == "card-provider"
    first = found.causes[0]
    assert "call" in first.summary.lower()
    assert any(f.kind == "calls_into" for f in found.findings)


def test_a_node_on_which_several_services_are_slow_is_the_cause(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 250)
    for service in ("api", "db", "search", "cart"):
        rows += on_nodes(service, {"node-2"})
    edges = [{"caller": "web", "callee": name} for name in ("api", "db", "search", "cart")]
    found = diagnosed(tmp_path, rows, topology=edges)
    assert subjects(found)[0] == "node-2"
    assert "4 of 4 services" in found.causes[0].summary


def test_one_bad_instance_of_one_service_is_the_services_own_trouble(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 250) + on_nodes("api", {"node-2"})
    rows += on_nodes("db", set())
    found = diagnosed(tmp_path, rows)
    assert subjects(found)[0] == "api"
    assert "node-2" not in subjects(found)


def test_a_surge_accuses_the_front_door_as_well(tmp_path: Path) -> None:
    rows = series("web", "requests_per_second", 100, 320)
    rows += series("api", "requests_per_second", 100, 320) + series("api", "cpu_percent", 30, 97)
    rows += series("api", "latency_ms", 60, 700) + series("web", "latency_ms", 90, 760)
    assert "web" in subjects(diagnosed(tmp_path, rows))[:2]


def test_a_cache_that_lost_its_entries_comes_before_the_store_behind_it(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 400) + series("api", "latency_ms", 60, 380)
    rows += series("redis", "hit_ratio", 0.95, 0.1) + series("db", "latency_ms", 5, 90)
    rows += series("db", "requests_per_second", 10, 180)
    rows += series("api", "requests_per_second", 200, 200)
    edges = [*CHAIN, {"caller": "api", "callee": "redis"}]
    found = diagnosed(tmp_path, rows, topology=edges)
    assert subjects(found).index("redis") < subjects(found).index("db")


def test_a_calm_alerting_signal_is_no_incident_whatever_others_do(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 90) + series("batch", "error_ratio", 0.001, 0.9)
    found = diagnosed(tmp_path, rows)
    assert found.verdict is Verdict.NO_ACTIVE_INCIDENT


def test_the_title_names_the_service_where_nothing_else_does(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 290) + series("api", "latency_ms", 60, 260)
    case = write_case(
        tmp_path, metrics=rows, topology=CHAIN, alert={"title": "web: latency above 200 ms"}
    )
    assert established(case).observation.alerting == "web"


def test_probabilities_leave_room_for_what_was_not_seen(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 290) + series("api", "latency_ms", 60, 260)
    case = write_case(tmp_path, metrics=rows, topology=CHAIN, alert=SLOW)
    suspects = established(case).suspects
    assert 0 < sum(suspect.probability for suspect in suspects) < 1
    assert suspects == sorted(suspects, key=lambda s: -s.probability)


def only(found: list[Deviation]) -> Deviation:
    (one,) = found
    return one


@pytest.mark.parametrize(("after", "is_out"), [(90, False), (92, False), (290, True)])
def test_a_series_is_out_beyond_what_its_quiet_windows_reach(
    tmp_path: Path, after: float, is_out: bool
) -> None:
    case = write_case(tmp_path, metrics=series("web", "latency_ms", 90, after))
    assert (only(deviations(case)).excess > 1) is is_out


def test_failures_that_grow_with_the_requests_alone_are_none(tmp_path: Path) -> None:
    rows = series("web", "requests", 100, 1000) + series("web", "errors", 2, 20)
    case = write_case(tmp_path, metrics=rows)
    errors = next(one for one in deviations(case) if one.signal == "errors")
    assert errors.excess <= 1


def test_one_spike_is_within_noise_and_one_restart_is_not(tmp_path: Path) -> None:
    spike = series("web", "latency_ms", 90, 900, onset=10, until=11)
    restart = series("web", "pod_restarts", 0, 1, onset=10, until=11, noise=0)
    case = write_case(tmp_path, metrics=spike + restart)
    by_signal = {one.signal: one.excess for one in deviations(case)}
    assert by_signal["latency_ms"] <= 1 < by_signal["pod_restarts"]


def test_lines_speak_of_whom_they_name_and_otherwise_of_their_writer(tmp_path: Path) -> None:
    minutes = [m / 2 for m in range(60)]
    rows = logs("api", "call to store failed", minutes, level="error")
    rows += logs("web", "out of memory", minutes, level="error")
    rows += logs("web", "all is well", range(-60, 30), level="info")
    case = write_case(tmp_path, logs=rows)
    found = {(one.writer, one.names) for one in error_lines(case, {"api", "store", "web"})}
    assert found == {("api", "store"), ("web", None)}
