"""Fitted numbers are exchanged everywhere for one case, and put back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.suspects import ranked, ranking_weights
from faultline.evaluation.running import GradingOptions, evaluate, fitted_without, read_left_out
from tests.evaluation.test_running import labelled_case

MODULE = "faultline.analysis.suspects.ranking_weights"


def test_all_who_import_a_number_see_the_other_one() -> None:
    before = ranking_weights.NO_SUSPECT_ODDS
    with fitted_without("shop", {"shop": {MODULE: {"NO_SUSPECT_ODDS": 9.0}}}):
        assert (ranking_weights.NO_SUSPECT_ODDS, ranked.NO_SUSPECT_ODDS) == (9.0, 9.0)
    assert (before, before) == (ranking_weights.NO_SUSPECT_ODDS, ranked.NO_SUSPECT_ODDS)


def test_a_case_is_answered_by_the_numbers_of_its_system(tmp_path: Path) -> None:
    labelled_case(tmp_path / "shop-1", subject="checkout")
    doubtful = {MODULE: {"NO_SUSPECT_ODDS": 50.0}}
    (usual,) = evaluate(tmp_path, workers=1)
    (other,) = evaluate(tmp_path, GradingOptions(left_out={"shop": doubtful}), workers=1)
    assert usual.confidence is not None
    assert other.confidence is not None
    assert other.confidence < usual.confidence


def test_a_system_that_was_not_left_out_is_not_answered(tmp_path: Path) -> None:
    labelled_case(tmp_path / "shop-1", subject="checkout")
    (found,) = evaluate(tmp_path, GradingOptions(left_out={}), workers=1)
    assert "none were fitted without shop" in (found.problem or "")


def test_only_the_analysis_is_changed(tmp_path: Path) -> None:
    file = tmp_path / "left_out.json"
    file.write_text(json.dumps({"shop": {"os": {"sep": ":"}}}))
    with pytest.raises(EvidenceError, match="no module of the analysis"):
        read_left_out(file)
