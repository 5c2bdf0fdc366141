from __future__ import annotations

import polars as pl
import pytest

from faultline.analysis.requests.span_shifts import accountable


def measured(*edges: tuple[str, str]) -> pl.DataFrame:
    rows = [
        (a, b, window) for a, b in edges for window in ("baseline", "incident") for _ in range(5)
    ]
    return pl.DataFrame(rows, schema=["caller", "callee", "window"], orient="row")


def test_a_gap_on_one_edge_is_put_down_to_the_callee() -> None:
    assert accountable({("web", "api"): 0.9}, measured(("web", "api"), ("web", "db")), 3) == {
        ("web", "api"): "api"
    }


def test_gaps_on_all_edges_into_a_service_are_its_own() -> None:
    delayed = {("web", "db"): 0.9, ("api", "db"): 0.8}
    assert set(accountable(delayed, measured(*delayed, ("web", "api")), 3).values()) == {"db"}


def test_gaps_on_all_calls_that_a_service_makes_are_its_own() -> None:
    delayed = {("web", "api"): 0.9, ("web", "cart"): 0.8, ("web", "ads"): 0.7}
    healthy = [("mobile", "api"), ("mobile", "cart"), ("mobile", "ads")]
    assert set(accountable(delayed, measured(*delayed, *healthy), 3).values()) == {"web"}


def test_a_service_delayed_as_callee_and_as_caller_answers_for_both() -> None:
    delayed = {("web", "recommendations"): 0.9, ("recommendations", "catalog"): 0.9}
    calls = measured(*delayed, ("web", "catalog"), ("checkout", "catalog"))
    assert set(accountable(delayed, calls, 3).values()) == {"recommendations"}


def test_an_edge_that_was_hardly_measured_speaks_for_nobody() -> None:
    rare = pl.DataFrame({"caller": ["web"], "callee": ["api"], "window": ["incident"]})
    delayed = {("web", "cart"): 0.9, ("api", "cart"): 0.9}
    assert set(accountable(delayed, pl.concat([measured(*delayed), rare]), 3).values()) == {"cart"}


@pytest.mark.parametrize(("elsewhere", "blamed"), [(0.3, "api"), (0.5, "web")])
def test_a_caller_answers_once_its_other_calls_are_delayed_clearly(
    elsewhere: float, blamed: str
) -> None:
    delayed = {("web", "api"): 0.9, ("web", "cart"): elsewhere}
    assert accountable(delayed, measured(*delayed), 3)["web", "api"] == blamed
