"""What is kept of trials, when one is tried again, and the list of those that change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutants.equivalent import is_equivalent, read_equivalents
from benchmarks.mutants.mutation import Mutation
from benchmarks.mutants.results import ResultsFile, Share, survivor_text
from benchmarks.mutants.trials import CleanFile, Outcome, Trial

ROOT = Path(__file__).resolve().parents[3]
SWAPPED = Mutation("shop/prices.py", 2, "comparison", 40, ">=", ">", "if a >= 1:", "if a > 1:")


def trial(outcome: Outcome = "survived", not_run: int = 0) -> Trial:
    return Trial(SWAPPED, outcome, "", ("tests/shop/test_prices.py",), not_run, 2.0, budget_s=60.0)


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    results = ResultsFile(tmp_path / "results.jsonl")
    results.clean.files["tests/shop/test_prices.py"] = CleanFile(1.5, ("a::b",))
    results.add(trial())
    again = ResultsFile(tmp_path / "results.jsonl")
    assert again.trials == {SWAPPED.identity: trial()}
    assert again.clean.files == results.clean.files


@pytest.mark.parametrize(
    ("result", "budget_s", "is_final"),
    [
        (trial(), 600, True),
        (trial(not_run=3), 60, True),
        (trial(not_run=3), 61, False),
        (trial("caught", not_run=3), 600, True),
        (trial("timeout", not_run=3), 600, True),
    ],
)
def test_only_a_survivor_that_left_tests_over_is_tried_again_with_more_time(
    result: Trial, budget_s: float, is_final: bool
) -> None:
    assert result.is_final(budget_s) is is_final


def test_a_survivor_is_told_with_its_line_and_its_tests() -> None:
    assert survivor_text(trial(not_run=3)) == (
        "shop/prices.py:2:comparison\n"
        "  - if a >= 1:\n"
        "  + if a > 1:\n"
        "  tests that ran: tests/shop/test_prices.py\n"
        "  3 files of tests further away were not run (--budget)"
    )


def test_a_share_has_wilson_s_interval() -> None:
    assert (str(Share(26, 40)), Share(26, 40).interval) == ("26 / 40", "50 to 78 %")


def test_a_mutation_of_the_list_makes_no_difference_wherever_its_line_moves(tmp_path: Path) -> None:
    path = tmp_path / "equivalent.toml"
    path.write_text(
        '[[mutation]]\npath = "shop/prices.py"\nbefore = "if a >= 1:"\nafter = "if a > 1:"\n'
        'reason = "nothing costs one"\n'
    )
    reasons = read_equivalents(path)
    assert is_equivalent(SWAPPED, reasons)
    assert not is_equivalent(Mutation(**{**vars(SWAPPED), "after": "if a < 1:"}), reasons)


@pytest.mark.parametrize("entry", list(read_equivalents()), ids=lambda entry: entry[0])
def test_the_list_names_lines_that_are_there(entry: tuple[str, str, str]) -> None:
    path, before, _ = entry
    assert before in (ROOT / path).read_text(encoding="utf-8")
