from __future__ import annotations

from pathlib import Path

from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.requests.span_shifts import span_shifts
from faultline.analysis.requests.topology import read_topology, topology_of
from faultline.analysis.suspects.explanations import (
    MAX_SUSPECTS,
    weigh_suspects,
    with_ranks,
)
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.vocabulary import Alert, Finding
from tests.analysis.cases import START, series, spans, write_case

CHAIN = [{"caller": "web", "callee": "api"}, {"caller": "api", "callee": "db"}]


def ranked(folder: Path, metrics: list[dict[str, object]], **given: object) -> list[Suspect]:
    case = write_case(folder, metrics=metrics, **{"topology": CHAIN, **given})  # type: ignore[arg-type]
    findings: list[Finding] = [*metric_shifts(case), *span_shifts(case)]
    return weigh_suspects(findings, read_topology(case), case.alert)


def score_of(subject: str, suspects: list[Suspect]) -> float:
    (score,) = [suspect.score for suspect in suspects if suspect.subject == subject]
    return score


def test_the_service_at_the_end_of_the_chain_of_symptoms_comes_first(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 900) + series("api", "latency_ms", 60, 800)
    first, *_ = found = ranked(tmp_path, rows + series("db", "latency_ms", 10, 90))
    assert first.subject == "db"
    assert {s.subject: s.explained_by for s in found} == {"db": None, "api": "db", "web": "api"}


def test_the_loudest_victim_does_not_win_over_a_resource_that_ran_out(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 10, 5000) + series("web", "error_ratio", 0.01, 0.9)
    assert ranked(tmp_path, rows + series("db", "cpu_percent", 20, 95))[0].subject == "db"


def test_a_surge_of_traffic_is_laid_to_the_service_it_came_in_by(tmp_path: Path) -> None:
    rows = [
        row
        for service in ("web", "api", "db")
        for row in series(service, "requests_per_sec", 100, 600)
        + series(service, "cpu_percent", 20, 95)
        + series(service, "latency_ms", 20, 300)
    ]
    assert (
        ranked(tmp_path, rows, alert={"service": "web", "signal": "latency_ms"})[0].subject == "web"
    )


def test_what_a_store_runs_out_of_while_its_cache_misses_is_no_fault_of_the_store(
    tmp_path: Path,
) -> None:
    rows = series("api", "latency_ms", 60, 800) + series("db", "cpu_percent", 20, 95)
    misses = series("cache", "hit_ratio", 0.92, 0.1)
    edges = [*CHAIN, {"caller": "api", "callee": "cache"}]
    alone, beside = (
        {
            suspect.subject: suspect.score
            for suspect in ranked(tmp_path / name, more, topology=edges)
        }
        for name, more in (("alone", rows), ("beside", rows + misses))
    )
    assert beside["db"] < 0.8 * alone["db"]


def test_load_comes_from_several_calls_above(tmp_path: Path) -> None:
    rows = series("api", "latency_ms", 60, 800) + series("db", "cpu_percent", 20, 95)
    surge = series("web", "requests_per_sec", 100, 600)
    alone, loaded = ranked(tmp_path / "alone", rows), ranked(tmp_path / "loaded", rows + surge)
    assert score_of("db", loaded) < 0.8 * score_of("db", alone)


def test_a_callee_whose_trouble_began_later_does_not_explain_the_caller(tmp_path: Path) -> None:
    rows = series("api", "error_ratio", 0.01, 0.5, onset=2) + series(
        "db", "error_ratio", 0.01, 0.5, onset=9
    )
    first = ranked(tmp_path, rows)[0]
    assert (first.subject, first.explained_by) == ("api", None)


def test_a_service_the_alerting_one_does_not_reach_counts_less(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 400) + series("batch", "latency_ms", 100, 400)
    edges = [*CHAIN, {"caller": "batch", "callee": "db"}]
    found = ranked(tmp_path, rows, alert={"service": "web", "signal": "latency_ms"}, topology=edges)
    assert [s.subject for s in found] == ["web", "batch"]
    assert found[1].score < found[0].score


def test_time_lost_on_calls_speaks_for_the_callee(tmp_path: Path) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=10, tag="b") + spans(
        5, 40, caller_ms=260, callee_ms=10, tag="i"
    )
    first = ranked(tmp_path, series("web", "latency_ms", 12, 260), spans=rows, topology=[])[0]
    assert (first.subject, first.main_fault) == ("api", "network")


def straggler(rank: int, strength: float) -> Finding:
    return Finding(
        id="",
        kind="straggler",
        subject=f"rank {rank}",
        strength=strength,
        sentence=f"rank {rank} delays 9 of 10 steps",
        details={"rank": rank, "job": "pretrain", "host": "node-7", "blame_share": strength},
    )


def test_a_straggler_leads_and_explains_the_slow_steps_of_its_job(tmp_path: Path) -> None:
    alert = {"service": "pretrain", "signal": "step_time_seconds"}
    case = write_case(
        tmp_path, alert=alert, metrics=series("pretrain", "step_time_seconds", 0.4, 2.0)
    )
    findings = [*metric_shifts(case), straggler(2, 0.7)]
    found = weigh_suspects(
        findings, with_ranks(read_topology(case), findings, case.alert), case.alert
    )
    assert [s.subject for s in found] == ["rank 2", "pretrain"]
    assert found[1].explained_by == "rank 2"


def latency(service: str, strength: float) -> Finding:
    said = {"bad": True, "class": "latency", "direction": "up"}
    return Finding(
        id="",
        kind="metric_shift",
        subject=service,
        signal="latency_ms",
        strength=strength,
        sentence="",
        details=said,
    )


def test_of_very_many_suspects_the_loudest_and_the_alerting_service_are_weighed() -> None:
    quiet = [latency(f"s{n}", 0.5) for n in range(MAX_SUSPECTS + 50)]
    alert = Alert(source="test", title="slow", started_at=START, service="web")
    found = weigh_suspects(
        [*quiet, latency("loud", 0.9), latency("web", 0.1)], topology_of([]), alert
    )
    assert {"loud", "web"} <= {s.subject for s in found}
    assert len(found) == MAX_SUSPECTS + 1
