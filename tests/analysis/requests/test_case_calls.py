"""Where each call between services is known from, and when it was last seen."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import write_table
from faultline.analysis.requests.topology import case_calls, read_topology
from tests.analysis.cases import at, series, spans, write_case

SEEN = datetime.fromisoformat(at(-5))
LONG_AGO = {"last_seen": at(-10_000), "learned_in": "20260220-120000-abcdef"}


def test_one_pair_is_one_call_with_all_its_sources_and_the_latest_time(tmp_path: Path) -> None:
    table = [
        {"caller": "web", "callee": "api", "source": "service_graph", "last_seen": at(-5)},
        {"caller": "web", "callee": "api", "source": "jaeger", "last_seen": at(-9)},
    ]
    case = write_case(
        tmp_path,
        topology=table,
        spans=spans(-30, 1, caller_ms=2, callee_ms=1, tag="t"),
        scope={"calls": [["web", "api"]]},
    )
    sources = ("catalogue", "jaeger", "service_graph", "spans")
    assert case_calls(case) == (
        ServiceCall(caller="web", callee="api", sources=sources, last_seen=SEEN),
    )


def test_a_table_of_before_there_were_sources_is_read(tmp_path: Path) -> None:
    case = write_case(tmp_path, topology=[{"caller": "a", "callee": "b"}])
    assert case_calls(case) == (
        ServiceCall(caller="a", callee="b", sources=("not recorded",), certainty=0.9),
    )


@pytest.mark.parametrize(
    ("beside", "learned_in"),
    [
        ({}, LONG_AGO["learned_in"]),
        ({"topology": [{"caller": "a", "callee": "b", "source": "xray"}]}, None),
        ({"scope": {"calls": [["a", "b"]]}}, None),
        (
            {"metrics": [series("a", "x", 1, 1)[0] | {"labels": '{"client":"a","server":"b"}'}]},
            None,
        ),
    ],
    ids=["nothing else", "seen now", "configured", "in metrics"],
)
def test_what_was_learned_earlier_counts_where_nothing_tells_of_the_pair_now(
    tmp_path: Path, beside: dict[str, Any], learned_in: str | None
) -> None:
    learned = {"caller": "a", "callee": "b", "source": "mesh", **LONG_AGO}
    beside["topology"] = [learned, *beside.get("topology", [])]
    [call] = case_calls(write_case(tmp_path, **beside))
    assert (call.pair, call.learned_in) == (("a", "b"), learned_in)
    assert ("mesh" in call.sources) == (learned_in is not None)


def test_the_settings_say_which_way_round_a_call_goes(tmp_path: Path) -> None:
    learned = {"caller": "a", "callee": "b", "source": "mesh", **LONG_AGO}
    case = write_case(tmp_path, topology=[learned], scope={"calls": [["b", "a"]]})
    assert read_topology(case).edges == (("b", "a"),)


def test_a_case_that_is_written_again_keeps_what_is_known(tmp_path: Path) -> None:
    rows = [
        {"caller": "a", "callee": "b", "source": "mesh", "last_seen": at(-5)},
        {"caller": "b", "callee": "c", "source": "mesh", **LONG_AGO},
        {"caller": "c", "callee": "d", "source": "mesh", "last_seen": "last week"},
        {"caller": "a", "callee": "a", "source": "mesh"},
    ]
    case = write_case(tmp_path, topology=rows)
    known = case_calls(case)
    assert [call.pair for call in known] == [("a", "b"), ("b", "c")]
    # A time that cannot be read costs its row, and the answer says so.
    [gap] = case.gaps
    assert "'last week' is not a time" in gap.reason
    write_table(tmp_path, "topology", case.topology)
    assert case_calls(read_case(tmp_path)) == known
