from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.requests.span_shifts import span_shifts
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, at, write_case

Part = tuple[str, str | None, str, float, str]
"""Span, parent, service, duration (ms), status; after a space what the status says."""


def requests(
    minute: float, count: int, parts: list[Part], **attributes: str
) -> list[dict[str, Any]]:
    rows = []
    for i in range(count):
        for span, parent, service, ms, status in parts:
            code, _, said = status.partition(" ")
            rows.append(
                {
                    "trace_id": f"{minute}-{i}",
                    "span_id": span,
                    "parent_id": parent,
                    "service": service,
                    "operation": f"op {span}",
                    "start": at(minute + i / 60),
                    "duration_us": 1000.0 * ms,
                    "status": code,
                    "attributes": json.dumps(attributes | {"status.message": said})
                    if code == "error"
                    else None,
                }
            )
    return rows


def origins(folder: Path, *rows: list[dict[str, Any]]) -> list[Finding]:
    case = write_case(folder, spans=[r for group in rows for r in group])
    return [f for f in span_shifts(case) if f.kind == "error_origin"]


def chain(web: str, api: str, db: str, db_ms: float = 2) -> list[Part]:
    spans: list[Part] = [("a", None, "web", 20 + db_ms, web), ("b", "a", "web", 15 + db_ms, web)]
    spans += [
        ("c", "b", "api", 10 + db_ms, api),
        ("d", "c", "api", db_ms + 1, api),
        ("e", "d", "db", db_ms, db),
    ]
    return spans


WELL = chain("ok", "ok", "ok")


def test_the_deepest_failing_span_is_where_requests_fail_first(tmp_path: Path) -> None:
    failing = chain("error", "error", "ok")
    (found,) = origins(
        tmp_path, requests(-30, 40, WELL), requests(5, 30, failing), requests(6, 10, WELL)
    )
    assert found.subject == "api"
    assert found.numbers == {
        "percent": 100,
        "failing": 30,
        "baseline_failing": 0,
        "baseline_requests": 40,
    }
    assert found.onset is not None
    assert found.onset > START
    assert "fail first in api op d" in found.sentence


def test_errors_as_frequent_as_before_give_nothing(tmp_path: Path) -> None:
    failing = chain("error", "error", "error")
    assert origins(tmp_path, requests(-30, 40, failing), requests(5, 40, failing)) == []


def test_who_gives_up_waiting_blames_what_it_waited_for_in_the_end(tmp_path: Path) -> None:
    late = chain("error context deadline exceeded", "ok", "ok", db_ms=900)
    (found,) = origins(tmp_path, requests(-30, 40, WELL), requests(5, 40, late))
    assert (found.subject, found.details.written()["how"]) == ("db", "waited")


def test_a_timeout_that_did_not_wait_for_a_call_is_its_own(tmp_path: Path) -> None:
    late: list[Part] = [
        ("a", None, "web", 5000, "error lock wait timeout"),
        ("b", "a", "api", 3, "ok"),
    ]
    (found,) = origins(tmp_path, requests(-30, 40, WELL), requests(5, 40, late))
    assert found.subject == "web"


def test_a_failed_call_that_left_no_span_in_a_known_callee_accuses_the_callee(
    tmp_path: Path,
) -> None:
    refused: list[Part] = [
        ("a", None, "web", 5, "error"),
        ("b", "a", "web", 3, "error connection refused"),
    ]
    rows = requests(5, 40, refused, **{"server.address": "api"})
    (found,) = origins(tmp_path, requests(-30, 40, WELL), rows)
    assert (found.subject, found.details.written()["how"]) == ("api", "unreached")


def test_at_most_three_places_are_told(tmp_path: Path) -> None:
    groups = [requests(5 + i, 20, [("a", None, f"s{i}", 5, "error")]) for i in range(6)]
    assert len(origins(tmp_path, requests(-30, 80, WELL), *groups)) == 3


@pytest.mark.parametrize(("call_ms", "blamed"), [(400, "web"), (600, "api")])
def test_a_span_waits_for_the_call_that_takes_most_of_its_time(
    tmp_path: Path, call_ms: float, blamed: str
) -> None:
    late: list[Part] = [("a", None, "web", 1000, "error timed out"), ("b", "a", "api", 0, "ok")]
    late[1] = ("b", "a", "api", call_ms, "ok")
    (found,) = origins(tmp_path, requests(-30, 40, WELL), requests(5, 40, late))
    assert found.subject == blamed


@pytest.mark.parametrize(("failing", "is_found"), [(15, False), (25, True)])
def test_two_requests_more_of_a_hundred_are_a_rise(
    tmp_path: Path, failing: int, *, is_found: bool
) -> None:
    well: list[Part] = [("a", None, "web", 5, "ok")]
    failed: list[Part] = [("a", None, "web", 5, "error")]
    rows = requests(5, 1000 - failing, well) + requests(25, failing, failed)
    assert bool(origins(tmp_path, requests(-30, 1000, well), rows)) is is_found


@pytest.mark.parametrize(("failing", "told"), [(4, {"api"}), (7, {"api", "db"})])
def test_where_less_than_a_tenth_fails_first_is_not_told(
    tmp_path: Path, failing: int, told: set[str]
) -> None:
    most = requests(5, 50, [("a", None, "api", 5, "error")])
    few = requests(15, failing, [("a", None, "db", 5, "error")])
    well: list[Part] = [("a", None, "api", 5, "ok")]
    assert {f.subject for f in origins(tmp_path, requests(-30, 400, well), most, few)} == told
