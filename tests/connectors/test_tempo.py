"""The Tempo connector over real HTTP."""

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
from faultline.connectors.vendors.tempo import CONNECTOR
from faultline.connectors.vendors.tempo.connector import MOST_TRACES, TempoConnector
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import tempo as stand_in
from tests.connectors.stand_ins.requests_with_traces import CALLS, between, otlp


def connector(server: LocalServer, **more: Any) -> TempoConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    built = CONNECTOR.configured(Settings.model_validate(stand_in.settings(server.url) | more))
    assert built is not None
    return built


def searches(server: LocalServer) -> list[str]:
    """The queries that were searched for."""
    return [a.query["q"][0] for a in server.asked if a.path == "/api/search"]


def test_whole_traces_of_both_windows_with_the_calls_in_them(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "cart"))
    assert found.missing == ()
    spans = conform(found.tables["spans"], "spans", "spans")
    assert spans["span_id"].is_duplicated().sum() == 0
    during = pl.col("start") >= ALERT_AT.replace(hour=11, minute=30)
    assert spans.filter(~during)["trace_id"].n_unique() == 12
    assert spans.filter(during)["trace_id"].n_unique() >= 12
    calls = spans.filter(pl.col("service") == "cart")
    assert set(calls["parent_id"]) <= set(spans.filter(pl.col("service") == "checkout")["span_id"])
    failed = spans.filter(pl.col("status") == "error")
    assert failed["start"].min() >= ONSET  # type: ignore[operator]
    assert sum(i.rows or 0 for i in found.items) == spans.height


def test_both_windows_are_asked_the_same_questions(server: LocalServer, tmp_path: Path) -> None:
    collected(tmp_path, connector(server))
    asked = searches(server)
    assert sorted({(query, asked.count(query)) for query in asked}) == [
        ('{ resource.service.name = "checkout" && duration > 66ms && status != error }', 2),
        ('{ resource.service.name = "checkout" && status = error }', 2),
        ('{ resource.service.name = "checkout" }', 6),
    ]


def test_a_few_failed_traces_do_not_make_failures_look_frequent(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = [call for call in CALLS if call.at < ONSET] + [
        call for call in CALLS if call.at >= ONSET
    ][:4]
    monkeypatch.setattr(
        stand_in, "between", lambda start, end: [c for c in between(start, end) if c in last]
    )
    found = collected(tmp_path, connector(server))
    (failed,) = (item for item in found.items if "status = error" in item.query)
    assert (failed.rows, failed.cut) == (0, "0 of 4 traces read whole")
    assert found.tables["spans"].filter(pl.col("status") == "error").height == 8


def test_links_go_to_explore_with_the_query(server: LocalServer, tmp_path: Path) -> None:
    built = connector(
        server, grafana={"public_url": "https://grafana.example.com"}, tempo={"url": server.url}
    )
    for item in collected(tmp_path, built).items:
        asked = parse_qs(urlsplit(item.link or "").query)
        assert json.loads(asked["panes"][0])["a"]["queries"][0]["query"] == item.query


def test_the_trace_that_the_alert_names_is_read(server: LocalServer, tmp_path: Path) -> None:
    named = CALLS[5].trace_id
    alert = Alert(source="x", title="t", started_at=ALERT_AT, labels={"trace_id": named.upper()})
    found = collected(tmp_path, connector(server), services=(), alert=alert)
    assert found.tables["spans"]["trace_id"].unique().to_list() == [named]
    assert [i.query for i in found.items] == [named]


def test_a_server_without_the_v2_api_is_read_by_v1(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    for call in CALLS:
        del server._replies[f"/api/v2/traces/{call.trace_id}"]
        server.on(f"/api/traces/{call.trace_id}", Reply({"batches": otlp(call)}))
    found = collected(tmp_path, built)
    assert found.missing == ()
    assert found.tables["spans"].height


def test_whole_traces_are_bounded_in_number_and_length(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("faultline.connectors.vendors.tempo.traces.MOST_SPANS_OF_A_TRACE", 1)
    monkeypatch.setattr("faultline.connectors.vendors.tempo.connector.MOST_TRACES", 5)
    found = collected(tmp_path, connector(server))
    assert found.tables["spans"].height == 10
    assert any("only the first 1 spans of" in (i.cut or "") for i in found.items)
    assert MOST_TRACES == 24


def test_traces_that_cannot_be_read_are_one_gap(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    for call in CALLS:
        server.on(f"/api/v2/traces/{call.trace_id}", Reply(b"{", 200))
    found = collected(tmp_path, built)
    reasons = [gap.reason for gap in found.missing]
    assert len(reasons) == 2
    assert all(
        "traces could not be read whole" in reason and "unexpected response" in reason
        for reason in reasons
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "authentication failed"), (403, "not permitted"), (500, "HTTP 500")],
)
def test_searches_that_are_refused_are_gaps(
    server: LocalServer, tmp_path: Path, status: int, reason: str
) -> None:
    built = connector(server)
    server.on("/api/search", Reply(b"no", status))
    found = collected(tmp_path, built)
    reasons = [gap.reason for gap in found.missing]
    assert any(reason in said for said in reasons)
    assert all(reason in said or "requests failed" in said for said in reasons)


def test_a_service_without_traces_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "nobody"))
    assert [(gap.query, gap.kind) for gap in found.missing] == [("nobody", "spans")]


def test_quotes_in_a_service_name_stay_inside_the_query(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    server.on("/api/search", Reply({"traces": []}))
    alert = Alert(source="x", title="t", started_at=ALERT_AT, service='a" || true || "\\')
    collected(tmp_path, built, services=(), alert=alert)
    assert set(searches(server)) == {
        '{ resource.service.name = "a\\" || true || \\"\\\\" && status = error }',
        '{ resource.service.name = "a\\" || true || \\"\\\\" }',
    }


def test_an_alias_is_searched_for_and_rows_carry_our_name(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server, services={"basket": {"aliases": ["cart"]}})
    found = collected(tmp_path, built, services=("basket",))
    assert any('"cart"' in query for query in searches(server))
    assert set(found.tables["spans"]["service"]) == {"checkout", "basket"}


def test_check_names_the_version(server: LocalServer) -> None:
    said = asyncio.run(connector(server).check())
    assert said.ok
    assert "Tempo 2.9.0" in said.line
    server.refusal = Reply(b"", 401)
    assert not asyncio.run(connector(server).check()).ok


def test_failing_spans_are_found_and_lead_to_the_callee(
    server: LocalServer, tmp_path: Path
) -> None:
    found = diagnosed(tmp_path, connector(server))
    kinds = {(f.kind, f.subject) for f in found.findings}
    assert {("span_errors", "cart"), ("span_errors", "checkout")} <= kinds
    assert found.causes[0].subject == "cart"


@pytest.mark.parametrize(("environment", "asks_everywhere"), [("prod", False), ("canary", True)])
def test_traces_are_those_of_the_alerts_environment_where_it_has_any(
    server: LocalServer, tmp_path: Path, environment: str, asks_everywhere: bool
) -> None:
    built = connector(server)
    tags = {"name": "resource", "tags": ["service.name", "deployment.environment"]}
    server.on("/api/v2/search/tags", Reply({"scopes": [tags], "metrics": {}}))

    def search(asked: Asked) -> Reply:
        """All traces are those of prod."""
        if 'deployment.environment = "canary"' in asked.query["q"][0]:
            return Reply({"traces": []})
        return stand_in.search(asked)

    server.on("/api/search", search)
    alert = Alert(source="x", title="t", started_at=ALERT_AT, labels={"env": environment})
    found = collected(tmp_path, built, alert=alert)
    assert found.tables["spans"].height
    within = f' && resource.deployment.environment = "{environment}"'
    assert f'{{ resource.service.name = "checkout"{within} }}' in searches(server)
    everywhere = [query for query in searches(server) if within not in query]
    assert bool(everywhere) == asks_everywhere


@pytest.mark.parametrize(("namespace", "asks_everywhere"), [("prod", False), ("canary", True)])
def test_traces_are_those_of_the_alerts_namespace_where_it_has_any(
    server: LocalServer, tmp_path: Path, namespace: str, asks_everywhere: bool
) -> None:
    built = connector(server)
    tags = {"name": "resource", "tags": ["service.name", "k8s.namespace.name"]}
    server.on("/api/v2/search/tags", Reply({"scopes": [tags], "metrics": {}}))

    def search(asked: Asked) -> Reply:
        """All traces are those of prod."""
        if 'k8s.namespace.name = "canary"' in asked.query["q"][0]:
            return Reply({"traces": []})
        return stand_in.search(asked)

    server.on("/api/search", search)
    alert = Alert(source="x", title="t", started_at=ALERT_AT, labels={"namespace": namespace})
    assert collected(tmp_path, built, alert=alert).tables["spans"].height
    within = f' && resource.k8s.namespace.name = "{namespace}"'
    everywhere = [query for query in searches(server) if within not in query]
    assert any(within in query for query in searches(server))
    assert bool(everywhere) == asks_everywhere
