"""Where it is not known whom a service calls, the answer says so, and how to make it known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.ranking.missing_evidence import unknown_calls
from faultline.analysis.requests.topology import read_topology, topology_of
from tests.analysis.cases import at, series, write_case

NOT_KNOWN = "Who calls web, and whom it calls, is not known."
CALL = {"caller": "web", "callee": "api", "source": "mesh"}
LEARNED = {**CALL, "learned_in": "I1", "last_seen": at(30 - 3 * 1440)}
ELSEWHERE = {"caller": "a", "callee": "b"}
GAP = {"id": "G1", "kind": "topology", "source": "jaeger", "query": "q", "reason": "no answer"}


def said(case: Case, service: str | None = "web") -> str | None:
    return unknown_calls(case, service, read_topology(case))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, NOT_KNOWN),
        ({"topology": [ELSEWHERE]}, NOT_KNOWN),
        ({"topology": [CALL]}, None),
        ({"topology": [CALL, LEARNED]}, None),
        ({"evidence": [GAP]}, None),
        ({"scope": {"job": "train"}}, None),
    ],
)
def test_it_is_said_where_no_call_of_the_service_is_known(
    tmp_path: Path, given: dict[str, Any], expected: str | None
) -> None:
    assert said(write_case(tmp_path, **given)) == expected


@pytest.mark.parametrize(
    ("minutes", "ago"), [(3 * 1440, "3 days"), (1440, "1 day"), (60, "1 hour"), (1, "1 hour")]
)
def test_what_only_an_earlier_investigation_saw_is_said_to_be_old(
    tmp_path: Path, minutes: float, ago: str
) -> None:
    case = write_case(tmp_path, topology=[{**LEARNED, "last_seen": at(30 - minutes)}])
    assert said(case) == (
        "Who calls web and whom it calls is known from earlier investigations alone, last "
        f"{ago} ago: it may have changed since."
    )
    # A call that a failing line names is of today.
    graph = topology_of([("web", "api"), ("web", "db")])
    assert unknown_calls(case, "web", graph) is None


def test_without_an_alerting_service_nobody_asks(tmp_path: Path) -> None:
    assert said(write_case(tmp_path), None) is None


def test_it_stands_in_the_diagnosis(tmp_path: Path) -> None:
    rows = series("web", "latency_p99", 100, 900)
    found = diagnose(write_case(tmp_path, alert={"service": "web"}, metrics=rows))
    assert found.missing[-1] == NOT_KNOWN
