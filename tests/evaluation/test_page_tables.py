"""The page's tables are replaced between their marks; foreign text in them is no markup."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.errors import EvidenceError
from analysis.vocabulary import Verdict
from evaluation.grading import Grade
from evaluation.labels import CaseLabel
from evaluation.page_tables import (
    ablation,
    carried_over,
    confidence,
    failures,
    faults,
    fill,
    systems,
    verdicts,
)

PAGE = (
    "# Accuracy\n\n<!-- table: systems -->\nold\n<!-- end -->\n\nProse.\n\n<!-- table: faults "
    "-->\n<!-- end -->\n"
)
RIGHT = Grade(
    "shop-1",
    "shop",
    "cpu",
    CaseLabel(subject="cart", change="c1", decoys=("d1",)),
    1,
    ("cart",),
    Verdict.CAUSE_FOUND,
    0.8,
    True,
    "c1",
    1,
    answer_why="cart runs out of CPU.",
)
WRONG = replace(
    RIGHT,
    case="shop-2",
    rank=3,
    causes=("a|b_<script>",),
    right=False,
    change="d1",
    change_rank=None,
    decoy_first=True,
    answer_why="[web] is slow.\n# heading",
    truth_why="cart runs out of CPU.",
)


def test_a_table_is_replaced_and_the_prose_stays() -> None:
    filled = fill(PAGE, {"systems": "| new |\n"})
    assert "<!-- table: systems -->\n| new |\n<!-- end -->" in filled
    assert "old" not in filled
    assert "Prose." in filled
    assert fill(filled, {"systems": "| new |\n"}) == filled


def test_a_table_without_a_place_is_refused() -> None:
    with pytest.raises(EvidenceError, match="failures"):
        fill(PAGE, {"failures": "x"})


def test_every_table_has_as_many_cells_as_headings() -> None:
    grades = [RIGHT, WRONG]
    for text in (
        systems(grades),
        faults(grades),
        verdicts(grades),
        ablation(grades, {"logs": grades}),
        carried_over(grades),
    ):
        widths = {line.replace("\\|", "").count("|") for line in text.splitlines() if line}
        assert len(widths) == 1, text


def test_figures_are_those_of_the_grades() -> None:
    assert "| shop | 2 | 0.50 | 1.00 | 1.00 | 0.80 | 0.50 | 0.50 | 1 of 2 |" in systems(
        [RIGHT, WRONG]
    )
    assert "| shop, cpu | 2 | 0.50 | 1.00 |" in faults([RIGHT, WRONG])
    assert "| 0.8-0.9 | 2 | 0.80 | 0.50 |" in confidence([RIGHT, WRONG])
    assert "| without logs | 0.00 · 0.60 | 0.00 |" in ablation([RIGHT, WRONG], {"logs": [WRONG]})


def test_a_failure_tells_both_sides_and_its_names_are_no_markup() -> None:
    told = failures([RIGHT, WRONG])
    assert "shop-1" not in told
    assert "a\\|b\\_\\<script\\> instead of cart (at 3), cause found." in told
    assert "\\[web\\] is slow. # heading" in told
    assert "For the truth: cart runs out of CPU." in told
    assert "change: d1 (a decoy) instead of c1" in told
    assert failures([RIGHT]) == "None.\n"


def test_a_right_cause_under_a_wrong_verdict_is_a_failure_of_the_verdict() -> None:
    told = failures([replace(RIGHT, verdict=Verdict.NO_ACTIVE_INCIDENT, right=False)])
    assert "cart is the first cause, but the verdict is no active incident." in told


def test_a_case_without_an_answer_is_a_failure() -> None:
    broken = Grade("shop-3", "shop", label=CaseLabel(subject="cart"), problem="metrics.csv: broken")
    assert "**shop-3**: no answer, metrics.csv: broken" in failures([broken])
