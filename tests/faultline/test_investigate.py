"""`import faultline`: the same answer as the command line, as typed values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import faultline
from faultline.investigation import investigate
from tests.trace_report.command import faultline as command

CASES = Path(__file__).parents[2] / "demo" / "cases"


def test_the_answer_is_that_of_the_command_line() -> None:
    answer = faultline.investigate(CASES / "slow-rank")
    printed = json.loads(command("investigate", CASES / "slow-rank", "--json").stdout)
    own = answer.to_dict()
    del printed["timings"], own["timings"]
    assert own == printed
    assert answer.verdict is faultline.Verdict.CAUSE_FOUND
    assert answer.causes[0].subject == "rank 2"
    assert 0 < answer.confidence <= 1
    assert answer.headline == printed["headline"]


def test_a_folder_that_is_no_case_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(faultline.EvidenceError, match=r"alert\.json"):
        investigate(tmp_path)
