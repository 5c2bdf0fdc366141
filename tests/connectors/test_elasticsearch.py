"""The connector of Elasticsearch and OpenSearch over real HTTP: what it asks, how it cuts, and how
it handles refusals, partial answers and hostile documents."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES
from faultline.connectors.vendors.elasticsearch import CONNECTOR
from faultline.connectors.vendors.elasticsearch.answers import Hit, line_rows
from faultline.connectors.vendors.elasticsearch.connector import (
    ERRORS,
    ElasticsearchConnector,
)
from faultline.connectors.vendors.elasticsearch.fields import (
    FieldNames,
    FieldsAnswer,
    FieldType,
    LogFields,
)
from faultline.connectors.vendors.elasticsearch.session import SearchHttp
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import elasticsearch as stand_in


def connector(server: LocalServer, **own: Any) -> ElasticsearchConnector:
    """As the settings build it, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["elasticsearch"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert built is not None
    return built


def searches(server: LocalServer) -> list[dict[str, Any]]:
    """The bodies that were sent."""
    return [json.loads(a.body) for a in server.asked if a.path == stand_in.SEARCH]


def test_errors_a_sample_and_counts_of_both_windows(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    logs = conform(found.tables["logs"], "logs", "logs")
    errors = logs.filter(pl.col("level") == "error")
    assert errors.height == 60
    assert errors["time"].min() >= ONSET  # type: ignore[operator]
    assert errors["trace_id"].unique().to_list() == [stand_in.TRACE_ID]
    assert json.loads(errors["attributes"][0])["host.name"] == "node-7"
    assert logs.filter(pl.col("level") == "info", pl.col("time") < ONSET).height > 300
    metrics = conform(found.tables["metrics"], "metrics", "metrics")
    per_minute = metrics.filter(pl.col("signal") == ERROR_LINES).sort("time")
    assert per_minute.height == 150
    assert per_minute.filter(pl.col("time") < ONSET)["value"].sum() == 0
    assert per_minute.filter(pl.col("time") > ONSET)["value"].median() == 6
    assert metrics.filter(pl.col("signal") == LINES)["value"].median() == 6


def test_the_new_errors_are_found(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    assert any("could not reserve stock" in str(one.details) for one in findings)


def test_every_item_links_to_discover_at_its_query_and_window(
    server: LocalServer, tmp_path: Path
) -> None:
    for item in collected(tmp_path, connector(server, data_view="logs-*")).items:
        assert item.link is not None
        assert item.window is not None
        assert item.link.startswith("https://kibana.example.com/s/ops/app/discover#/?_g=")
        said = unquote(item.link)
        assert item.query.removeprefix("count of ") in said
        assert "index:'logs-*'" in said
        assert f"from:'{item.window.start:%Y-%m-%dT%H:%M:%S}" in said


def test_the_ways_to_log_in(
    server: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collected(tmp_path, connector(server))
    assert server.asked[-1].headers["Authorization"] == "ApiKey es-key"
    collected(tmp_path, connector(server, api_key=None, username="bot", token="t"))
    assert server.asked[-1].headers["Authorization"] == "Basic Ym90OnQ="
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    signed = {"api_key": None, "cloud": "aws", "aws_region": "eu-west-1"}
    collected(tmp_path, connector(server, **signed))
    assert "/eu-west-1/es/aws4_request" in server.asked[-1].headers["Authorization"]
    collected(tmp_path, connector(server, **signed, aws_service="aoss"))
    sent = server.asked[-1].headers
    assert "/eu-west-1/aoss/aws4_request" in sent["Authorization"]
    assert len(sent["X-Amz-Content-Sha256"]) == 64
    with pytest.raises(pydantic.ValidationError, match="api_key and another way"):
        connector(server, token="t")


def test_where_a_window_holds_more_lines_the_rest_is_asked_in_thirds(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)

    def many(asked: Asked) -> Reply:
        body = json.loads(asked.body)
        usual = json.loads(stand_in.answer(asked).bytes)
        if body["size"]:
            first = body["query"]["bool"]["filter"][0]["range"]["@timestamp"]["gte"]
            usual["hits"]["hits"] = [
                {"_source": {"message": f"line {n}"}, "sort": [(first + n) * 1_000_000]}
                for n in range(body["size"])
            ]
        return Reply(usual)

    server.on(stand_in.SEARCH, many)
    found = collected(tmp_path, built)
    cut = (
        f"the first {ERRORS} lines of the window, and the first "
        f"{ERRORS // 3} of each third of the rest"
    )
    assert [i.cut for i in found.items if i.kind == "logs" and (i.rows or 0) > 1000] == [cut, cut]
    assert [one["size"] for one in searches(server)].count(ERRORS // 3) == 6


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ({"timed_out": True}, "the search ran into its time limit"),
        ({"_shards": {"total": 5, "successful": 3, "failed": 2}}, "2 of 5 shards did not answer"),
    ],
)
def test_a_partial_answer_is_a_gap_and_its_counts_are_not_used(
    server: LocalServer, tmp_path: Path, part: dict[str, Any], reason: str
) -> None:
    built = connector(server)
    server.on(stand_in.SEARCH, lambda asked: Reply(json.loads(stand_in.answer(asked).bytes) | part))
    found = collected(tmp_path, built)
    assert {one.reason for one in found.missing} == {reason}
    assert found.tables["logs"].height
    assert "metrics" not in found.tables


@pytest.mark.parametrize(
    ("status", "reason"),
    [(401, "authentication failed"), (403, "not permitted"), (429, "rate limit"), (503, "not")],
)
def test_a_refusal_is_a_gap(server: LocalServer, tmp_path: Path, status: int, reason: str) -> None:
    built = connector(server, deadline_s=2)
    refusal = {"error": {"type": "security_exception", "reason": "secret words"}, "status": status}
    server.on(stand_in.SEARCH, Reply(refusal, status=status))
    found = collected(tmp_path, built)
    assert found.items == ()
    assert any(reason in one.reason for one in found.missing)
    assert not any("secret words" in one.reason for one in found.missing)


def test_a_service_that_no_line_names_is_a_gap(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "payments"))
    assert [(one.query, one.unknown) for one in found.missing] == [("payments", True)]


def test_only_lines_of_the_alerts_place_are_read(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    alert = Alert(
        source="test",
        title="t",
        started_at=ALERT_AT,
        service="checkout",
        labels={"cluster": "prod-eu"},
    )
    for item in collected(tmp_path, built, alert=alert).items:
        assert 'orchestrator.cluster.name:"prod-eu"' in item.query
    elsewhere = alert.model_copy(update={"labels": {"cluster": "prod-us"}})
    for item in collected(tmp_path, built, alert=elsewhere).items:
        assert "orchestrator" not in item.query


def test_fields_of_opentelemetry_and_of_exact_parts_are_found() -> None:
    exact = {"keyword": FieldType(aggregatable=True)}
    text = {"text": FieldType()}
    answer = FieldsAnswer(
        {
            "time": {"date_nanos": FieldType(aggregatable=True)},
            "resource.attributes.service.name": exact,
            "severity_text": text,
            "severity_text.keyword": exact,
            "body.text": text,
            "resource.attributes.k8s.cluster.name": exact,
        }
    )
    fields = LogFields.of(answer, FieldNames())
    assert fields == LogFields(
        "time",
        ("resource.attributes.service.name",),
        "severity_text.keyword",
        ("body.text",),
        {"cluster": "resource.attributes.k8s.cluster.name"},
    )
    at = round(ONSET.timestamp()) * 10**9 + 123
    source = {"body": {"text": "no stock"}, "severity_text": "ERROR", "trace_id": "ab" * 16}
    rows, dropped = line_rows([Hit([at], source), Hit([], source), Hit([at], {})], "cart", fields)
    assert rows == [(at, "cart", "no stock", "error", "ab" * 16, None)]
    assert dropped == 2


def test_without_levels_errors_are_lines_with_words_and_are_not_counted(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    caps = stand_in.field_caps()
    del caps["fields"]["log.level"]
    server.on(stand_in.FIELDS, Reply(caps))
    found = collected(tmp_path, built)
    assert found.tables["metrics"]["signal"].unique().to_list() == [LINES]
    assert any("match" in json.dumps(body) for body in searches(server))


def test_deep_and_hostile_documents_are_rows_or_left_out() -> None:
    deep: dict[str, Any] = {}
    inner = deep
    for _ in range(200):
        inner["a"] = {}
        inner = inner["a"]
    inner["message"] = "too deep"
    fields = LogFields("@timestamp", ("service.name",), "log.level", ("message",), {})
    at = round(ONSET.timestamp()) * 10**9
    wide = {"message": "x" * 100_000, **{f"f{n}": n for n in range(5000)}}
    rows, dropped = line_rows([Hit([at], deep), Hit([at], wide), Hit(["soon"], wide)], "s", fields)
    assert dropped == 2
    assert len(rows[0][2]) == 8000


def test_check_names_the_product_and_the_fields(server: LocalServer) -> None:
    said = asyncio.run(connector(server).check())
    assert said.ok
    assert "Elasticsearch 9.1.4 (cluster logs-prod)" in said.line
    assert "2 indices" in said.line
    assert "services in service.name, level in log.level, text in message" in said.line


def test_check_without_the_cluster_privilege_still_reads(server: LocalServer) -> None:
    built = connector(server)
    server.on("/", Reply({"error": {"type": "security_exception"}}, status=403))
    said = asyncio.run(built.check())
    assert said.ok
    assert "does not tell its version" in said.line
    version = {"number": "3.1.0", "distribution": "opensearch"}
    server.on("/", Reply({"cluster_name": "os", "version": version}))
    assert "OpenSearch 3.1.0" in asyncio.run(built.check()).line


def test_check_says_what_is_missing_in_one_line(server: LocalServer) -> None:
    built = connector(server)
    server.on(stand_in.FIELDS, Reply({"indices": [], "fields": {}}))
    said = asyncio.run(built.check())
    assert not said.ok
    assert "see elasticsearch.indices" in said.line
    server.on(stand_in.FIELDS, Reply({"error": "x"}, status=403))
    said = asyncio.run(built.check())
    assert not said.ok
    assert "not permitted" in said.line


@pytest.mark.parametrize("index", ["_all", "logs/_delete_by_query?x", "a b", ""])
def test_indices_cannot_be_other_parts_of_an_address(server: LocalServer, index: str) -> None:
    with pytest.raises(pydantic.ValidationError):
        connector(server, indices=[index])


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/logs-*/_delete_by_query", {"query": {}}),
        ("POST", "/other/_search", {"query": {}}),
        ("POST", "/logs-*/_search", {"query": {}, "script_fields": {}}),
        ("PUT", "/logs-*/_search", {"query": {}}),
    ],
)
def test_nothing_but_our_searches_can_be_sent(
    server: LocalServer, method: str, path: str, body: dict[str, Any]
) -> None:
    async def send() -> None:
        http = SearchHttp("elasticsearch", server.url, limits=CONNECTOR_LIMITS)
        async with http.open() as session:
            await session._client.request(method, server.url + path, json=body)

    with pytest.raises(ConnectorError, match="searches only"):
        asyncio.run(send())
    assert server.asked == []


CONNECTOR_LIMITS = ElasticsearchConnector("http://127.0.0.1:1").limits
