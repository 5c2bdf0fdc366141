"""The stated confidence: the ranking's probability, within what the evidence can carry."""

from __future__ import annotations

import pytest

from faultline.analysis.ranking.verdicts import (
    GAP_IN_METRICS,
    HIGHEST,
    LOWEST,
    PRESUMED_PATH,
    FirstSuspectStanding,
    confidence_of,
)


def test_it_is_the_probability_of_the_first_suspect() -> None:
    assert confidence_of(FirstSuspectStanding(0.72)) == 0.72


def test_nothing_is_certain_and_nothing_impossible() -> None:
    assert confidence_of(FirstSuspectStanding(1.0)) == HIGHEST == 0.95
    assert confidence_of(FirstSuspectStanding(0.0)) == LOWEST == 0.05


@pytest.mark.parametrize(
    ("symptoms_only", "gone", "missing", "most"),
    [(True, False, False, 0.6), (True, True, False, 0.35), (False, False, True, 0.5)],
)
def test_evidence_that_cannot_tell_why_caps_it(
    symptoms_only: bool, gone: bool, missing: bool, most: float
) -> None:
    sure = FirstSuspectStanding(0.99, symptoms_only=symptoms_only, gone=gone)
    assert confidence_of(sure, metrics_missing=missing) == most
    assert GAP_IN_METRICS == 0.5


def test_a_path_that_is_only_presumed_makes_it_probable() -> None:
    assert confidence_of(FirstSuspectStanding(0.99, presumed_path=True)) == PRESUMED_PATH < 0.9
