from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.requests.span_shifts import span_shifts
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, write_case

KINDS = ("fan_out", "retries", "callee_missing")


def requests(
    minute: float, count: int, calls: int, *, status: str = "ok", reached: bool = True
) -> list[dict[str, Any]]:
    """Requests in which web calls db so often, through a client span each; all but the last call
    have the status."""
    rows: list[dict[str, Any]] = []
    for i in range(count):
        trace, start = f"{minute}-{i}", minute + i / 60

        def span(
            name: str, parent: str | None, service: str, operation: str, n: float, said: str
        ) -> None:
            rows.append(
                {
                    "trace_id": trace,  # noqa: B023
                    "span_id": name,
                    "parent_id": parent,
                    "service": service,
                    "operation": operation,
                    "start": at(start + n / 60000),  # noqa: B023
                    "duration_us": 500.0,
                    "status": said,
                }
            )

        span("a", None, "web", "list", 0, "ok")
        for n in range(calls):
            said = status if n < calls - 1 else "ok"
            span(f"c{n}", "a", "web", "db client", n + 1, said)
            if reached:
                span(f"s{n}", f"c{n}", "db", "query", n + 1.2, said)
    return rows


def patterns(folder: Path, *rows: list[dict[str, Any]]) -> list[Finding]:
    case = write_case(folder, spans=[r for group in rows for r in group])
    return [f for f in span_shifts(case) if f.kind in KINDS]


def test_a_call_per_row_where_there_was_one_is_the_callers_doing(tmp_path: Path) -> None:
    (found,) = patterns(tmp_path, requests(-30, 20, 1), requests(5, 20, 21))
    assert (found.kind, found.subject) == ("fan_out", "web")
    assert found.numbers == {"calls": 21, "baseline_calls": 1}
    assert found.sentence == "web makes 21 calls to db query in each list, 1 in the baseline."


def test_more_of_the_pages_that_always_made_many_calls_is_no_fan_out(tmp_path: Path) -> None:
    before = [*requests(-30, 80, 1), *requests(-20, 20, 21)]
    assert patterns(tmp_path, before, requests(5, 5, 1), requests(6, 20, 21)) == []


def test_calls_repeated_after_failures_accuse_the_callee(tmp_path: Path) -> None:
    (found,) = patterns(tmp_path, requests(-30, 20, 1), requests(5, 20, 4, status="error"))
    assert (found.kind, found.subject, found.details.written()["caller"]) == (
        "retries",
        "db",
        "web",
    )
    assert found.numbers == {"percent": 75, "baseline_percent": 0}


def test_client_spans_that_lost_their_server_spans_accuse_the_callee(tmp_path: Path) -> None:
    rows = [*requests(5, 15, 2, reached=False), *requests(6, 5, 2)]
    (found,) = patterns(tmp_path, requests(-30, 20, 2), rows)
    assert (found.kind, found.subject) == ("callee_missing", "db")
    assert found.numbers == {"percent": 75, "baseline_percent": 0}


def test_the_same_calls_give_nothing(tmp_path: Path) -> None:
    assert patterns(tmp_path, requests(-30, 20, 2), requests(5, 20, 2)) == []


@pytest.mark.parametrize(("lost_before", "is_found"), [(1, True), (6, False)])
def test_only_calls_that_nearly_always_arrived_can_be_lost(
    tmp_path: Path, lost_before: int, *, is_found: bool
) -> None:
    before = requests(-30, 20 - lost_before, 1) + requests(-20, lost_before, 1, reached=False)
    now = requests(5, 15, 1, reached=False) + requests(6, 5, 1)
    found = patterns(tmp_path, before, now)
    assert [f.kind for f in found] == (["callee_missing"] if is_found else [])
