"""A confidence that is refitted on other systems and judged on the one left out."""

from __future__ import annotations

import pytest

from analysis.vocabulary import Verdict
from evaluation.figures import calibration_error
from evaluation.grading import Grade
from evaluation.labels import CaseLabel
from evaluation.transfer import leave_one_out, refitted


def answers(system: str, confidence: float, right: int, wrong: int) -> list[Grade]:
    return [
        Grade(
            f"{system}-{n}",
            system,
            label=CaseLabel(subject="cart"),
            rank=1 if n < right else 2,
            verdict=Verdict.CAUSE_FOUND,
            confidence=confidence,
            right=n < right,
        )
        for n in range(right + wrong)
    ]


def test_a_confidence_that_is_too_low_everywhere_is_mended_by_the_other_systems() -> None:
    grades = [*answers("a", 0.55, 90, 10), *answers("b", 0.55, 88, 12), *answers("c", 0.55, 92, 8)]
    for row in leave_one_out(grades):
        assert row.n == 100
        assert row.stated is not None
        assert row.stated > 0.3
        assert row.from_others is not None
        assert row.from_others < 0.06


def test_a_confidence_that_is_too_low_on_one_system_only_is_not() -> None:
    grades = [*answers("a", 0.55, 55, 45), *answers("b", 0.55, 55, 45), *answers("c", 0.55, 95, 5)]
    odd = leave_one_out(grades)[2]
    assert odd.from_others is not None
    assert odd.from_others > 0.3
    assert odd.from_itself is not None
    assert odd.from_itself < 0.06


def test_one_system_alone_has_no_others() -> None:
    (only,) = leave_one_out(answers("a", 0.7, 7, 3))
    assert only.from_others is None
    assert only.stated == pytest.approx(0.0)


@pytest.mark.parametrize("stated", [0.0, 1.0])
def test_certainty_has_a_finite_refit(stated: float) -> None:
    pairs = [(stated, True)] * 5
    assert all(0 < confidence < 1 for confidence, _ in refitted(pairs, pairs))
    assert calibration_error(refitted(pairs, pairs)) is not None
