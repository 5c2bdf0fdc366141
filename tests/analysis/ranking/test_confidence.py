from __future__ import annotations

import pytest

from analysis.ranking.confidence import (
    HIGHEST,
    LOWEST,
    FirstSuspectStanding,
    confidence_of,
    confidences,
)


def test_a_clear_lead_makes_surer_than_a_close_one() -> None:
    close, clear = (
        FirstSuspectStanding(lead=0.02, share=0.3, victims=0),
        FirstSuspectStanding(lead=0.7, share=0.3, victims=0),
    )
    assert confidence_of(close) < 0.6 < confidence_of(clear)


def test_victims_that_it_explains_make_surer() -> None:
    alone, explaining = (
        FirstSuspectStanding(lead=0.3, share=0.3, victims=0),
        FirstSuspectStanding(lead=0.3, share=0.3, victims=3),
    )
    assert confidence_of(alone) + 0.1 < confidence_of(explaining)


def test_no_answer_is_certain_and_none_is_impossible() -> None:
    assert confidence_of(FirstSuspectStanding(lead=1, share=1, victims=500)) == HIGHEST
    assert confidence_of(FirstSuspectStanding(lead=0, share=0, victims=0)) >= LOWEST


@pytest.mark.parametrize(
    ("symptoms", "missing", "most"), [(True, False, 0.6), (False, True, 0.5), (True, True, 0.5)]
)
def test_what_cannot_be_known_bounds_the_confidence(
    symptoms: bool, missing: bool, most: float
) -> None:
    sure = FirstSuspectStanding(lead=1, share=1, victims=5, symptoms_only=symptoms)
    assert confidence_of(sure, metrics_missing=missing) == most


def test_all_causes_share_one_chance() -> None:
    shares = confidences([0.8, 0.4, 0.2, 0.2], 0.7)
    assert shares[0] == 0.7
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize(("scores", "shares"), [([0.5], [0.9]), ([0.0, 0.0], [0.9, 0.0])])
def test_one_cause_and_scores_of_nothing(scores: list[float], shares: list[float]) -> None:
    assert confidences(scores, 0.9) == shares


def test_no_later_cause_is_surer_than_the_first() -> None:
    assert confidences([0.5, 0.5], 0.3) == [0.3, 0.3]
