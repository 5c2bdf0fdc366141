"""The page's tables hold the figures of the grades; foreign text in them is no markup."""

from __future__ import annotations

from dataclasses import replace

from faultline.analysis.vocabulary import Verdict
from faultline.evaluation.labels import CaseLabel, CaseSetting, Grade
from faultline.evaluation.page_tables import (
    ablation,
    baselines,
    confidence,
    culprits,
    distances,
    failures,
    faults,
    healthy,
    single_faults,
    systems,
    telemetry,
    verdicts,
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


SETTING = CaseSetting(("web", "cart"), "1 call away", "database", (("logs", "yes"),))
QUIET = Grade(
    "calm-1",
    "calm",
    "healthy",
    CaseLabel(verdict=Verdict.NO_ACTIVE_INCIDENT),
    verdict=Verdict.NO_ACTIVE_INCIDENT,
)


def test_every_table_has_as_many_cells_as_headings() -> None:
    placed = replace(RIGHT, setting=SETTING, path_shown=True, baselines={"BARO": ("cart",)})
    elsewhere = replace(placed, case="mall-1", system="mall")
    grades = [placed, WRONG, elsewhere, QUIET]
    for text in (
        systems(grades),
        faults(grades),
        verdicts(grades),
        ablation(grades, {"logs": grades}),
        healthy(grades),
        baselines(grades),
        distances(grades),
        culprits(grades),
        telemetry(grades),
        single_faults(grades),
    ):
        lines = [line for line in text.splitlines() if line]
        assert len(lines) > 2, text
        widths = {line.replace("\\|", "").count("|") for line in lines}
        assert len(widths) == 1, text


def test_figures_are_those_of_the_grades() -> None:
    both = systems([RIGHT, WRONG])
    assert "| shop | 2 | 0.50 | 0.09-0.91 | 1.00 | 0.80 | 0.50 of 2 | 0.50 of 2 |" in both
    assert "| shop, cpu | 2 | 0.50 | 0.09-0.91 | 1.00 |" in faults([RIGHT, WRONG])
    assert "| 0.8-0.9 | 2 | 0.80 | 0.50 |" in confidence([RIGHT, WRONG])
    assert "| without logs | 0.00 · 0.60 | 0.00 |" in ablation([RIGHT, WRONG], {"logs": [WRONG]})
    assert "| mean of the systems |  | 0.75 |" in systems(
        [RIGHT, WRONG, replace(RIGHT, system="mall")]
    )


def test_a_window_that_names_a_cause_is_counted_with_its_limit() -> None:
    accused = replace(QUIET, verdict=Verdict.RECOVERED)
    told = healthy([QUIET] * 9 + [accused, RIGHT])
    assert "| all | 10 | 1 | 0.100 | 0.018-0.404 | 0.394 | 0 | - |" in told


def test_ours_is_compared_with_each_method_case_by_case() -> None:
    named = [replace(RIGHT, baselines={"BARO": ("web", "cart")}), WRONG]
    assert "| BARO | 0.00 | 0.00 | 0.00-0.79 | 1.00 | 0.80 | +1.00 |" in baselines(named)


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
