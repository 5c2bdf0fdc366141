"""The Jaeger connector over real HTTP, in both of its APIs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.vendors.jaeger import CONNECTOR
from faultline.connectors.vendors.jaeger.connector import JaegerConnector
from tests.connectors.collected_cases import calls_in, collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import jaeger as stand_in
from tests.connectors.stand_ins.requests_with_traces import CALLS, between, jaeger


def connector(server: LocalServer, **more: Any) -> JaegerConnector:
    """As the settings build it."""
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url) | more))
    assert built is not None
    return built


def test_spans_of_both_windows_and_who_calls_whom(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    found = collected(tmp_path, connector(server), services=("checkout", "cart"))
    assert found.missing == ()
    assert calls_in(found, "jaeger") == [("checkout", "cart")]
    spans = conform(found.tables["spans"], "spans", "spans")
    assert spans.select("trace_id", "span_id").is_duplicated().sum() == 0
    calls = spans.filter(pl.col("service") == "cart")
    assert set(calls["parent_id"]) <= set(spans.filter(pl.col("service") == "checkout")["span_id"])
    failed = spans.filter(pl.col("status") == "error")
    assert failed["start"].min() >= ONSET  # type: ignore[operator]
    assert spans.filter(pl.col("start") < ONSET)["trace_id"].n_unique() >= 15


def test_victoriatraces_is_a_jaeger_below_a_path(server: LocalServer, tmp_path: Path) -> None:
    """VictoriaTraces serves the same calls (app/vtselect/traces/jaeger/jaeger.go); without its task
    for the service graph it knows of no calls."""
    stand_in.serve_victoriatraces(server)
    below = {"jaeger": {"url": f"{server.url}{stand_in.VICTORIATRACES}"}}
    built = connector(server, **below)
    found = collected(tmp_path, built, services=("checkout", "cart"))
    assert found.missing == ()
    assert set(found.tables["spans"]["service"]) == {"cart", "checkout"}
    assert all(asked.path.startswith(stand_in.VICTORIATRACES) for asked in server.asked)
    assert asyncio.run(built.check()).ok


def test_both_windows_are_asked_the_same_questions(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    collected(tmp_path, connector(server))
    asked = [a.query for a in server.asked if a.path == "/api/traces"]
    assert len(asked) == 10
    assert (
        sum("tags" in query for query in asked)
        == sum("minDuration" in query for query in asked)
        == 2
    )
    lengths = sorted({(int(q["end"][0]) - int(q["start"][0])) / 60e6 for q in asked})
    assert lengths == [10, 30, 40, 120]


def test_a_few_failed_traces_do_not_make_failures_look_frequent(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.serve(server)
    kept = (
        collected(tmp_path, connector(server))
        .tables["spans"]
        .filter(pl.col("status") == "error")
        .height
    )
    rare = [call for call in CALLS if call.at < ONSET] + [
        call for call in CALLS if call.at >= ONSET
    ][:1]
    monkeypatch.setattr(
        stand_in, "between", lambda start, end: [c for c in between(start, end) if c in rare]
    )
    found = collected(tmp_path, connector(server))
    assert not any("tags=" in item.query for item in found.items)
    assert found.tables["spans"].filter(pl.col("status") == "error").height == 2 < kept


def test_links_open_the_search_page_at_the_same_query(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    built = connector(
        server, jaeger={"url": server.url, "public_url": "https://jaeger.example.com"}
    )
    for item in (i for i in collected(tmp_path, built).items if i.kind == "spans"):
        link = urlsplit(item.link or "")
        assert (link.netloc, link.path) == ("jaeger.example.com", "/search")
        assert parse_qs(link.query) == parse_qs(urlsplit(item.query).query)


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_server_with_the_v3_api_alone(server: LocalServer, tmp_path: Path, wrapped: bool) -> None:
    stand_in.serve_v3(server, wrapped=wrapped)
    found = collected(tmp_path, connector(server), services=("checkout", "cart"))
    assert found.missing == ()
    assert calls_in(found, "jaeger") == [("checkout", "cart")]
    assert set(found.tables["spans"]["service"]) == {"checkout", "cart"}
    asked = next(a.query for a in server.asked if a.path == "/api/v3/traces")
    assert asked["query.service_name"] == asked["query.serviceName"]
    assert asked["query.start_time_min"] == asked["query.startTimeMin"]


def test_the_trace_that_the_alert_names_is_read(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    named = CALLS[-1].trace_id
    alert = Alert(source="x", title="t", started_at=ALERT_AT, labels={"traceID": named})
    found = collected(tmp_path, connector(server), services=(), alert=alert)
    assert set(found.tables["spans"]["trace_id"]) == {named}
    assert any(i.link == f"{server.url}/trace/{named}" for i in found.items)


def test_spans_of_a_service_with_an_alias_carry_our_name(
    server: LocalServer, tmp_path: Path
) -> None:
    stand_in.serve(server)
    found = collected(
        tmp_path,
        connector(server, services={"basket": {"aliases": ["CART"]}}),
        services=("basket", "x"),
    )
    assert set(found.tables["spans"]["service"]) == {"checkout", "basket"}
    assert calls_in(found, "jaeger") == [("checkout", "basket")]
    assert [gap.query for gap in found.missing if gap.kind == "spans"] == ["x"]


def test_a_parent_of_another_trace_is_none(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    trace = jaeger(CALLS[-1])
    trace["spans"][1]["references"] = [{"refType": "FOLLOWS_FROM", "traceID": "ff", "spanID": "1"}]
    server.on("/api/traces", Reply({"data": [trace]}))
    found = collected(tmp_path, connector(server))
    assert found.tables["spans"]["parent_id"].to_list() == [None, None]


def test_spans_that_cannot_be_read_are_counted(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    trace = jaeger(CALLS[-1])
    trace["spans"] += [
        {**trace["spans"][0], "spanID": "not hex"},
        {**trace["spans"][0], "startTime": -5},
    ]
    server.on("/api/traces", Reply({"data": [trace]}))
    found = collected(tmp_path, connector(server))
    assert found.tables["spans"].height == 2
    assert {gap.reason for gap in found.missing} == {
        "2 spans without a readable id or time left out"
    }


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(b"", 401), "authentication failed"),
        (Reply(b"", 503), "requests failed"),
        (Reply({"data": [{"spans": [{"traceID": 7}]}]}), "unexpected response"),
        (Reply({"data": None, "errors": [{"code": 404}]}, 404), "not found"),
    ],
)
def test_searches_that_are_refused_are_gaps(
    server: LocalServer, tmp_path: Path, reply: Reply, reason: str
) -> None:
    stand_in.serve(server)
    server.on("/api/traces", reply)
    found = collected(tmp_path, connector(server))
    assert found.tables["topology"].height == 1
    reasons = [gap.reason for gap in found.missing]
    assert any(reason in said for said in reasons)
    assert all(reason in said or "requests failed" in said for said in reasons)


def test_check_says_which_api_answers(server: LocalServer) -> None:
    assert not asyncio.run(connector(server).check()).ok
    stand_in.serve(server)
    assert "2 services are known" in asyncio.run(connector(server).check()).line


def test_failing_spans_lead_to_the_callee(server: LocalServer, tmp_path: Path) -> None:
    stand_in.serve(server)
    found = diagnosed(tmp_path, connector(server))
    assert (found.verdict, found.causes[0].subject) == ("cause_found", "cart")


@pytest.mark.parametrize(("cluster", "bounded"), [("eu", True), ("us", True), ("mars", False)])
def test_traces_are_those_of_the_alerts_cluster_where_spans_tell_theirs(
    server: LocalServer, tmp_path: Path, cluster: str, bounded: bool
) -> None:
    stand_in.serve(server)
    server.on("/api/traces", _in_two_clusters)
    alert = Alert(source="x", title="t", started_at=ALERT_AT, labels={"cluster": cluster})
    spans = collected(tmp_path, connector(server), alert=alert).tables["spans"]
    said = set(spans["attributes"].str.json_path_match("$['k8s.cluster.name']"))
    assert said == ({cluster} if bounded else {"eu", "us"})


def _in_two_clusters(asked: Asked) -> Reply:
    """Every third request is made in the cluster us."""
    tags = json.loads(asked.query.get("tags", ["{}"])[0])
    found = []
    for call in stand_in.found(asked):
        cluster = "us" if call.number % 3 == 0 else "eu"
        if tags.get("k8s.cluster.name", cluster) != cluster:
            continue
        trace = jaeger(call)
        for process in trace["processes"].values():
            process["tags"] = [{"key": "k8s.cluster.name", "type": "string", "value": cluster}]
        found.append(trace)
    return Reply({"data": found[: int(asked.query["limit"][0])], "errors": None})
