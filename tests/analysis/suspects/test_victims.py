from __future__ import annotations

from pathlib import Path

from faultline.analysis.changes.alternatives import metric_reasons
from faultline.analysis.logs.templates import log_findings
from faultline.analysis.metrics.explained_share import measured
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.suspects.explanations import weigh_suspects
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.suspects.victims import onset_of
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, at, series, write_case

CHAIN = [{"caller": "web", "callee": "api"}, {"caller": "api", "callee": "db"}]
ALERT = {"service": "web", "signal": "latency_ms"}


def ranked(folder: Path, metrics: list[dict[str, object]], **given: object) -> list[Suspect]:
    case = write_case(folder, metrics=metrics, **{"topology": CHAIN, "alert": ALERT, **given})  # type: ignore[arg-type]
    return weigh_suspects(
        [*metric_shifts(case), *log_findings(case)], read_topology(case), case.alert, measured(case)
    )


def test_two_milliseconds_more_in_the_database_do_not_explain_two_hundred_in_its_caller(
    tmp_path: Path,
) -> None:
    rows = (
        series("web", "latency_ms", 90, 290)
        + series("api", "latency_ms", 60, 260)
        + series("db", "latency_ms", 2, 4)
    )
    found = ranked(tmp_path, rows)
    assert found[0].subject == "api"


def test_a_small_rise_below_counts_as_often_as_it_is_called(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 90, 290) + series("api", "latency_ms", 60, 260)
    rows += series("db", "latency_ms", 2, 14)
    assert ranked(tmp_path / "few", rows)[0].subject == "api"
    many = series("api", "requests", 100, 100) + series("db", "requests", 2000, 2000)
    assert ranked(tmp_path / "many", rows + many)[0].subject == "db"


def test_slowness_that_no_caller_feels_counts_less(tmp_path: Path) -> None:
    calm = series("web", "latency_ms", 90, 90) + series("api", "latency_ms", 60, 60)
    rows = calm + series("db", "latency_ms", 2, 40)
    unfelt = ranked(tmp_path / "unfelt", rows, alert={"service": "web", "signal": "error_ratio"})
    unseen = ranked(
        tmp_path / "unseen", series("db", "latency_ms", 2, 40), alert={"service": "web"}
    )
    assert unfelt[0].score < 0.6 * unseen[0].score


def test_a_service_that_alerts_for_its_latency_feels_it_whatever_its_median_shows(
    tmp_path: Path,
) -> None:
    calm = series("web", "latency_ms", 90, 90)
    edges = [{"caller": "web", "callee": "api"}]
    rows = calm + series("api", "latency_ms", 60, 260)
    alerting = ranked(tmp_path / "latency", rows, topology=edges)
    other = ranked(
        tmp_path / "errors", rows, topology=edges, alert={"service": "web", "signal": "cpu"}
    )
    assert alerting[0].score > other[0].score


def test_failures_thin_out_on_the_way_up(tmp_path: Path) -> None:
    rows = series("web", "availability", 99.8, 97, noise=0.001) + series(
        "db", "availability", 99.8, 74, noise=0.001
    )
    edges = [{"caller": "web", "callee": "api"}, {"caller": "other", "callee": "db"}]
    found = ranked(tmp_path, rows, topology=edges, alert={"source": "test"})
    assert [s.subject for s in found] == ["db", "web"]


def test_a_service_whose_log_failed_a_minute_before_its_callees_is_not_explained_by_it(
    tmp_path: Path,
) -> None:
    def failing(service: str, minute: float) -> list[dict[str, object]]:
        calm = [
            {"time": at(-60 + i), "service": service, "message": "request done", "level": "INFO"}
            for i in range(60)
        ]
        bad = [
            {
                "time": at(minute + i / 2),
                "service": service,
                "message": "signature is not valid",
                "level": "ERROR",
            }
            for i in range(20)
        ]
        return calm + bad

    for first, last in (("api", "db"), ("db", "api")):
        found = ranked(
            tmp_path / first,
            [],
            logs=failing(first, 1) + failing(last, 2),
            alert={"service": "web"},
        )
        assert found[0].subject == first


def test_other_traffic_than_before_sets_no_onset(tmp_path: Path) -> None:
    busy = series("api", "requests", 50, 90, onset=-25)
    slow = series("api", "latency_ms", 60, 260)
    window = {"incident": [at(-28), at(30)], "baseline": [[at(-60), at(-28)]]}
    (both,) = ranked(tmp_path / "both", busy + slow, scope=window)
    assert both.onset is not None
    assert abs((both.onset - START).total_seconds()) <= 120
    (alone,) = ranked(tmp_path / "alone", busy, scope=window)
    assert alone.onset is not None
    assert alone.onset < START


def test_requests_under_way_that_pile_up_are_no_demand(tmp_path: Path) -> None:
    slow = series("web", "latency_ms", 60, 260)
    piling = write_case(
        tmp_path / "active", metrics=slow + series("web", "http_server_active_requests", 5, 50)
    )
    assert not [f for f in metric_reasons(piling, read_topology(piling)) if f.kind == "demand"]
    asked = write_case(
        tmp_path / "asked", metrics=slow + series("web", "http_server_requests_total", 50, 500)
    )
    assert [f for f in metric_reasons(asked, read_topology(asked)) if f.kind == "demand"]


def scores(suspects: list[Suspect], subject: str) -> dict[str, float]:
    return next(suspect.scores for suspect in suspects if suspect.subject == subject)


def test_the_time_of_statements_is_the_stores_and_fills_the_pool_above_it(
    tmp_path: Path,
) -> None:
    rows = (
        series("web", "error_ratio", 0.001, 0.9)
        + series("api", "pool_usage_ratio", 0.1, 1.0)
        + series("db", "statement_latency_mean", 0.002, 0.098)
    )
    alert = {"service": "web", "signal": "error_ratio"}
    slow = ranked(tmp_path / "slow", rows, alert=alert)
    assert slow[0].subject == "db"


def test_what_is_asked_for_more_by_a_caller_runs_out_under_the_load(tmp_path: Path) -> None:
    steady = series("web", "error_ratio", 0.001, 0.9) + series("api", "cpu_percent", 20, 95)
    calm = ranked(tmp_path / "calm", steady)
    loaded = ranked(tmp_path / "loaded", steady + series("api", "requests_per_second", 100, 600))
    assert scores(loaded, "api")["resource"] < 0.8 * scores(calm, "api")["resource"]


def test_one_pod_that_moved_earlier_sets_no_onset() -> None:
    """Of many pods one moves by chance."""

    def shift(minute: float, **place: str) -> Finding:
        series_of = {"service": "api", "signal": "errors", **place}
        return Finding(
            id="",
            kind="metric_shift",
            subject="api",
            strength=0.6,
            sentence="",
            onset=at(minute),
            series=series_of,
            details={"class": "errors", "bad": True, "direction": "up"},
        )

    pod, whole = shift(-15, labels='{"pod":"api-1"}'), shift(1)
    assert onset_of([pod, whole]) == whole.onset
    assert onset_of([pod]) == pod.onset
