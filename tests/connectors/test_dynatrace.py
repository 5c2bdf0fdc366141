"""The Dynatrace connector against a local server that answers as the documentation says."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.dynatrace import CONNECTOR, rows
from faultline.connectors.vendors.dynatrace.connector import DynatraceConnector, quoted
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import dynatrace as stand_in


def connector(server: LocalServer, more: Any = None) -> DynatraceConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    built = CONNECTOR.configured(
        Settings.model_validate(stand_in.settings(server.url) | (more or {}))
    )
    assert isinstance(built, DynatraceConnector)
    return built


def test_golden_signals_begin_when_their_slot_begins(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    table = conform(found.tables["metrics"], "metrics", "metrics")
    failing = table.filter(pl.col("signal") == "error_ratio", pl.col("value") > 0)
    assert failing["time"].min() == ONSET
    assert failing["value"].unique().to_list() == [0.4]
    early = table.filter(pl.col("time") < ONSET)
    assert early.filter(signal="request_rate")["value"].unique().to_list() == [20]
    assert early.filter(signal="error_ratio")["value"].unique().to_list() == [0]
    late = table.filter(pl.col("time") >= ONSET, pl.col("signal") == "latency_p99")
    assert late["value"].unique().to_list() == [2090]
    assert set(table["service"]) == {"checkout"}


def test_the_problem_and_the_deployment_are_read(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    (monitor,) = conform(found.tables["monitors"], "monitors", "monitors").iter_rows(named=True)
    assert monitor["monitor"] == "P-26031 Failure rate increase"
    assert (monitor["service"], monitor["state"]) == ("checkout", "firing")
    pid = stand_in.problem()["problemId"]
    assert monitor["link"] == f"{server.url}/#problems/problemdetails;pid={pid}"
    (change,) = conform(found.tables["changes"], "changes", "changes").iter_rows(named=True)
    assert (change["service"], change["kind"]) == ("checkout", "deploy")
    assert (change["title"], change["time"]) == ("Deploy checkout v42", stand_in.DEPLOYED)


def test_the_deployment_is_found_near_the_onset(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    assert any(one.kind == "change_near" and one.subject == "checkout" for one in findings)


def test_the_token_is_sent_and_nothing_but_get(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    collected(tmp_path, built)
    asyncio.run(built.check())
    assert server.methods == {"GET"}
    assert {one.headers["Authorization"] for one in server.asked} == {f"Api-Token {stand_in.TOKEN}"}


def test_an_alias_is_asked_for_and_an_unknown_service_is_a_gap(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server, {"services": {"shop": {"aliases": ["checkout"]}}})
    alert = Alert(source="test", title="t", started_at=ALERT_AT, service="shop")
    found = collected(tmp_path, built, services=("shop", 'x"),type("HOST'), alert=alert)
    assert set(found.tables["metrics"]["service"]) == {"shop"}
    (gap,) = [one for one in found.missing if one.unknown]
    assert gap.query == 'x"),type("HOST'
    (selector,) = {
        one.query["entitySelector"][0] for one in server.asked if one.path == stand_in.ENTITIES
    }
    assert '"x~"),type(~"HOST"' in selector


def test_values_stay_inside_their_quotation_marks() -> None:
    assert quoted('a"b~c\n') == '"a~"b~~c "'


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "authentication failed"), (403, "not permitted"), (429, "rate")]
)
def test_a_refusal_is_a_gap_and_check_names_the_scope(
    server: LocalServer, tmp_path: Path, status: int, reason: str
) -> None:
    built = connector(server)
    refusal = {"error": {"code": status, "message": "secret-text"}}
    server.on(stand_in.PROBLEMS, Reply(refusal, status=status))
    found = collected(tmp_path, built)
    assert {"metrics", "changes"} == set(found.tables)
    (gap,) = found.missing
    assert gap.kind == "monitors"
    assert reason in gap.reason
    assert "secret-text" not in str(found.missing)
    check = asyncio.run(built.check())
    assert check.ok
    assert "needs the scope problems.read" in check.line


def test_a_longer_list_is_said_to_be_cut(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    more = {"problems": [stand_in.problem()], "nextPageKey": "AQAAABQBAAAABQ=="}
    server.on(stand_in.PROBLEMS, Reply(more))
    (item,) = [one for one in collected(tmp_path, built).items if one.kind == "monitors"]
    assert item.cut == "the first 200; there are more"


def test_a_closed_problem_is_resolved_when_it_ended_and_unreadable_ones_are_left_out() -> None:
    closed = rows.Problem(
        "1", "P-1", "Slow", status="CLOSED", startTime=1, endTime=1_772_452_800_000
    )
    never = rows.Problem("2", "P-2", "Slow", status="CLOSED", startTime=1, endTime=-1)
    found = list(rows.problem_rows([closed, never], ServiceNames(), "https://dt.example.com"))
    assert [(row[1], row[2], row[3]) for row in found] == [
        (None, "resolved", 1_772_452_800_000_000_000)
    ]
    assert rows.problem_link("https://x", "1;evil=<b>").endswith("pid=1evilb")


def test_without_an_environment_or_a_token_it_is_not_built() -> None:
    for own in ({"token": "t"}, {"url": "https://abc.live.dynatrace.com"}):
        assert CONNECTOR.configured(Settings.model_validate({"dynatrace": own})) is None
