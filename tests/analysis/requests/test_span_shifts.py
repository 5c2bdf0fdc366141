from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.requests.span_shifts import span_shifts
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, spans, write_case


def latencies(folder: Path, rows: list[dict[str, Any]]) -> list[Finding]:
    kinds = ("call_gap", "span_own_time")
    return sorted(
        (f for f in span_shifts(write_case(folder, spans=rows)) if f.kind in kinds),
        key=lambda f: f.kind,
    )


def test_time_lost_between_caller_and_callee_is_a_gap_on_the_callee(tmp_path: Path) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=10, tag="b") + spans(
        5, 40, caller_ms=260, callee_ms=10, tag="i"
    )
    (found,) = latencies(tmp_path, rows)
    assert (found.kind, found.subject, found.details.written()["caller"]) == (
        "call_gap",
        "api",
        "web",
    )
    assert found.numbers == {"incident_ms": 250, "baseline_ms": 2, "ratio": 125}
    assert found.onset is not None
    assert found.onset > START
    assert (
        found.sentence
        == "web's calls to api lose 250 ms between the two, 125 times the baseline's 2 ms."
    )


def test_time_spent_inside_the_callee_is_its_own_time_and_the_operation_is_quoted_as_it_is(
    tmp_path: Path,
) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=10, tag="b") + spans(
        5, 40, caller_ms=302, callee_ms=300, tag="i"
    )
    (found,) = latencies(tmp_path, rows)
    assert (found.kind, found.subject) == ("span_own_time", "api")
    assert "list {id}" in found.sentence


def test_failing_spans_are_found_with_their_share(tmp_path: Path) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=10, tag="b", status="OK")
    rows += spans(5, 10, caller_ms=12, callee_ms=10, tag="i", status="ERROR")
    rows += spans(6, 10, caller_ms=12, callee_ms=10, tag="j", status="OK")
    found = {f.subject: f for f in span_shifts(write_case(tmp_path, spans=rows))}
    assert found["api"].kind == "span_errors"
    assert found["api"].numbers == {"percent": 50, "baseline_percent": 0}


def test_equal_spans_give_nothing(tmp_path: Path) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=10, tag="b") + spans(
        5, 40, caller_ms=12, callee_ms=10, tag="i"
    )
    assert span_shifts(write_case(tmp_path, spans=rows)) == []


def test_without_baseline_spans_no_latency_is_judged(tmp_path: Path) -> None:
    case = write_case(tmp_path, spans=spans(5, 40, caller_ms=260, callee_ms=10, tag="i"))
    assert [f for f in span_shifts(case) if f.kind != "span_errors"] == []


def test_a_small_delay_beside_a_large_one_counts_for_little(tmp_path: Path) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=10, tag="b") + spans(
        5, 40, caller_ms=2020, callee_ms=20, tag="i"
    )
    gap, own = latencies(tmp_path, rows)
    assert (gap.kind, own.kind) == ("call_gap", "span_own_time")
    assert gap.strength > 0.9
    assert own.strength < 0.1


@pytest.mark.parametrize(("count", "is_found"), [(2, False), (3, True)])
def test_two_spans_say_nothing_of_a_latency_and_three_do(
    tmp_path: Path, count: int, *, is_found: bool
) -> None:
    rows = spans(-30, 40, caller_ms=302, callee_ms=10, tag="b")
    rows += spans(5, count, caller_ms=602, callee_ms=310, tag="i")
    assert bool(latencies(tmp_path, rows)) is is_found


@pytest.mark.parametrize(("callee_ms", "is_found"), [(1.8, False), (2.3, True)])
def test_less_than_a_millisecond_more_is_no_delay(
    tmp_path: Path, callee_ms: float, *, is_found: bool
) -> None:
    rows = spans(-30, 40, caller_ms=12, callee_ms=1, tag="b")
    rows += spans(5, 40, caller_ms=11 + callee_ms, callee_ms=callee_ms, tag="i")
    assert bool(latencies(tmp_path, rows)) is is_found
