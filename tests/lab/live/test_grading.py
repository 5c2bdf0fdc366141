"""Grades of live incidents: what is right, what is not graded, and what a run comes to."""

from __future__ import annotations

from datetime import UTC, datetime

from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.vocabulary import Cause, Diagnosis, Finding, Impact, Verdict
from faultline.lab.live.grading import LiveGrade, grade_answer, live_figures, summary_table
from faultline.lab.live.truth import LiveTruth
from faultline.lab.shop.faults import FAULTS, ShopIncident


def truth(fault: str, target: str) -> LiveTruth:
    return LiveTruth.of(ShopIncident(FAULTS[fault], target, 7))


def diagnosis(*subjects: str, kind: str = "slow_code", change: str | None = None) -> Diagnosis:
    causes = []
    for rank, subject in enumerate(subjects, 1):
        causes.append(
            Cause(
                rank=rank,
                subject=subject,
                kind=kind,
                change=change if rank == 1 else None,
                confidence=0.6,
                onset=datetime(2026, 3, 2, tzinfo=UTC),
                summary=f"{subject} is slow",
                findings=(),
            )
        )
    verdict = Verdict.CAUSE_FOUND if causes else Verdict.NO_ACTIVE_INCIDENT
    return Diagnosis(
        verdict=verdict,
        confidence=0.6,
        causes=tuple(causes),
        findings=(),
        impact=Impact(sentence="nobody"),
    )


def test_culprit_kind_and_change_are_graded_apart() -> None:
    told = diagnosis("payments", "web", kind="restarts", change="CE1")
    grade = grade_answer(0, truth("slow_code", "payments"), told, "CE1")
    assert (grade.culprit_right, grade.kind_right, grade.change_right) == (True, False, True)


def test_the_right_culprit_in_second_place_is_no_right_answer() -> None:
    grade = grade_answer(0, truth("slow_code", "payments"), diagnosis("web", "payments"), "CE1")
    assert grade.culprit_right is False
    assert grade.place == 2
    assert grade.change_right is False


def test_a_cause_that_blames_a_change_tells_its_kind_by_its_findings() -> None:
    told = diagnosis("payments", kind="deploy", change="CE1")
    finding = Finding(
        id="F1",
        kind="metric_shift",
        subject="payments",
        signal="latency_p99",
        effect=3,
        strength=1,
        sentence="latency rose",
        details=MetricShiftDetails(signal_class="latency", direction="up", bad=True),
    )
    first = told.causes[0].model_copy(update={"findings": ("F1",)})
    told = told.model_copy(update={"causes": (first,), "findings": (finding,)})
    assert grade_answer(0, truth("slow_code", "payments"), told, "CE1").kind_right
    assert not grade_answer(0, truth("bad_version", "payments"), told, "CE1").kind_right


def test_another_name_of_the_culprit_counts() -> None:
    grade = grade_answer(0, truth("bad_replica", "checkout"), diagnosis("checkout-eu-1"), "none")
    assert grade.culprit_right


def test_a_cause_in_a_false_alarm_is_wrong_and_silence_is_right() -> None:
    calm = truth("false_alarm", "catalog")
    assert grade_answer(0, calm, diagnosis("catalog"), "none").false_alarm is True
    assert grade_answer(0, calm, diagnosis(), "none").false_alarm is False


def test_the_label_is_what_eval_reads() -> None:
    assert truth("slow_code", "payments").label("CE1", ("CE2",)) == {
        "fault": "slow_code",
        "change": "CE1",
        "decoys": ["CE2"],
        "verdict": "cause_found",
        "subject": "payments",
    }
    assert truth("false_alarm", "catalog").label("", ())["verdict"] == "no_active_incident"


def test_a_seal_is_of_one_truth() -> None:
    one, other = truth("slow_code", "payments"), truth("slow_code", "payments")
    assert one.seal == one.seal
    assert one.seal != other.seal


def test_what_had_no_alert_is_counted_and_not_graded() -> None:
    payments = truth("slow_code", "payments")
    grades = [
        grade_answer(0, payments, diagnosis("payments", change="CE1"), "CE1"),
        grade_answer(1, truth("external_outage", "bank"), diagnosis("web"), "none"),
        LiveGrade(2, payments, problem="no alert within 30 s"),
    ]
    found = live_figures(grades)
    assert (found.played, found.without_answer) == (3, 1)
    assert str(found.culprit) == "1 of 2"
    assert str(found.change_of_guilty) == "1 of 1"
    assert str(found.no_change_blamed) == "1 of 1"
    assert str(found.false_alarms) == "none played"
    assert "no alert within 30 s" in summary_table(grades)
