"""New answers beside old ones, case by case."""

from __future__ import annotations

from dataclasses import replace

from faultline.evaluation.intervals import as_baseline, beside_baseline, compared
from faultline.evaluation.labels import CaseLabel, Grade


def answered(case: str, rank: int | None, *named: str) -> Grade:
    label = CaseLabel(subject="cart")
    methods = {"guess": tuple(named)} if named else {}
    return Grade(case, "shop", label=label, rank=rank, right=rank == 1, baselines=methods)


def test_won_and_lost_cases_are_named() -> None:
    old = [answered("shop-1", 1), answered("shop-2", 2), answered("shop-3", 1)]
    new = [answered("shop-1", 4), answered("shop-2", 1), answered("shop-3", 1)]
    first, in_three, *_ = compared(new, old)
    assert (first.won, first.lost, first.difference) == (("shop-2",), ("shop-1",), 0.0)
    assert (in_three.won, in_three.lost) == ((), ("shop-1",))
    assert (first.old, first.new, first.p) == (2 / 3, 2 / 3, 1.0)


def test_cases_that_only_one_run_has_are_left_out() -> None:
    (first, *_) = compared([answered("shop-1", 1), answered("shop-9", 1)], [answered("shop-1", 2)])
    assert (first.n, first.won) == (1, ("shop-1",))
    assert compared([answered("shop-1", 1)], []) == []


def test_cases_of_one_name_are_paired_in_their_order() -> None:
    twice = [answered("shop-1", 1), answered("shop-1", 2)]
    (first, *_) = compared(twice, twice)
    assert (first.n, first.difference) == (2, 0.0)


def test_a_baseline_is_graded_by_the_services_that_it_names() -> None:
    grade = answered("shop-1", 1, "web", "cart")
    its = as_baseline(grade, "guess")
    assert (its.rank, its.causes, its.right) == (2, ("web", "cart"), None)
    assert as_baseline(grade, "other").rank is None
    gain = beside_baseline([grade, replace(grade, rank=None)], "guess")
    assert gain is not None
    assert (gain.new, gain.old, gain.won) == (0.5, 0.0, ("shop-1",))
    assert beside_baseline([grade], "other") is None
