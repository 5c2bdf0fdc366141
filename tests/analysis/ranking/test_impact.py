from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.metrics.alert_history import alert_history
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.ranking.impact import TWO_LINES, assess_impact, error_budget, objective_of
from faultline.analysis.ranking.training_impact import training_impact
from faultline.analysis.requests.topology import read_topology
from faultline.analysis.vocabulary import Alert, Cause, Finding, Impact
from tests.analysis.cases import START, at, failing, logs, series, spans, write_case

ALERT = {"service": "web", "signal": "error_ratio"}


def findings_of(case: Case) -> list[Finding]:
    facts = metric_shifts(case)
    facts += alert_history(case, facts)
    return [f.model_copy(update={"id": f"F{n}"}) for n, f in enumerate(facts, start=1)]


def cause(subject: str) -> Cause:
    return Cause(
        rank=1, subject=subject, kind="latency", confidence=0.6, summary=subject, findings=("F1",)
    )


def impact_of(case: Case, culprit: str | None = None) -> Impact:
    causes = (cause(culprit),) if culprit else ()
    return assess_impact(case, findings_of(case), read_topology(case), causes=causes)


def test_requests_failing_are_traffic_times_the_share_that_fails(tmp_path: Path) -> None:
    found = impact_of(write_case(tmp_path, alert=ALERT, metrics=failing()))
    assert found.numbers["failed_requests"] == pytest.approx(20 * 60 * 30 * 0.05, rel=0.02)
    assert "; about 1800 requests failed since the onset (5 %)." in found.sentence


def test_users_are_counted_where_error_lines_name_them(tmp_path: Path) -> None:
    lines = [
        line
        for user in ("ann", "bob", "ann")
        for line in logs("web", "failed", [5], level="ERROR", attributes=f'{{"user_id": "{user}"}}')
    ]
    lines += logs("web", "fine", [6], level="INFO", attributes='{"user_id": "eve"}')
    found = impact_of(write_case(tmp_path, alert=ALERT, metrics=failing(), logs=lines))
    assert found.numbers["users"] == 2
    assert "2 users named in error lines" in found.sentence


def test_an_error_budget_is_told_only_with_an_objective(tmp_path: Path) -> None:
    without = impact_of(write_case(tmp_path / "a", alert=ALERT, metrics=failing()))
    assert "budget" not in without.sentence
    labelled = {**ALERT, "labels": {"slo_objective": "99.9"}}
    found = impact_of(write_case(tmp_path / "b", alert=labelled, metrics=failing()))
    assert (
        "the error budget of 99.9 % burns 50 times too fast: 30 days of it last about 14 h"
        in found.sentence
    )
    assert (found.numbers["burn_rate"], found.numbers["budget_hours"]) == (50, 14)


def test_the_workbook_s_example_burns_a_thousand_times_too_fast() -> None:
    """SRE Workbook, chapter 5: a total outage at 99.9 % uses up 30 days of budget in 43 minutes."""
    alert = Alert(source="x", title="t", started_at=START, labels={"objective": "0.999"})
    found = error_budget(alert, 1.0)
    assert found is not None
    assert found.burn_rate == pytest.approx(1000)
    assert found.hours * 60 == pytest.approx(43.2)
    assert error_budget(alert, 0.0009) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("99.9", 0.999),
        ("99.95%", 0.9995),
        ("0.99", 0.99),
        ("checkout-availability", None),
        ("100", None),
        ("nan", None),
    ],
)
def test_objectives_are_read_from_labels_that_hold_a_number(
    value: str, expected: float | None
) -> None:
    assert objective_of({"slo": value}) == (pytest.approx(expected) if expected else None)


def test_another_period_of_the_objective_is_used() -> None:
    alert = Alert(
        source="x", title="t", started_at=START, labels={"slo": "99.9", "slo_window": "7d"}
    )
    found = error_budget(alert, 0.01)
    assert found is not None
    assert found.days == 7
    assert found.hours == pytest.approx(16.8)


CALLS = [{"caller": c, "callee": "api"} for c in ("web", "mobile", "batch")] + [
    {"caller": "edge", "callee": "web"}
]


def slow(*services: str) -> list[dict[str, Any]]:
    return [row for s in services for row in series(s, "latency_ms", 100, 900)]


def test_the_callers_of_the_first_cause_that_show_symptoms_are_counted(tmp_path: Path) -> None:
    alert = {"service": "web", "signal": "latency_ms"}
    case = write_case(tmp_path, alert=alert, topology=CALLS, metrics=slow("api", "web", "mobile"))
    found = impact_of(case, "api")
    assert "2 of 3 services that call api show symptoms (mobile, web)" in found.sentence
    assert (found.numbers["affected_callers"], found.numbers["callers"]) == (2, 3)


def test_without_an_alerting_service_the_entry_above_the_cause_comes_first(tmp_path: Path) -> None:
    case = write_case(tmp_path, topology=CALLS, metrics=slow("api", "web", "edge", "lonely"))
    assert impact_of(case, "api").sentence.startswith("Latency of edge rose")


def test_symptoms_that_no_call_connects_with_the_cause_are_not_its_impact(tmp_path: Path) -> None:
    calls = [*CALLS, {"caller": "cron", "callee": "store"}]
    alert = {"service": "web", "signal": "latency_ms"}
    found = impact_of(
        write_case(tmp_path, alert=alert, topology=calls, metrics=slow("api", "web", "store")),
        "api",
    )
    assert found.services == ("api", "web")


def test_a_recovered_signal_says_how_long_it_was_away(tmp_path: Path) -> None:
    alert = {"service": "web", "signal": "latency_ms"}
    case = write_case(
        tmp_path, alert=alert, metrics=series("web", "latency_ms", 100, 900, onset=3, until=12)
    )
    found = impact_of(case)
    assert "it was back after about 9 min" in found.sentence
    assert found.numbers["lasted_min"] == 9


def test_nobody_affected_says_why_the_alert_fired(tmp_path: Path) -> None:
    alert = {"service": "web", "signal": "latency_ms", "threshold": 90, "observed": 101}
    found = impact_of(
        write_case(tmp_path, alert=alert, metrics=series("web", "latency_ms", 100, 100))
    )
    assert found.sentence.startswith(
        "No effect on a user-facing signal was found: web latency_ms was above the alert's"
    )
    assert len(found.findings) == 1


def test_the_sentence_fits_into_two_lines_and_the_numbers_are_all_kept(tmp_path: Path) -> None:
    names = [f"a-service-with-a-long-name-{n}" for n in range(30)]
    calls = [{"caller": n, "callee": "api"} for n in names]
    alert = {**ALERT, "service": "web", "labels": {"slo": "99.9"}}
    case = write_case(
        tmp_path, alert=alert, topology=calls, metrics=failing() + slow("api", *names)
    )
    found = impact_of(case, "api")
    assert len(found.sentence) <= TWO_LINES
    assert {"failed_requests", "burn_rate", "affected_callers"} <= found.numbers.keys()


JOB = {
    "service": "llm",
    "signal": "step_time_ms",
    "labels": {"job_name": "llm", "world_size": "64"},
}


def test_a_slow_job_loses_its_share_of_gpu_hours(tmp_path: Path) -> None:
    rows = series("llm", "tokens_per_s", 1000, 600, noise=0.001)
    rows += [
        {**r, "labels": '{"host": "h1", "gpu": "0"}'}
        for r in series("llm", "gpu_utilization_percent", 90, 60)
    ]
    case = write_case(tmp_path, alert=JOB, metrics=rows)
    found = training_impact(case, findings_of(case))
    assert found is not None
    assert found.lost == pytest.approx(0.4, abs=0.01)
    assert found.sentence == (
        "about 40 % of the training's speed is lost, 25.6 of 64 GPU-hours every hour, about 13 "
        "GPU-hours so far"
    )


def test_step_time_counts_by_its_inverse_and_processors_are_no_gpus(tmp_path: Path) -> None:
    case = write_case(
        tmp_path, alert=JOB, metrics=series("llm", "step_time_ms", 100, 200, noise=0.001)
    )
    found = impact_of(case)
    assert (
        "about 50 % of the training's speed is lost, 32 of 64 rank-hours every hour"
        in found.sentence
    )


def hang(**numbers: float) -> Finding:
    return Finding(
        id="F9", kind="stack_outlier", subject="rank 3", strength=0.8, onset=START,
            sentence="rank 3 hangs",
        numbers=numbers, details={"job": "llm", "ranks": list(range(8))},
    )  # fmt: skip


def test_a_hang_loses_everything(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert={"service": "llm", "labels": {"job_name": "llm"}})
    found = training_impact(case, [hang()])
    assert found is not None
    assert (
        found.sentence
        == "llm stands still, 8 of 8 rank-hours every hour, about 4 rank-hours so far"
    )


def test_a_rank_said_to_hang_in_a_job_that_goes_on_loses_only_what_is_measured(
    tmp_path: Path,
) -> None:
    case = write_case(
        tmp_path, alert=JOB, metrics=series("llm", "tokens_per_s", 1000, 900, noise=0.001)
    )
    found = training_impact(case, [*findings_of(case), hang()])
    assert found is not None
    assert found.lost == pytest.approx(0.1, abs=0.01)


def test_a_straggler_costs_the_others_wait(tmp_path: Path) -> None:
    finding = hang(wait_ms_per_step=78, step_ms=104).model_copy(
        update={"kind": "straggler", "onset": None}
    )
    found = training_impact(
        write_case(tmp_path, alert={"service": "llm", "labels": {"job_name": "llm"}}), [finding]
    )
    assert found is not None
    assert found.lost == pytest.approx(0.75)
    assert found.so_far is None


def test_no_job_no_training_impact(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "tokens_per_s", 1000, 100))
    assert training_impact(case, findings_of(case)) is None


def test_empty_cases_have_no_impact(tmp_path: Path) -> None:
    assert (
        impact_of(write_case(tmp_path)).sentence == "No effect on a user-facing signal was found."
    )


@pytest.mark.parametrize(("strength", "stands_still"), [(0.2, False), (0.3, True)])
def test_a_faint_sign_of_a_hang_is_no_loss(
    tmp_path: Path, strength: float, *, stands_still: bool
) -> None:
    case = write_case(tmp_path, alert={"service": "llm", "labels": {"job_name": "llm"}})
    found = training_impact(case, [hang().model_copy(update={"strength": strength})])
    assert (found is not None) is stands_still


@pytest.mark.parametrize(("wait_ms", "is_told"), [(1.5, False), (2.5, True)])
def test_a_loss_of_a_fiftieth_of_the_speed_is_told(
    tmp_path: Path, wait_ms: float, *, is_told: bool
) -> None:
    numbers = {"wait_ms_per_step": wait_ms, "step_ms": 100.0}
    straggler = hang(**numbers).model_copy(update={"kind": "straggler"})
    case = write_case(tmp_path, alert={"service": "llm", "labels": {"job_name": "llm"}})
    assert (training_impact(case, [straggler]) is not None) is is_told


def test_a_caller_that_only_its_spans_show_waiting_is_affected(tmp_path: Path) -> None:
    rows = spans(-30, 40, 60, 50, tag="a") + spans(0, 40, 460, 450, tag="b")
    slow = write_case(tmp_path / "slow", alert=ALERT, spans=rows)
    found = impact_of(slow, "api")
    assert found.services == ("web",)
    assert found.sentence == "Requests take 460 ms in web, 60 ms in the baseline."
    assert found.since is not None
    # A caller that does not wait for what became slow is not affected.
    rows = spans(-30, 40, 60, 50, tag="a") + spans(0, 40, 61, 51, tag="b")
    assert impact_of(write_case(tmp_path / "calm", alert=ALERT, spans=rows), "api").services == ()


def test_callers_in_spans_are_counted_with_those_that_metrics_show(tmp_path: Path) -> None:
    rows = spans(-30, 40, 60, 50, tag="a") + spans(0, 40, 460, 450, tag="b")
    metrics = series("shop", "error_ratio", 0.0, 0.3)
    calls = [{"caller": "web", "callee": "api"}, {"caller": "shop", "callee": "api"}]
    case = write_case(tmp_path, alert=ALERT, spans=rows, metrics=metrics, topology=calls)
    found = impact_of(case, "api")
    assert found.services == ("shop", "web")
    assert "both services that call api show symptoms (shop, web)" in found.sentence


def test_it_began_when_what_leads_it_did(tmp_path: Path) -> None:
    alert = {"service": "web", "signal": "latency_ms", "started_at": at(12)}
    metrics = series("web", "latency_ms", 100, 900, onset=9) + series("api", "latency_ms", 100, 900)
    case = write_case(tmp_path, alert=alert, topology=CALLS, metrics=metrics)
    assert impact_of(case, "api").since == START + timedelta(minutes=9)
