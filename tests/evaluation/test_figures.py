"""Figures of grades: shares, groups, calibration."""

from __future__ import annotations

from dataclasses import replace

import pytest

from faultline.analysis.vocabulary import Verdict
from faultline.evaluation.figures import (
    by_condition,
    by_culprit_kind,
    by_distance,
    by_fault,
    by_system,
    calibration_error,
    figures,
    macro_ac1,
    reliability,
)
from faultline.evaluation.intervals import wilson
from faultline.evaluation.labels import CaseLabel, CaseSetting, Grade


def located(
    rank: int | None,
    system: str = "shop",
    fault: str = "cpu",
    confidence: float = 0.5,
    cpu_s: float = 0.1,
) -> Grade:
    return Grade(
        f"{system}-1",
        system,
        fault,
        CaseLabel(subject="cart"),
        rank,
        verdict=Verdict.CAUSE_FOUND,
        confidence=confidence,
        right=rank == 1,
        cpu_s=cpu_s,
    )


def test_accuracy_at_k_and_its_mean() -> None:
    found = figures([located(1), located(1), located(3), located(None)])
    assert (found.n, found.ac1, found.ac3, found.ac5) == (4, 0.5, 0.75, 0.75)
    assert found.avg5 == pytest.approx((0.5 + 0.5 + 0.75 + 0.75 + 0.75) / 5)


def test_an_investigation_without_an_answer_counts_as_a_miss() -> None:
    broken = Grade("shop-2", "shop", label=CaseLabel(subject="cart"), problem="metrics.csv: broken")
    found = figures([located(1), broken])
    assert (found.n, found.ac1, found.failed) == (2, 0.5, 1)


def test_cases_without_a_subject_do_not_count_for_accuracy() -> None:
    quiet = Grade(
        "shop-3",
        "shop",
        label=CaseLabel(verdict=Verdict.NO_ACTIVE_INCIDENT),
        verdict=Verdict.NO_ACTIVE_INCIDENT,
        confidence=0.75,
        right=True,
    )
    found = figures([located(2), quiet])
    assert (found.cases, found.n, found.ac1, found.ac3) == (2, 1, 0.0, 1.0)
    assert (found.verdict_n, found.verdict_right, found.answers_right) == (1, 1.0, 0.5)
    assert figures([quiet]).ac1 is None


def test_changes_and_decoys_are_counted_where_a_culprit_is_known() -> None:
    def changed(rank: int | None, decoys: tuple[str, ...] = (), first: bool = False) -> Grade:
        label = CaseLabel(subject="cart", change="c1")
        return Grade("s-1", "s", label=label, change_rank=rank, decoys=decoys, decoy_first=first)

    found = figures(
        [changed(1), changed(3, ("d1", "d2"), True), changed(None, ("d1",)), located(1)]
    )
    assert found.change_n == 3
    assert (found.change1, found.change3) == (pytest.approx(1 / 3), pytest.approx(2 / 3))
    assert (found.decoys, found.decoys3) == (1, 2)


def test_a_quiet_case_is_accused_by_any_named_cause() -> None:
    quiet = CaseLabel(verdict=Verdict.NO_ACTIVE_INCIDENT)
    verdicts = (*Verdict, Verdict.NO_ACTIVE_INCIDENT)
    found = figures([Grade("q-1", "q", label=quiet, verdict=verdict) for verdict in verdicts])
    assert (found.quiet, found.accused) == (5, 0.4)
    assert found.intervals["accused"] == wilson(2, 5)
    assert figures([located(1)]).accused is None


def test_guilty_and_innocent_changes_are_counted_apart() -> None:
    guilty = CaseLabel(subject="cart", change="c1", decoys=("d1",))
    innocent = CaseLabel(subject="cart", change="none", decoys=("d1", "d2"))
    found = figures(
        [
            Grade("s-1", "s", label=guilty, change_rank=1),
            Grade("s-2", "s", label=guilty, decoy_first=True),
            Grade("s-3", "s", label=innocent, change_rank=1),
            Grade("s-4", "s", label=CaseLabel(subject="cart", change="none"), change_rank=1),
        ]
    )
    assert (found.change_n, found.change1) == (4, 0.75)
    assert (found.guilty, found.guilty1) == (2, 0.5)
    assert (found.decoy_n, found.decoy_share) == (3, pytest.approx(1 / 3))


def test_every_share_has_an_interval_around_it() -> None:
    found = figures([located(1), located(2, fault="net"), located(None, confidence=0.9)])
    for name in ("ac1", "ac3", "avg5", "ece", "cpu_s", "answers_right"):
        interval = found.intervals[name]
        assert interval.low <= getattr(found, name) <= interval.high


def test_cases_are_grouped_by_what_their_setting_tells() -> None:
    far = CaseSetting(("web", "db"), "1 call away", "database", (("logs", "no"), ("spans", "no")))
    grades = [replace(located(1), setting=far), located(1)]
    assert {name: len(group) for name, group in by_distance(grades).items()} == {"1 call away": 1}
    assert list(by_culprit_kind(grades)) == ["database"]
    assert list(by_condition(grades)) == ["logs: no", "spans: no"]


def test_cases_whose_culprit_is_the_loudest_stand_apart() -> None:
    loud = replace(located(1), baselines={"largest shift": ("cart", "web")})
    quiet = replace(located(1), baselines={"largest shift": ("web", "cart")})
    found = by_condition([loud, quiet, quiet, located(1)])
    assert {name: len(group) for name, group in found.items()} == {
        "culprit the loudest: no": 2,
        "culprit the loudest: yes": 1,
    }


def test_systems_count_alike_in_the_mean_over_them() -> None:
    found = macro_ac1([located(1, "a"), located(1, "a"), located(1, "a"), located(2, "b")])
    assert found is not None
    assert (found.systems, found.value) == (2, 0.5)
    assert macro_ac1([]) is None


def test_a_confidence_that_holds_has_no_calibration_error() -> None:
    assert calibration_error(
        [(0.75, True), (0.75, True), (0.75, True), (0.75, False)]
    ) == pytest.approx(0.0)
    assert calibration_error([(0.95, False), (0.95, False)]) == pytest.approx(0.95)
    assert calibration_error([(0.15, False), (0.95, True)]) == pytest.approx(
        0.5 * 0.15 + 0.5 * 0.05
    )
    assert calibration_error([]) is None


def test_each_confidence_falls_into_the_bin_that_begins_at_it() -> None:
    bins = reliability([(0.0, False), (0.3, True), (0.6, True), (0.7, False), (1.0, True)])
    assert [(b.low, b.n) for b in bins] == [(0.0, 1), (0.3, 1), (0.6, 1), (0.7, 1), (0.9, 1)]


def test_the_error_that_chance_alone_gives_shrinks_with_the_number_of_answers() -> None:
    few = figures([located(1, confidence=0.5)] * 4).ece_floor
    many = figures([located(1, confidence=0.5)] * 400).ece_floor
    assert few is not None
    assert many is not None
    assert 0.1 < few < 0.25
    assert many < 0.03


def test_grades_are_grouped_by_name_in_order() -> None:
    grades = [located(1, "web", "net"), located(1, "cart", "cpu"), located(1, "web", "cpu")]
    assert [(name, len(group)) for name, group in by_system(grades).items()] == [
        ("cart", 1),
        ("web", 2),
    ]
    assert list(by_fault(grades)) == ["cpu", "net"]


def test_cost_is_the_mean_and_the_most() -> None:
    found = figures([located(1, cpu_s=0.1), located(1, cpu_s=0.5)])
    assert (found.cpu_s, found.cpu_max_s) == (pytest.approx(0.3), 0.5)
