from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import StateFactDetails
from faultline.analysis.metrics.alert_history import FLAPPING, STOPPED, USUAL, alert_history
from faultline.analysis.metrics.recovery import KIND as RECOVERED
from faultline.analysis.metrics.recovery import AlertState, alert_state
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.metrics.usual_moves import usual_moves
from faultline.analysis.ranking.alert_gate import AlertGate, GateState
from faultline.analysis.ranking.missing_evidence import MOST, missing_evidence
from faultline.analysis.ranking.verdicts import EXPLAINED, QUIET, Conclusion, conclude
from faultline.analysis.vocabulary import Cause, Finding, Verdict
from tests.analysis.cases import at, series, write_case

ALERT = {"service": "web", "signal": "latency_ms", "title": "web latency above objective"}
CAUSE = Cause(
    rank=1, subject="api", kind="latency", confidence=0.5, summary="api is slow", findings=("F1",)
)


def findings_of(case: Case) -> list[Finding]:
    facts = metric_shifts(case)
    facts += alert_history(case, facts)
    return [f.model_copy(update={"id": f"F{n}"}) for n, f in enumerate(facts, start=1)]


def concluded(case: Case, *causes: Cause, top: float = 0.0) -> Conclusion:
    findings = findings_of(case)
    return conclude(case, causes, findings, alert_state(case, findings), top)


def flapping() -> list[dict[str, Any]]:
    changes = [(m + n * 2, s) for m in (-50, -40, -30, -20) for n, s in enumerate(("Alert", "OK"))]
    return [
        {"monitor": ALERT["title"], "service": "web", "state": s, "since": at(m)}
        for m, s in changes
    ]


def peaks(every: int, high: float, level: float = 100, lasting: int = 2) -> list[dict[str, Any]]:
    rows = series("web", "latency_ms", level, level)
    for n, row in enumerate(rows):
        row["value"] = high if n % every < lasting else row["value"]
    return rows


def test_a_calm_signal_is_no_incident(tmp_path: Path) -> None:
    found = concluded(
        write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 100))
    )
    assert found == Conclusion(Verdict.NO_ACTIVE_INCIDENT, QUIET)


@pytest.mark.parametrize(
    ("fact", "value", "minute", "is_real"),
    [
        ("replicas_missing", "0", 1, True),
        ("certificate_expired", "it ended", 1, True),
        ("database_storage_full", "storage-full", 1, True),
        ("replicas_missing", "1", 1, False),
        ("certificate_expired", "it ended", -40, False),
    ],
    ids=["down", "cut off", "out of storage", "an instance is left", "cut off long before"],
)
def test_requests_that_never_arrive_fail_in_no_metric(
    tmp_path: Path, fact: str, value: str, minute: float, *, is_real: bool
) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 100))
    state = Finding(
        id="F9", kind="placing_state", subject="web", strength=0.9, sentence="?",
        onset=datetime.fromisoformat(at(minute)),
        details={"fact": fact, "objects": ["Deployment a/web"], "value": value, "expected": "2"},
    )  # fmt: skip
    findings = [*findings_of(case), state]
    found = conclude(case, [CAUSE], findings, alert_state(case, findings), 0.9)
    assert (found.verdict is Verdict.CAUSE_FOUND) is is_real


def test_a_flapping_monitor_over_a_calm_signal_is_no_incident_and_more_certain(
    tmp_path: Path,
) -> None:
    rows = series("web", "latency_ms", 100, 100)
    found = concluded(write_case(tmp_path, alert=ALERT, metrics=rows, monitors=flapping()))
    assert found == Conclusion(Verdict.NO_ACTIVE_INCIDENT, EXPLAINED)


def test_a_flapping_monitor_does_not_wave_away_a_symptom_that_persists(tmp_path: Path) -> None:
    case = write_case(
        tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 900), monitors=flapping()
    )
    assert FLAPPING in {f.kind for f in findings_of(case)}
    assert concluded(case, CAUSE, top=0.6).verdict is Verdict.CAUSE_FOUND


def test_a_threshold_in_the_normal_range_is_no_incident(tmp_path: Path) -> None:
    alert = {**ALERT, "threshold": 90, "observed": 101}
    found = concluded(
        write_case(tmp_path, alert=alert, metrics=series("web", "latency_ms", 100, 100))
    )
    assert found == Conclusion(Verdict.NO_ACTIVE_INCIDENT, EXPLAINED)


def moved(**more: Any) -> Finding:
    """A departure of the alerting signal, as `metric_shifts` tells of one."""
    given: dict[str, Any] = {
        "id": "F1", "kind": "metric_shift", "subject": "web", "signal": "latency_ms",
        "strength": 0.7,
        "sentence": "web latency_ms rose from 100 to 450 (4.5x).", "numbers": {"baseline": 100,
        "incident": 450},
        "details": {"class": "latency", "direction": "up", "bad": True, "recovered": False},
    }  # fmt: skip
    return Finding(**{**given, **more})


def test_what_the_signal_does_all_the_time_is_no_incident_and_is_said(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert=ALERT, metrics=peaks(every=15, high=450, lasting=3))
    usual = [f for f in alert_history(case, [moved()]) if f.kind == USUAL]
    assert [f.sentence for f in usual] == [
        "web latency_ms went as far 4 times in the 0.98 h before, for at most 3 min."
    ]
    assert usual[0].numbers == {"times": 4, "hours": 0.98, "minutes": 3}
    findings = [moved(), usual[0].model_copy(update={"id": "F2"})]
    found = conclude(case, (CAUSE,), findings, alert_state(case, findings), 0.6)
    assert found == Conclusion(Verdict.NO_ACTIVE_INCIDENT, EXPLAINED)


def test_what_happened_once_before_is_still_an_incident(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 900)
    for row in rows:
        row["value"] = 900 if at(-40) <= row["time"] < at(-10) else row["value"]
    assert (
        usual_moves(
            write_case(tmp_path, alert=ALERT, metrics=rows),
            [moved(numbers={"baseline": 100, "incident": 900})],
        )
        == {}
    )


def test_a_move_that_lasts_longer_than_the_usual_ones_is_not_usual(tmp_path: Path) -> None:
    rows = peaks(every=15, high=900)
    for row in rows:
        row["value"] = 900 if at(2) <= row["time"] else row["value"]
    case = write_case(tmp_path, alert=ALERT, metrics=rows)
    assert usual_moves(case, [moved(numbers={"baseline": 100, "incident": 900})]) == {}
    assert concluded(case, CAUSE, top=0.6).verdict is Verdict.CAUSE_FOUND


def test_what_the_alert_saw_and_the_series_shows_is_never_no_incident(tmp_path: Path) -> None:
    rows = series("web", "latency_ms", 100, 100)
    for row in rows:
        row["value"] = 104 if row["time"] == at(2) else row["value"]
    alert = {**ALERT, "threshold": 103, "observed": 104}
    assert (
        concluded(write_case(tmp_path, alert=alert, metrics=rows)).verdict
        is Verdict.INSUFFICIENT_EVIDENCE
    )


def test_what_the_series_does_not_show_is_a_gap_and_not_calm(tmp_path: Path) -> None:
    alert = {**ALERT, "threshold": 300, "observed": 400}
    found = concluded(
        write_case(tmp_path, alert=alert, metrics=series("web", "latency_ms", 100, 100))
    )
    assert found.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert found.missing[0].startswith(
        "The alert saw 400, and the collected web latency_ms never comes near it"
    )


CALLS = [{"caller": "web", "callee": "api"}]


def availability(service: str, falls: float) -> list[dict[str, Any]]:
    return series(service, "availability", 99.95, 99.95 - falls, noise=0.0005)


def diluted(folder: Path, topology: list[dict[str, Any]]) -> Case:
    alert = {"service": "web", "signal": "availability"}
    rows = availability("web", 0.01) + availability("api", 5)
    return write_case(folder, alert=alert, metrics=rows, topology=topology)


def test_a_small_drop_is_real_when_a_callee_clearly_fails(tmp_path: Path) -> None:
    assert concluded(diluted(tmp_path / "a", CALLS), CAUSE, top=0.1).verdict is Verdict.CAUSE_FOUND
    other = [{"caller": "cron", "callee": "api"}, {"caller": "web", "callee": "cache"}]
    assert alert_state(diluted(tmp_path / "b", other), ()).never_left


def test_a_signal_that_stopped_is_what_is_missing(tmp_path: Path) -> None:
    rows = [r for r in series("web", "latency_ms", 100, 100) if r["time"] < at(5)] + series(
        "web", "cpu", 20, 20
    )
    case = write_case(tmp_path, alert=ALERT, metrics=rows)
    assert STOPPED in {f.kind for f in findings_of(case)}
    found = concluded(case)
    assert found.verdict is Verdict.INSUFFICIENT_EVIDENCE
    assert "has had no data" in found.missing[0]
    assert "exporter" in found.missing[0]


def test_a_recovered_signal_says_when_it_came_back(tmp_path: Path) -> None:
    case = write_case(
        tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 900, onset=2, until=13)
    )
    (back,) = [f for f in findings_of(case) if f.kind == RECOVERED]
    assert back.onset is not None
    assert back.onset.isoformat() == at(13)
    assert back.sentence == "web latency_ms came back to its baseline after about 11 min."
    assert concluded(case, CAUSE, top=0.5).verdict is Verdict.RECOVERED


def gap(kind: str, reason: str, query: str = "q") -> dict[str, Any]:
    return {"id": f"G{kind}", "kind": kind, "source": "datadog", "query": query, "reason": reason}


def test_gaps_come_in_the_order_of_what_they_would_tell_with_what_to_do(tmp_path: Path) -> None:
    gaps = [
        gap("monitors", "HTTP 500"),
        gap("logs", "not permitted (HTTP 403)"),
        gap("metrics", "no answer within 20 s"),
    ]
    said = missing_evidence(write_case(tmp_path, alert=ALERT, evidence=gaps), set())
    assert [s.split()[0] for s in said[:2]] == ["metrics", "Needed:"]
    assert said[0].endswith(
        "no answer within 20 s. Check that datadog can be reached, and ask again."
    )
    assert next(s for s in said if s.startswith("logs")).endswith(
        "Give datadog the right to read them."
    )
    assert len(said) <= MOST


@pytest.mark.parametrize(
    ("query", "matters"), [("latency of web", True), ("latency of mail", False)]
)
def test_a_gap_in_what_others_gave_matters_only_about_the_suspects(
    tmp_path: Path, query: str, *, matters: bool
) -> None:
    case = write_case(
        tmp_path,
        alert=ALERT,
        metrics=series("web", "cpu", 1, 1),
        evidence=[gap("metrics", "no answer", query)],
    )
    said = missing_evidence(case, {"metrics"}, (), (CAUSE,))
    assert any(s.startswith("metrics from datadog") for s in said) is matters


@pytest.mark.parametrize(
    ("confidence", "given", "verdict"),
    [
        (0.59, {}, Verdict.INSUFFICIENT_EVIDENCE),
        (0.71, {}, Verdict.CAUSE_FOUND),
        (0.59, {"labels": {"job_name": "pretrain"}}, Verdict.CAUSE_FOUND),
    ],
)
def test_an_alert_that_names_nothing_needs_a_surer_cause(
    tmp_path: Path, confidence: float, given: dict[str, Any], verdict: Verdict
) -> None:
    alert = {"title": "user-facing errors above objective", **given}
    case = write_case(tmp_path, alert=alert, metrics=series("api", "latency_ms", 60, 260))
    findings = findings_of(case)
    cause = CAUSE.model_copy(update={"confidence": confidence})
    gate = AlertGate(GateState.UNKNOWN, names_nothing=True)
    found = conclude(case, [cause], findings, alert_state(case, findings), 0.9, gate)
    assert found.verdict is verdict
    names_it = any("names no service" in entry for entry in found.missing)
    assert names_it is (verdict is Verdict.INSUFFICIENT_EVIDENCE)


@pytest.mark.parametrize(
    ("subject", "strength", "verdict"),
    [
        ("api", 0.6, Verdict.INSUFFICIENT_EVIDENCE),
        ("api", 0.7, Verdict.CAUSE_FOUND),
        ("web", 0.7, Verdict.CAUSE_FOUND),
        ("mail", 0.7, Verdict.INSUFFICIENT_EVIDENCE),
    ],
)
def test_where_an_alert_names_nothing_a_moved_metric_needs_requests_that_show_it(
    tmp_path: Path, subject: str, strength: float, verdict: Verdict
) -> None:
    rows = series("api", "memory_bytes", 1e6, 4e6)
    alert = {"title": "user-facing errors above objective"}
    case = write_case(tmp_path, alert=alert, metrics=rows, topology=CALLS)
    findings = findings_of(case)
    memory = findings[0].id
    felt = moved(subject=subject, strength=strength).model_copy(update={"id": "F9"})
    cause = CAUSE.model_copy(update={"subject": "api", "confidence": 0.9, "findings": (memory,)})
    gate = AlertGate(GateState.UNKNOWN, names_nothing=True)
    state = alert_state(case, findings)
    assert conclude(case, [cause], [*findings, felt], state, 0.9, gate).verdict is verdict


STAYED = AlertState(comparable=True, findings=(), persisting=(), recovered_symptoms=())


def below_is_slow(folder: Path, slow: int, of: int, strength: float = 0.7) -> Verdict:
    """The verdict where this many of web's points are a little slow, and its callee is clearly."""
    rows = series("web", "latency_ms", 100, 100, noise=0, step=30 / of)
    now = [row for row in rows if row["time"] >= at(0)]
    for row in now[:slow]:
        row["value"] = 103
    case = write_case(folder, alert=ALERT, metrics=rows, topology=CALLS)
    finding = moved(subject="api", strength=strength)
    return conclude(case, (CAUSE,), [finding], STAYED, 0.1).verdict


@pytest.mark.parametrize(
    ("slow", "of", "verdict"),
    [
        (3, 30, Verdict.NO_ACTIVE_INCIDENT),
        (4, 30, Verdict.CAUSE_FOUND),
        (1, 3, Verdict.NO_ACTIVE_INCIDENT),
        (2, 3, Verdict.CAUSE_FOUND),
    ],
)
def test_a_small_move_is_real_from_more_slow_points_than_chance_has(
    tmp_path: Path, slow: int, of: int, verdict: Verdict
) -> None:
    assert below_is_slow(tmp_path, slow, of) is verdict


@pytest.mark.parametrize(
    ("strength", "verdict"), [(0.25, Verdict.NO_ACTIVE_INCIDENT), (0.35, Verdict.CAUSE_FOUND)]
)
def test_a_small_move_is_real_where_the_callee_s_is_clear(
    tmp_path: Path, strength: float, verdict: Verdict
) -> None:
    assert below_is_slow(tmp_path, 8, 30, strength) is verdict


@pytest.mark.parametrize(
    ("strength", "verdict"), [(0.55, Verdict.NO_ACTIVE_INCIDENT), (0.65, Verdict.RECOVERED)]
)
def test_a_flapping_monitor_is_no_incident_unless_something_is_clearly_wrong(
    tmp_path: Path, strength: float, verdict: Verdict
) -> None:
    rows = series("web", "latency_ms", 100, 100)
    case = write_case(tmp_path, alert=ALERT, metrics=rows, monitors=flapping())
    flaps = [finding for finding in findings_of(case) if finding.kind == FLAPPING]
    said = {"class": "latency", "direction": "up", "bad": True, "recovered": True}
    back = AlertState(True, (moved(details=said),), (), ())
    wrong = moved(id="F9", subject="api", strength=strength)
    assert conclude(case, (CAUSE,), [*flaps, wrong], back, 0.6).verdict is verdict


@pytest.mark.parametrize("is_pod", [True, False])
def test_one_pod_that_moved_and_came_back_was_no_incident(tmp_path: Path, *, is_pod: bool) -> None:
    """Of many pods one moves by chance."""
    case = write_case(tmp_path, alert=ALERT, metrics=series("web", "latency_ms", 100, 100))
    said = {"class": "latency", "direction": "up", "bad": True, "recovered": True}
    place = {"labels": '{"pod":"web-1"}'} if is_pod else {}
    series_of = {"table": "metrics", "service": "web", "signal": "latency_ms", **place}
    shift = moved(details=said, strength=0.55, series=series_of)
    back = AlertState(True, (shift,), (), ())
    verdict = conclude(case, (CAUSE,), [shift], back, 0.05).verdict
    assert (verdict is Verdict.RECOVERED) is not is_pod


def test_a_server_that_is_away_is_told_once(tmp_path: Path) -> None:
    failed = "its last 5 requests failed (no answer in time), so it was not asked"
    away = f"datadog https://dd.example: {failed} (circuit open). Next attempt in {{}} s"
    kinds = ("metrics", "traces", "topology", "logs")
    gaps = [gap(kind, away.format(19 - n)) for n, kind in enumerate(kinds)]
    said = missing_evidence(write_case(tmp_path, alert=ALERT, evidence=gaps), set())
    assert said[0] == (
        f"metrics, logs and topology from datadog are missing: https://dd.example: {failed} "
        "(circuit open). Next attempt in 19 s. Check that datadog can be reached, and ask again."
    )
    assert sum("datadog" in one for one in said) == 1


@pytest.mark.parametrize(
    ("subject", "minute", "is_incident"),
    [("web", 5, True), ("web", -40, False), ("batch", 5, False)],
)
def test_an_alert_that_comes_whenever_an_instance_ends_badly_is_no_noise(
    subject: str, minute: int, is_incident: bool, tmp_path: Path
) -> None:
    rows = peaks(20, 900, lasting=4)
    queried = [
        {
            "time": row["time"],
            "series": "{}",
            "is_true": float(row["value"] > 500),
            "value": row["value"],
            "comparison": ">",
            "threshold": 500.0,
        }
        for row in rows
    ]
    edges = [{"caller": "web", "callee": "api"}]
    case = write_case(tmp_path, alert=ALERT, metrics=rows, alert_query=queried, topology=edges)
    ended = Finding(
        id="F9",
        kind="end_state",
        subject=subject,
        onset=datetime.fromisoformat(at(minute)),
        strength=1.0,
        sentence="It was killed.",
        details=StateFactDetails(bad=True, fact="killed_for_memory"),
    )
    findings = [*findings_of(case), ended]
    killed = CAUSE.model_copy(update={"subject": subject, "findings": ("F9",)})
    verdict = conclude(case, [killed], findings, alert_state(case, findings), 0.9).verdict
    assert (verdict is Verdict.CAUSE_FOUND) is is_incident
