from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.requests.critical_path import calls_made, self_times, with_visits
from tests.analysis.cases import START

Span = tuple[str, str | None, str, float, float]
"""Id, parent, service, start and duration (ms)."""


def table(spans: Iterable[Span]) -> pl.DataFrame:
    def at(ms: float) -> datetime:
        return START + timedelta(milliseconds=ms)

    rows = [
        ("t", i, parent, service, f"op {i}", at(start), ms * 1000.0)
        for i, parent, service, start, ms in spans
    ]
    names = ["trace_id", "span_id", "parent_id", "service", "operation", "start", "duration_us"]
    return pl.DataFrame(rows, schema=names, orient="row")


def own(spans: Iterable[Span]) -> dict[str, float]:
    rows = with_visits(table(spans))
    return {
        s: us / 1000
        for s, us in self_times(rows, calls_made(rows)).select("service", "own_us").iter_rows()
    }


def test_a_visit_is_an_entry_and_what_lies_below_it_in_the_same_service() -> None:
    rows = with_visits(
        table([("a", None, "web", 0, 9), ("b", "a", "web", 1, 8), ("c", "b", "api", 2, 6)])
    )
    assert rows["entry"].to_list() == [True, False, True]
    assert rows["visit"].to_list() == [0, 0, 2]


def test_own_time_leaves_out_the_client_spans_and_counts_their_overlap_once() -> None:
    spans: list[Span] = [("a", None, "web", 0, 100)]
    spans += [
        ("b", "a", "web", 10, 40),
        ("c", "b", "api", 20, 10),
        ("d", "a", "web", 30, 40),
        ("e", "d", "db", 40, 10),
    ]
    assert own(spans) == {"web": 40, "api": 10, "db": 10}


def test_a_span_beside_the_call_it_waits_for_is_no_own_time() -> None:
    spans: list[Span] = [
        ("a", None, "gateway", 0, 100),
        ("handle", "a", "gateway", 1, 98),
        ("call", "a", "gateway", 2, 96),
    ]
    assert own([*spans, ("b", "call", "api", 3, 90)]) == {"gateway": 4, "api": 90}


def test_the_clock_of_the_callee_changes_nothing() -> None:
    spans: list[Span] = [("a", None, "web", 0, 100), ("b", "a", "web", 10, 80)]
    assert (
        own([*spans, ("c", "b", "api", 20, 60)])
        == own([*spans, ("c", "b", "api", 5e6, 60)])
        == {"web": 20, "api": 60}
    )


def test_calls_without_client_spans_wait_as_long_as_their_callees_take() -> None:
    spans: list[Span] = [
        ("a", None, "web", 0, 100),
        ("b", "a", "api", 10, 30),
        ("c", "a", "db", 50, 20),
    ]
    assert own(spans) == {"web": 50, "api": 30, "db": 20}
    rows = with_visits(table(spans))
    assert calls_made(rows)["dedicated"].to_list() == [False, False]


def test_parents_that_are_each_others_have_no_visit() -> None:
    rows = with_visits(
        table([("a", "b", "web", 0, 1), ("b", "a", "web", 0, 1), ("c", None, "web", 0, 1)])
    )
    assert self_times(rows, calls_made(rows)).height == 1
