"""The Datadog connector against a local server that answers in the shapes of its API."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.tables import conform, write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Evidence, JobIdentity, Link
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.datadog import CONNECTOR
from faultline.connectors.vendors.datadog.connector import LIMITS, DatadogConnector
from faultline.connectors.vendors.datadog.monitors import monitor_of
from tests.connectors.collected_cases import calls_in
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import datadog as stand_in

LOGS = "/api/v2/logs/events/search"
SPANS = "/api/v2/spans/events/search"
MINUTE_MS = 60_000


def connector(server: LocalServer, **given: Any) -> DatadogConnector:
    """A connector to the local server, without its slowness unless a test is about that."""
    limits = Limits(**{**LIMITS.__dict__, "requests_per_s": 1000.0, **given.pop("limits", {})})
    keys = ("a" * 32, stand_in.APPLICATION_KEY)
    return DatadogConnector(
        *keys, **{"api_url": server.url, "env": "prod", "limits": limits, **given}
    )


def alert(**given: Any) -> Alert:
    """The alert as the webhook reads it."""
    labels = {"monitor_id": str(stand_in.MONITOR), **given.pop("labels", {})}
    known = {
        "source": "datadog",
        "title": "Checkout errors",
        "started_at": ALERT_AT,
        "service": "checkout",
    }
    return Alert(**{**known, "labels": labels, **given})


def asking(folder: Path, *services: str, **given: Any) -> Request:
    """The request about it."""
    return request_for(folder, services=services or ("checkout",), alert=alert(**given))


def collect(server: LocalServer, folder: Path, *services: str, **given: Any) -> Collected:
    """A collection from the stand-in."""
    return asyncio.run(collect_from(connector(server), asking(folder, *services, **given)))


@pytest.fixture
def datadog(server: LocalServer) -> LocalServer:
    """The stand-in."""
    stand_in.serve(server)
    return server


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Collected, list[Asked]]]:
    """One collection about checkout and cart, and what was asked for it."""
    with LocalServer() as server:
        stand_in.serve(server)
        yield collect(server, tmp_path_factory.mktemp("files"), "checkout", "cart"), server.asked


def bodies(asked: list[Asked], path: str) -> list[dict[str, Any]]:
    """What was posted to a path."""
    return [json.loads(a.body) for a in asked if a.path == path]


def test_everything_around_the_alert_is_read_and_fits_the_tables(
    told: tuple[Collected, list[Asked]],
) -> None:
    collected, _ = told
    assert collected.missing == ()
    assert set(collected.tables) == {"metrics", "logs", "spans", "changes", "topology", "monitors"}
    for name, table in collected.tables.items():
        assert conform(table, name, name).height


def test_the_monitors_own_expression_is_asked_over_all_windows_in_seconds(
    told: tuple[Collected, list[Asked]],
) -> None:
    collected, asked = told
    (query,) = [a.query for a in asked if a.path == "/api/v1/query"]
    assert query["query"] == ["sum:trace.http.request.errors{env:prod,service:checkout}.as_count()"]
    assert int(query["from"][0]) == (ALERT_AT - timedelta(minutes=150)).timestamp()
    assert int(query["to"][0]) == (ALERT_AT + timedelta(minutes=1)).timestamp()
    rows = collected.tables["metrics"].filter(signal="trace.http.request.errors")
    assert rows["service"].unique().to_list() == ["checkout"]
    assert rows["time"].min() < ONSET - timedelta(hours=2) < ONSET < rows["time"].max()  # type: ignore[operator]


def test_golden_signals_are_asked_in_ms_and_come_in_their_units(
    told: tuple[Collected, list[Asked]],
) -> None:
    collected, asked = told
    first = bodies(asked, "/api/v2/query/timeseries")[0]["data"]["attributes"]
    assert first["to"] - first["from"] == 151 * MINUTE_MS
    metrics = (
        collected.tables["metrics"]
        .filter(service="checkout")
        .filter(pl.col("labels").str.contains("http"))
    )
    metrics = metrics.filter(~pl.col("labels").str.contains("version"))
    after = (
        metrics.filter(pl.col("time") >= ONSET)
        .group_by("signal", "unit")
        .agg(pl.col("value").median())
        .sort("signal")
    )
    assert [(s, u, round(v, 1)) for s, u, v in after.iter_rows()] == [
        ("error_ratio", "ratio", 0.2),
        ("latency_p50", "ms", 62.4),
        ("latency_p99", "ms", 1976.0),
        ("request_rate", "1/s", 40.6),
    ]


def test_errors_and_latency_are_split_by_version(told: tuple[Collected, list[Asked]]) -> None:
    rows = told[0].tables["metrics"].filter(pl.col("labels").str.contains("version"))
    assert rows["signal"].unique().sort().to_list() == ["error_ratio", "latency_p99"]
    versions = {json.loads(labels)["version"] for labels in rows["labels"].unique()}
    assert versions == {"v2.40", "v2.41"}
    said = [
        f["formula"]
        for b in bodies(told[1], "/api/v2/query/timeseries")
        for f in b["data"]["attributes"]["formulas"]
    ]
    split = [formula for formula in said if formula.startswith("top(")]
    assert split
    assert all(", 10, 'mean', 'desc')" in formula for formula in split)


def test_a_service_that_the_first_one_calls_is_asked_about_though_nobody_named_it(
    told: tuple[Collected, list[Asked]],
) -> None:
    rows = told[0].tables["metrics"].filter(service="payments")
    assert {"request_rate", "error_ratio", "latency_p99"} <= set(rows["signal"])
    assert any('"payments"' in b["filter"]["query"] for b in bodies(told[1], LOGS))


def test_without_the_catalogue_the_others_stand(datadog: LocalServer, tmp_path: Path) -> None:
    datadog.on("/api/v2/catalog/relation", Reply({"errors": ["Forbidden"]}, status=403))
    collected = collect(datadog, tmp_path)
    assert [(m.kind, m.query) for m in collected.missing] == [
        ("topology", "relations of the catalogue")
    ]
    assert collected.tables["logs"].height


def test_resources_come_in_cores_and_bytes(told: tuple[Collected, list[Asked]]) -> None:
    metrics = told[0].tables["metrics"].filter(service="checkout")
    assert 1.1 < metrics.filter(signal="cpu_cores")["value"].median() < 1.4  # type: ignore[operator]
    assert metrics.filter(signal="memory_bytes")["unit"].unique().to_list() == ["bytes"]


def test_memory_is_that_of_the_largest_container(told: tuple[Collected, list[Asked]]) -> None:
    memory = {
        query["query"].partition("{")[0]
        for body in bodies(told[1], "/api/v2/query/timeseries")
        for query in body["data"]["attributes"]["queries"]
        if "memory" in query.get("query", "")
    }
    assert memory == {"max:container.memory.usage"}


def test_both_windows_of_logs_are_asked_alike(told: tuple[Collected, list[Asked]]) -> None:
    asked = bodies(told[1], LOGS)
    by_window: dict[str, list[tuple[str, int]]] = {}
    for body in asked:
        by_window.setdefault(body["filter"]["from"], []).append(
            (body["filter"]["query"], body["page"]["limit"])
        )
    assert len(by_window) == 2
    one, other = by_window.values()
    assert sorted(one) == sorted(other)
    assert all(
        'service:("checkout" OR "cart" OR "payments") env:"prod"' in query for query, _ in one
    )


def test_log_lines_carry_level_trace_and_what_was_thrown(
    told: tuple[Collected, list[Asked]],
) -> None:
    logs = told[0].tables["logs"].filter(pl.col("message").str.starts_with("could not price"))
    assert logs.height == 40
    row = logs.row(0, named=True)
    assert (row["level"], row["service"], row["trace_id"]) == (
        "error",
        "checkout",
        stand_in.TRACE_IDS[0],
    )
    assert json.loads(row["attributes"])["error.kind"] == "TypeError"


def test_counts_by_status_are_metrics_with_zeros_where_nothing_was_logged(
    told: tuple[Collected, list[Asked]],
) -> None:
    errors = told[0].tables["metrics"].filter(signal="error_log_lines_per_min")
    assert errors.filter(pl.col("time") < ONSET)["value"].unique().to_list() == [0.0]
    assert errors.filter(pl.col("time") < ONSET).height > 100
    assert errors.filter(pl.col("time") >= ONSET)["value"].max() == 4.0
    kinds = next(i.details for i in told[0].items if "@error.kind" in i.query)
    assert kinds == {"checkout TypeError": "40 in the incident"}


def test_an_error_storm_shows_its_first_and_its_last_lines(
    datadog: LocalServer, tmp_path: Path
) -> None:
    def storm(asked: Asked) -> Reply:
        body = json.loads(asked.body)
        if "status:" not in body["filter"]["query"] or not body["filter"]["from"].startswith(
            "2026-03-02T11:30"
        ):
            return Reply({"data": []})
        at = [ONSET + timedelta(seconds=n / 10) for n in range(1000)]
        at = (
            at
            if body["sort"] == "timestamp"
            else [ALERT_AT - timedelta(seconds=n / 10) for n in range(1000)]
        )
        made = [stand_in.line(t, "error", f"no {n}") for n, t in enumerate(at)]
        return Reply({"data": made, "meta": {"page": {"after": "x"}}})

    datadog.on(LOGS, storm)
    collected = collect(datadog, tmp_path)
    times = collected.tables["logs"].filter(level="error")["time"]
    assert times.min() == ONSET
    assert times.max() == ALERT_AT
    assert any(
        i.cut == "only the first and the last 1000 lines of the window" for i in collected.items
    )


def test_of_an_error_storm_the_first_lines_stand_where_the_last_cannot_be_had(
    datadog: LocalServer, tmp_path: Path
) -> None:
    def storm(asked: Asked) -> Reply:
        body = json.loads(asked.body)
        if body["sort"] == "-timestamp":
            return Reply({}, status=403)
        made = [
            {**stand_in.line(ALERT_AT - timedelta(minutes=n), "error", f"no {n}"), "id": None}
            for n in range(1, 4)
        ]
        return Reply({"data": made, "meta": {"page": {"after": "x"}}})

    datadog.on(LOGS, storm)
    collected = collect(datadog, tmp_path)
    assert {"no 1", "no 2", "no 3"} <= set(collected.tables["logs"]["message"])
    assert all(m.query.startswith("the last lines of ") for m in collected.missing)
    assert collected.missing


def test_an_alert_of_another_source_brings_no_query_of_its_own(
    datadog: LocalServer, tmp_path: Path
) -> None:
    collect(
        datadog,
        tmp_path,
        source="alertmanager",
        labels={"monitor_id": "", "query": "avg:system.load.1{*} > 1"},
    )
    assert "/api/v1/query" not in datadog.paths()


def test_spans_of_both_windows_and_whole_traces_are_read(
    told: tuple[Collected, list[Asked]],
) -> None:
    spans = told[0].tables["spans"]
    payments = spans.filter(service="payments")
    assert payments["parent_id"].to_list() == ["11", "11"]
    assert payments["duration_us"].to_list() == [60_000.0, 60_000.0]
    checkout = spans.filter(service="checkout", operation="POST /checkout")
    assert checkout.filter(pl.col("start") >= ONSET)["status"].unique().to_list() == ["error"]
    assert checkout.filter(pl.col("start") < ONSET)["duration_us"].max() < 300_000  # type: ignore[operator]
    assert spans.select("trace_id", "span_id").is_unique().all()
    assert {f"/api/v2/trace/{one}" for one in stand_in.TRACE_IDS} <= {a.path for a in told[1]}


def test_a_span_that_ends_before_it_starts_is_left_out(
    datadog: LocalServer, tmp_path: Path
) -> None:
    at = ONSET + timedelta(minutes=4)
    wrong = stand_in.span(at, 1, bad=True)
    wrong["attributes"] |= {"span_id": "wrong", "custom": {"duration": -1}}
    right = stand_in.span(at, 2, bad=True)
    datadog.on(SPANS, Reply({"data": [wrong, right], "meta": {"status": "done"}}))
    whole = stand_in.trace(stand_in.TRACE_IDS[1], bad=True)
    whole["data"]["attributes"]["spans"][1]["duration"] = -1
    datadog.on(f"/api/v2/trace/{stand_in.TRACE_IDS[1]}", Reply(whole))
    spans = collect(datadog, tmp_path, "checkout").tables["spans"]
    assert conform(spans, "spans", "spans").height == spans.height
    kept = spans.filter(trace_id=stand_in.TRACE_IDS[1])
    assert "payments" not in kept["service"].to_list()
    assert "wrong" not in kept["span_id"].to_list()


def test_deployments_pipelines_and_events_are_changes(told: tuple[Collected, list[Asked]]) -> None:
    changes = (
        told[0]
        .tables["changes"]
        .select("service", "kind", "id", "author", "link")
        .sort("id")
        .rows()
    )
    assert changes == [
        ("payments", "deploy", "1" * 40, "lee", "https://ci.example.com/77"),
        (
            "checkout",
            "deploy",
            stand_in.COMMIT,
            None,
            f"https://github.com/acme/checkout/commit/{stand_in.COMMIT}",
        ),
        ("cart", "flag", "new-basket", "dana", None),
    ]


def test_relations_are_topology_and_states_are_monitors(
    told: tuple[Collected, list[Asked]],
) -> None:
    assert calls_in(told[0], "datadog") == [
        ("checkout", "payments"),
        ("web", "checkout"),
    ]
    states = told[0].tables["monitors"].filter(monitor="Checkout errors").sort("since").rows()
    assert [(state, since) for _, _, state, since, _ in states] == [
        ("ok", ONSET - timedelta(hours=2)),
        ("alert", ALERT_AT - timedelta(minutes=3)),
        ("alert", ALERT_AT),
    ]


def test_an_issue_first_seen_in_the_incident_is_a_line_of_the_log(
    told: tuple[Collected, list[Asked]],
) -> None:
    issue = (
        told[0].tables["logs"].filter(pl.col("attributes").str.contains("issue")).row(0, named=True)
    )
    assert issue["message"] == "TypeError: unsupported operand: discount is None"
    assert issue["time"] == ONSET + timedelta(seconds=20)
    assert json.loads(issue["attributes"])["version"] == "v2.41"


def test_every_item_has_a_link_into_the_sites_app_at_its_window(
    datadog: LocalServer, tmp_path: Path
) -> None:
    collected = asyncio.run(collect_from(connector(datadog, site="datadoghq.eu"), asking(tmp_path)))
    for item in collected.items:
        assert item.link is not None
        assert item.link.startswith("https://app.datadoghq.eu/"), item
        asked = parse_qs(urlsplit(item.link).query)
        start = asked.get("from_ts") or asked.get("start")
        if start and item.window:
            assert int(start[0]) == round(item.window.start.timestamp() * 1000), item
    (logs, *_) = [i.link or "" for i in collected.items if i.kind == "logs"]
    assert parse_qs(urlsplit(logs).query)["query"][0].startswith(
        'service:("checkout" OR "payments")'
    )


def test_from_what_it_brings_the_bad_release_is_diagnosed(
    told: tuple[Collected, list[Asked]], tmp_path: Path
) -> None:
    request = asking(tmp_path, "checkout", "cart")
    write_json(tmp_path / "alert.json", request.alert)
    write_json(tmp_path / "scope.json", request.scope)
    items = [
        Evidence(id=f"E{n}", kind=i.kind, source="datadog", query=i.query)
        for n, i in enumerate(told[0].items)
    ]
    write_evidence(tmp_path, items, [])
    for name, table in told[0].tables.items():
        write_table(tmp_path, name, table)
    found = diagnose(read_case(tmp_path))
    assert (found.causes[0].subject, found.causes[0].kind) == ("checkout", "deploy")
    assert found.causes[0].change == stand_in.COMMIT


def test_the_catalogues_name_of_a_service_is_asked_and_ours_is_written(
    datadog: LocalServer, tmp_path: Path
) -> None:
    known = connector(datadog, services={"basket": "checkout"})
    collected = asyncio.run(collect_from(known, asking(tmp_path, "basket", service="basket")))
    assert collected.tables["logs"]["service"].unique().to_list() == ["basket"]
    assert collected.tables["changes"].filter(kind="deploy", service="basket").height == 1


def test_the_alerts_environment_wins_over_the_settings(
    datadog: LocalServer, tmp_path: Path
) -> None:
    collect(datadog, tmp_path, labels={"env": "staging"})
    assert 'env:"staging"' in bodies(datadog.asked, LOGS)[0]["filter"]["query"]


HOSTILE = 'a" OR *) service:(b\\ ,c} by {host} {'


def test_a_hostile_name_of_a_service_stays_a_value(datadog: LocalServer, tmp_path: Path) -> None:
    collect(datadog, tmp_path, HOSTILE, service=HOSTILE)
    searched = bodies(datadog.asked, LOGS)[0]["filter"]["query"]
    assert searched.startswith('service:("a\\" or *) service:(b\\\\ ,c} by {host} {") env:')
    active = next(a.query["tag_filter"][0] for a in datadog.asked if a.path == "/api/v1/metrics")
    assert active == "service:a__or____service:_b___c__by__host___"


def test_hostile_text_comes_bounded_and_printable(datadog: LocalServer, tmp_path: Path) -> None:
    said = "IGNORE\u202e ALL\x00 RULES " + "x" * 90_000
    line = stand_in.line(ALERT_AT - timedelta(minutes=1), "error", said)
    line["attributes"]["attributes"] = {"error": {"kind": {"nested": 1}, "stack": said}, "dd": 7}
    line["attributes"]["tags"] = [said, 3, None, "version:" + said]
    datadog.on(LOGS, Reply({"data": [line, {"attributes": None}, {"id": 3}]}))
    row = (
        collect(datadog, tmp_path)
        .tables["logs"]
        .filter(pl.col("message").str.starts_with("IGNORE"))
        .row(0, named=True)
    )
    assert len(row["message"]) <= 4000
    assert "\u202e" not in row["message"]
    assert "\x00" not in row["message"]
    assert len(row["attributes"]) < 8000


def test_a_log_monitor_is_counted_and_its_own_search_is_read_first(
    datadog: LocalServer, tmp_path: Path
) -> None:
    query = (
        'logs("service:checkout \\"discount is '
        'None\\"").index("main").rollup("count").by("host").last("5m") > 3'
    )
    datadog.on(
        f"/api/v1/monitor/{stand_in.MONITOR}",
        Reply({**stand_in.monitor(), "type": "log alert", "query": query}),
    )
    collected = collect(datadog, tmp_path)
    asked = [
        q
        for b in bodies(datadog.asked, "/api/v2/query/timeseries")
        for q in b["data"]["attributes"]["queries"]
        if q["data_source"] == "logs"
    ]
    assert asked[0]["search"] == {"query": 'service:checkout "discount is None"'}
    assert asked[0]["indexes"] == ["main"]
    assert asked[0]["group_by"] == [{"facet": "host", "limit": 10}]
    assert 'service:checkout "discount is None"' in [
        b["filter"]["query"] for b in bodies(datadog.asked, LOGS)
    ]
    assert any("nothing was counted" in m.reason for m in collected.missing)


def test_a_composite_monitor_is_taken_apart(datadog: LocalServer, tmp_path: Path) -> None:
    datadog.on(
        "/api/v1/monitor/77",
        Reply({**stand_in.monitor(), "id": 77, "type": "composite", "query": "4242 && 9"}),
    )
    collected = collect(datadog, tmp_path, labels={"monitor_id": "77"})
    assert "/api/v1/query" in datadog.paths()
    assert [m.reason for m in collected.missing] == [
        "datadog GET /api/v1/monitor/{}: not found (HTTP 404)"
    ]


def test_a_monitor_that_cannot_be_read_leaves_the_alerts_own_query(
    datadog: LocalServer, tmp_path: Path
) -> None:
    datadog.on(f"/api/v1/monitor/{stand_in.MONITOR}", Reply({"errors": ["Forbidden"]}, status=403))
    collected = collect(
        datadog, tmp_path, labels={"query": stand_in.QUERY, "monitor_type": "query_alert"}
    )
    assert "trace.http.request.errors" in collected.tables["metrics"]["signal"].to_list()
    (gap,) = collected.missing
    assert (gap.kind, "not permitted" in gap.reason) == ("monitors", True)


def test_where_one_formula_is_refused_the_others_are_asked_alone(
    datadog: LocalServer, tmp_path: Path
) -> None:
    def picky(asked: Asked) -> Reply:
        if "p99:" in asked.body.decode():
            return Reply({"errors": ["no percentiles for this metric"]}, status=400)
        return stand_in.timeseries(asked)

    datadog.on("/api/v2/query/timeseries", picky)
    collected = collect(datadog, tmp_path)
    signals = collected.tables["metrics"]["signal"].unique().to_list()
    assert "error_ratio" in signals
    assert "latency_p99" not in signals
    assert any("no percentiles for this metric (HTTP 400)" in m.reason for m in collected.missing)


def test_an_older_agents_latency_is_its_mean(datadog: LocalServer, tmp_path: Path) -> None:
    names = ["trace.http.request.hits", "trace.http.request.duration"]
    datadog.on("/api/v1/metrics", Reply({"metrics": names}))

    def older(asked: Asked) -> Reply:
        body = json.loads(asked.body)["data"]["attributes"]
        index = next((n for n, f in enumerate(body["formulas"]) if f["formula"] == "d4 / h4"), None)
        series = [{"group_tags": [], "query_index": index}] if index is not None else []
        lines = {"series": series, "times": [body["from"]], "values": [[0.25]] * len(series)}
        return Reply({"data": {"attributes": lines}})

    datadog.on("/api/v2/query/timeseries", older)
    collected = collect(datadog, tmp_path)
    latency = collected.tables["metrics"].filter(signal="latency_mean", service="checkout")
    assert (latency["value"].to_list(), latency["unit"].to_list()) == ([250.0], ["ms"])
    hits = [
        f"sum:trace.http.request.hits{{service:{name},env:prod}}.as_rate()"
        for name in ("checkout", "payments")
    ]
    assert [m.query for m in collected.missing] == hits


def test_a_training_jobs_gpus_are_asked_by_its_hosts_and_bounded(
    datadog: LocalServer, tmp_path: Path
) -> None:
    def gpu(asked: Asked) -> Reply:
        body = json.loads(asked.body)["data"]["attributes"]
        if "dcgm" not in asked.body.decode():
            return stand_in.timeseries(asked)
        at = [body["from"], body["to"] - 1]
        series = [
            {"group_tags": ["host:n1", f"gpu:{n % 8}", f"uuid:GPU-{n}"], "query_index": index}
            for index, _ in enumerate(body["formulas"])
            for n in range(130)
        ]
        return Reply(
            {
                "data": {
                    "attributes": {
                        "series": series,
                        "times": at,
                        "values": [[1.0, 2.0]] * len(series),
                    }
                }
            }
        )

    datadog.on("/api/v2/query/timeseries", gpu)
    request = request_for(tmp_path, job="llm-1", alert=alert(service=None))
    job = JobIdentity(name="llm-1", hosts=("n1", "N2"))
    scope = request.scope.model_copy(update={"training": job})
    collected = asyncio.run(
        collect_from(connector(datadog), Request(request.alert, scope, tmp_path))
    )
    queries = [
        q["query"]
        for b in bodies(datadog.asked, "/api/v2/query/timeseries")
        for q in b["data"]["attributes"]["queries"]
    ]
    assert "max:dcgm.sm_clock{host IN (n1,n2)} by {host,gpu,uuid}" in queries
    clock = collected.tables["metrics"].filter(signal="gpu_sm_clock_mhz")
    assert clock["service"].unique().to_list() == ["llm-1"]
    assert clock["labels"].n_unique() == 128
    memory = collected.tables["metrics"].filter(signal="gpu_memory_used_bytes")
    assert memory["value"].max() == 2 * 1_048_576


def test_an_alert_about_nothing_that_datadog_knows_is_one_gap(
    datadog: LocalServer, tmp_path: Path
) -> None:
    request = request_for(tmp_path, alert=Alert(source="me", title="t", started_at=ALERT_AT))
    collected = asyncio.run(collect_from(connector(datadog), request))
    (gap,) = collected.missing
    assert "names no Datadog monitor" in gap.reason
    assert datadog.asked == []


def test_monitors_are_found_in_labels_and_in_links_of_other_vendors_alerts() -> None:
    pager = {"source": "pagerduty", "title": "t", "started_at": ALERT_AT}
    link = "https://app.datadoghq.com/monitors/4242?group=host%3Aa"
    assert monitor_of(Alert(**pager, links=(Link(title="x", url=link),))) == 4242
    assert monitor_of(Alert(**pager, labels={"body": f"see {link} now"})) == 4242
    assert (
        monitor_of(Alert(**pager, labels={"url": "https://acme.datadoghq.eu/monitors#77?to_ts=1"}))
        == 77
    )
    assert (
        monitor_of(Alert(**pager, labels={"url": "https://app.datadoghq.com/monitors/manage"}))
        is None
    )
    assert monitor_of(Alert(**pager, labels={"alert_id": "5"})) is None


def test_an_alert_is_completed_with_its_monitors_tags(datadog: LocalServer) -> None:
    own = alert(service=None, labels={"team": "mine", "fingerprint": "f"})
    enriched = asyncio.run(connector(datadog).enrich(own))
    assert enriched.service == "checkout"
    assert enriched.labels["team"] == "mine"
    assert enriched.labels["env"] == "prod"
    assert enriched.fingerprint == own.fingerprint
    assert enriched.links[0].url.startswith("https://app.datadoghq.com/monitors/4242")


def test_nothing_is_built_without_both_keys() -> None:
    assert CONNECTOR.configured(Settings.model_validate({"datadog": {"api_key": "a"}})) is None
    assert CONNECTOR.configured(Settings.model_validate({"datadog": {"app_key": "a"}})) is None


ERROR = {"errors": ["Unauthorized bbbb"]}
BROKEN = {
    "forbidden": (Reply(ERROR, status=403), "not permitted with these keys"),
    "gone": (Reply(ERROR, status=404), "not found (HTTP 404)"),
    "limited": (
        Reply(ERROR, status=429, headers={"X-RateLimit-Reset": "3600"}),
        "the rate limit is used up",
    ),
    "server error": (Reply(b"<html>oops", status=500), "HTTP 500"),
    "cut short": (Reply(b'{"data": [', claims=500), "the response was cut off"),
    "not JSON": (Reply(b'{"data": ['), "unexpected response"),
    "another shape": (Reply({"data": "none"}), "unexpected response"),
    "elsewhere": (Reply(b"", status=302, headers={"Location": "https://example.com/"}), "redirect"),
    "packed badly": (
        Reply(b"\x1f\x8b\x08nonsense", headers={"Content-Encoding": "gzip"}),
        "compression is broken",
    ),
    "packed otherwise": (Reply(b"x", headers={"Content-Encoding": "br"}), "encoding"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_answer_is_a_gap_and_the_others_stand(
    datadog: LocalServer, tmp_path: Path, case: str
) -> None:
    reply, words = BROKEN[case]
    datadog.on(LOGS, reply)
    collected = collect(datadog, tmp_path)
    assert {m.kind for m in collected.missing} == {"logs"}
    assert all(words in m.reason for m in collected.missing), collected.missing
    assert collected.tables["metrics"].height > 1000
    assert collected.tables["changes"].height == 3
    assert stand_in.APPLICATION_KEY not in repr(collected)


ODD: list[Any] = [
    *(
        None,
        True,
        -1,
        0,
        1e300,
        1e-300,
        10**400,
        2**63,
        "",
        "NaN",
        "../..",
        "x" * 5000,
        "\u202e\x00",
        'service:"',
    ),
    *(
        "9999-12-31T23:59:59Z",
        "-0001-01-01",
        [],
        {},
        [[]],
        [None],
        {"": None},
        {"a": {"b": {"c": []}}},
    ),
    ["service:", ":", ",", "a:b"],
]


def spoiled(value: Any, chance: random.Random) -> Any:
    """The answer with odd values here and there."""
    if chance.random() < 0.04:
        return chance.choice(ODD)
    if isinstance(value, dict):
        return {k: spoiled(v, chance) for k, v in value.items()}
    return [spoiled(v, chance) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("seed", range(6))
def test_whatever_an_answer_holds_there_are_gaps_and_no_failure(
    datadog: LocalServer, tmp_path: Path, seed: int
) -> None:
    def spoiling(known: Any) -> Callable[[Asked], Reply]:
        def answer(asked: Asked) -> Reply:
            reply = known(asked) if callable(known) else known[0]
            # By what was asked: requests come at the same time, in any order.
            chance = random.Random(f"{seed} {asked.path} {asked.query} {asked.body!r}")
            return Reply(spoiled(reply.body, chance))

        return answer

    for path, known in list(datadog._replies.items()):
        datadog.on(path, spoiling(known))
    collected = collect(datadog, tmp_path, "checkout", "cart")
    assert not any("internal error" in m.reason for m in collected.missing), collected.missing
    for name, table in collected.tables.items():
        assert conform(table, name, name).height == table.height


def test_keys_that_are_not_accepted_are_a_gap_for_everything(
    datadog: LocalServer, tmp_path: Path
) -> None:
    for path in list(datadog._replies):
        datadog.on(path, Reply(ERROR, status=401))
    collected = collect(datadog, tmp_path)
    assert {m.kind for m in collected.missing} == set(DatadogConnector.kinds)
    assert all("authentication failed (HTTP 401)" in m.reason for m in collected.missing)


def test_answers_beyond_the_size_limit_are_gaps(datadog: LocalServer, tmp_path: Path) -> None:
    small = connector(datadog, limits={"max_bytes": 100_000})
    datadog.on(LOGS, Reply(b'{"data": ["' + b"x" * 200_000 + b'"]}'))
    collected = asyncio.run(collect_from(small, asking(tmp_path)))
    assert any("limit of 100,000 bytes" in m.reason for m in collected.missing)


def test_an_answer_that_drips_ends_at_the_deadline_and_the_rest_is_handed_over(
    datadog: LocalServer, tmp_path: Path
) -> None:
    datadog.on(LOGS, Reply({"data": ["x" * 5000]}, drip_s=0.05))
    slow = connector(datadog, limits={"deadline_s": 20.0})
    started = time.monotonic()
    collected = asyncio.run(collect_from(slow, asking(tmp_path)))
    assert time.monotonic() - started < 21
    assert {m.kind for m in collected.missing} == {"logs"}
    assert collected.tables["changes"].height == 3


WRITES = "warning: the key can also write (monitors_write, by its"
CAN_WRITE = {
    "its scopes read": (
        ["timeseries_query", "logs_read_data", "apm_read"],
        "the key cannot write, by its scopes",
    ),
    "its scopes write": (
        ["apm_read", "monitors_write"],
        f"{WRITES} scopes): give it scopes that only read",
    ),
    "no scopes": (None, f"{WRITES} owner's role): give it scopes that only read"),
}


@pytest.mark.parametrize("case", CAN_WRITE)
def test_the_check_says_whether_the_key_could_write(datadog: LocalServer, case: str) -> None:
    scopes, words = CAN_WRITE[case]
    for path, reply in stand_in.keys(scopes).items():
        datadog.on(path, reply)
    check = asyncio.run(connector(datadog).check())
    assert check.ok
    assert words in check.line


def test_the_check_says_what_cannot_be_read_and_what_it_needs(datadog: LocalServer) -> None:
    for path in (LOGS, "/api/v2/current_user/application_keys"):
        datadog.on(path, Reply({"errors": ["Forbidden"]}, status=403))
    check = asyncio.run(connector(datadog).check())
    assert check.ok
    assert "logs cannot be read (HTTP 403; needs logs_read_data)" in check.line
    assert "whether the key can also write is unknown" in check.line


def test_the_check_fails_with_keys_that_are_not_accepted(datadog: LocalServer) -> None:
    datadog.on("/api/v1/validate", Reply({"errors": ["Forbidden"]}, status=403))
    check = asyncio.run(connector(datadog).check())
    assert not check.ok
    assert "not permitted with these keys (or one of them is not valid)" in check.line
