"""Go, hold or roll back, on simulated services."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from faultline.analysis.deploys.question import Look
from faultline.analysis.deploys.verifying import FALSE_ALARMS
from tests.analysis.deploys.service_rows import (
    DEPLOYED,
    FIRST,
    LAST,
    LOOK,
    Service,
    case_of,
    check_of,
    judged,
)


def test_nothing_worse_is_a_go(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [Service()]))
    assert (verdict.decision, verdict.final, verdict.missing) == ("go", True, ())
    assert verdict.false_alarm_rate == FALSE_ALARMS
    assert not any(one.worse or one.suspicious for one in verdict.checks)


def test_more_errors_are_a_roll_back_with_levels_and_evidence(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [Service(failing=(0.004, 0.03))]))
    assert verdict.decision == "roll_back"
    errors = check_of(verdict, "error_ratio")
    assert errors.worse
    assert 0.003 < errors.before < 0.005
    assert 0.025 < errors.after < 0.035
    assert errors.evidence
    assert {one.id for one in verdict.evidence} >= set(errors.evidence)
    assert "checkout" in verdict.headline
    assert not check_of(verdict, "latency_p99").worse


def test_a_certain_move_that_does_not_matter_is_no_roll_back(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [Service(latency_ms=(80.0, 90.0))]))
    latency = check_of(verdict, "latency_p99")
    assert latency.p < latency.needed_p
    assert (latency.worse, verdict.decision) == (False, "go")


def test_what_gets_better_is_not_worse(tmp_path: Path) -> None:
    better = Service(failing=(0.03, 0.001), latency_ms=(200.0, 50.0))
    assert judged(case_of(tmp_path, [better])).decision == "go"


def test_a_slow_drift_is_not_taken_for_a_deploy(tmp_path: Path) -> None:
    rows = Service().rows()
    for row in rows:
        if row["signal"] == "latency_p99":
            row["value"] *= 1 + 0.12 * rows.index(row) / len(rows) * 6
    verdict = judged(case_of(tmp_path, [], rows))
    assert verdict.decision == "go", verdict.headline


def test_the_warm_up_is_not_judged(tmp_path: Path) -> None:
    rows = Service().rows()
    for row in rows:
        begun = DEPLOYED.isoformat() <= row["time"] < LOOK.start.isoformat()
        if begun and row["signal"] == "error_ratio":
            row["value"] = 0.8
    assert judged(case_of(tmp_path, [], rows)).decision == "go"


def test_too_little_traffic_holds_and_says_how_much_there_was(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [Service(per_second=0.05)]))
    assert verdict.decision == "hold"
    assert any("Too little traffic" in one for one in verdict.missing)


def test_failures_of_few_requests_are_no_certainty(tmp_path: Path) -> None:
    """One of some thirty requests fails: 3 %, and no more than chance."""
    rows = Service(per_second=0.04, failing=(0.0, 0.0)).rows()
    failing = next(
        row
        for row in rows
        if row["signal"] == "error_ratio" and row["time"] >= LOOK.start.isoformat()
    )
    failing["value"] = 0.4
    verdict = judged(case_of(tmp_path, [], rows))
    assert verdict.decision == "hold"
    assert not check_of(verdict, "error_ratio").worse


def test_a_young_service_holds(tmp_path: Path) -> None:
    young = Service(since=timedelta(minutes=-30), failing=(0.004, 0.3))
    verdict = judged(case_of(tmp_path, [young]))
    assert verdict.decision == "hold"
    assert any("30 min before the deploy are known" in one for one in verdict.missing)
    assert any("65 min" in one and "shorter" in one for one in verdict.missing)


def test_nothing_after_the_deploy_holds(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [Service(until=timedelta(0))]))
    assert verdict.decision == "hold"
    assert any("nothing was recorded after the deploy" in one for one in verdict.missing)


def test_an_unknown_service_holds(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [Service(name="cart")]))
    assert verdict.decision == "hold"
    assert any("No request metrics" in one for one in verdict.missing)


def test_before_the_last_look_nothing_is_a_go(tmp_path: Path) -> None:
    early = Look(2, 5, LOOK.start, LOOK.start + timedelta(minutes=6), 0.2)
    verdict = judged(case_of(tmp_path, [Service()]), early)
    assert (verdict.decision, verdict.final) == ("hold", False)
    worse = judged(case_of(tmp_path / "worse", [Service(failing=(0.004, 0.2))]), early)
    assert (worse.decision, worse.final) == ("roll_back", True)
    assert (
        check_of(worse, "error_ratio").needed_p
        < check_of(judged(case_of(tmp_path / "all", [Service()])), "error_ratio").needed_p
    )


def versions(old: Service, new: Service) -> list[Service]:
    return [
        replace(old, labels={"version": "v1"}, seed=3),
        replace(new, labels={"version": "v2"}, seed=4, since=timedelta(0), per_second=8.0),
    ]


def test_a_canary_that_is_worse_than_the_rest_is_rolled_back(tmp_path: Path) -> None:
    bad = Service(latency_ms=(80.0, 160.0))
    verdict = judged(case_of(tmp_path, versions(Service(), bad)))
    assert verdict.decision == "roll_back"
    beside = check_of(verdict, "latency_p99", "rest")
    assert (beside.worse, beside.against) == (True, "version v1")


def test_what_the_rest_suffers_too_is_not_the_deploys(tmp_path: Path) -> None:
    bad = Service(failing=(0.004, 0.05), latency_ms=(80.0, 160.0))
    verdict = judged(case_of(tmp_path, versions(bad, bad)))
    assert verdict.decision == "hold"
    assert any("moved alike" in one for one in verdict.reasons)


def test_before_the_rest_can_be_compared_the_past_alone_does_not_decide(tmp_path: Path) -> None:
    bad = Service(failing=(0.004, 0.2))
    case = case_of(tmp_path, versions(bad, bad))
    early = Look(1, 3, LOOK.start, LOOK.start + timedelta(minutes=5), 0.3)
    verdict = judged(case, early)
    assert (verdict.decision, verdict.final) == ("hold", False)
    assert any("too early to compare" in one for one in verdict.reasons)
    assert judged(case).decision == "hold"


def test_a_place_that_the_caller_names_is_compared_with_the_others(tmp_path: Path) -> None:
    """eu is always slower, which is no fault of the deploy; only its own step is."""
    usual = [
        Service(latency_ms=(120.0, 120.0), labels={"cluster": "eu"}, seed=5),
        Service(labels={"cluster": "us"}, seed=6),
    ]
    case = case_of(tmp_path, usual)
    assert judged(case, cluster="eu").decision == "go"
    worse = [replace(usual[0], latency_ms=(120.0, 200.0)), usual[1]]
    verdict = judged(case_of(tmp_path / "worse", worse), cluster="eu")
    assert verdict.decision == "roll_back"
    assert check_of(verdict, "latency_p99", "rest").worse


def restarts(after: int) -> list[dict[str, Any]]:
    rows = []
    for at in range(int(FIRST.total_seconds()), int(LAST.total_seconds()), 60):
        count = 4 + (after * max(0, at - 180) // 720 if at > 180 else 0)
        time = (DEPLOYED + timedelta(seconds=at)).isoformat()
        signal = "kube_pod_container_status_restarts_total"
        rows.append({"time": time, "service": "checkout", "signal": signal, "value": count})
    return rows


def test_restarts_again_and_again_are_a_roll_back_and_a_single_one_is_not(tmp_path: Path) -> None:
    assert judged(case_of(tmp_path, [Service()], restarts(1))).decision == "go"
    verdict = judged(case_of(tmp_path / "many", [Service()], restarts(9)))
    assert verdict.decision == "roll_back"
    assert "restart" in verdict.headline.casefold()


def lines(text: str, first: int, last: int, every: int) -> list[dict[str, Any]]:
    return [
        {
            "time": (DEPLOYED + timedelta(seconds=at)).isoformat(),
            "service": "checkout",
            "message": f"ERROR {text} {at}",
            "level": "ERROR",
        }
        for at in range(first, last, every)
    ]


def test_error_lines_of_a_new_kind_hold_and_are_quoted(tmp_path: Path) -> None:
    usual = lines("cache miss for user", -6 * 3600, 900, 120)
    new = lines("cannot parse order of user", 150, 900, 10)
    assert judged(case_of(tmp_path, [Service()], logs=usual)).decision == "go"
    verdict = judged(case_of(tmp_path / "new", [Service()], logs=[*usual, *new]))
    assert verdict.decision == "hold"
    assert "cannot parse order" in json.dumps(verdict.reasons)


def available(before: float, after: float) -> list[dict[str, Any]]:
    rows = Service().rows()
    for row in rows:
        if row["signal"] == "error_ratio":
            late = row["time"] >= DEPLOYED.isoformat()
            row.update(signal="availability", value=1 - row["value"] - (after if late else before))
    return rows


def test_availability_falls_when_it_gets_worse(tmp_path: Path) -> None:
    verdict = judged(case_of(tmp_path, [], available(0.0, 0.4)))
    assert verdict.decision == "roll_back"
    check = check_of(verdict, "availability")
    assert check.before > 0.99
    assert 0.55 < check.after < 0.62
    assert "Availability fell from" in check.sentence
    assert check.detectable is not None
    assert check.after < check.detectable < check.before


def test_what_varies_is_said_in_the_singular_and_in_the_plural(tmp_path: Path) -> None:
    rows = Service().rows()
    for n, row in enumerate(rows):
        if row["signal"] == "latency_p99":
            row["value"] *= 40 ** ((n // 60) % 2)
    verdict = judged(case_of(tmp_path, [], rows))
    assert any(one.startswith("Latency varies too much") for one in verdict.missing)
