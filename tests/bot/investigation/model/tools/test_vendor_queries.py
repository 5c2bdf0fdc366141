"""Queries of a model's own in the languages of Datadog, AWS and Azure, through the connectors."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.bot.investigation.model.tools.overview import DATA
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.vendors.aws import CONNECTOR as AWS
from faultline.connectors.vendors.azure import CONNECTOR as AZURE
from faultline.connectors.vendors.datadog.connector import DatadogConnector
from tests.bot.investigation.model.tools.conftest import Desk
from tests.bot.investigation.model.tools.test_bounded_query import desk_with
from tests.connectors.conftest import ALERT_AT, server
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import aws as aws_stand_in
from tests.connectors.stand_ins import azure_monitor as azure_stand_in
from tests.connectors.stand_ins import datadog as datadog_stand_in

__all__ = ["server"]

GROUP = "/ecs/checkout"
HITS = "sum:trace.http.request.hits{service:checkout}.as_rate()"


def details_of(desk: Desk, row: str) -> ObservationDetails:
    details = desk.cited(row).details
    assert isinstance(details, ObservationDetails)
    return details


def bodies(server: LocalServer, path: str) -> list[dict[str, Any]]:
    return [json.loads(one.body) for one in server.asked if one.path == path]


@pytest.fixture
def datadog(server: LocalServer, tmp_path: Path) -> Desk:
    datadog_stand_in.serve(server)
    keys = ("a" * 32, datadog_stand_in.APPLICATION_KEY)
    return desk_with(tmp_path, [DatadogConnector(*keys, api_url=server.url)])


def test_datadogs_metrics_come_as_series_with_as_many_points_as_asked(
    datadog: Desk, server: LocalServer
) -> None:
    rows = datadog.rows("query", connector="datadog", query=f"{HITS} * 60", service="checkout")
    finding = datadog.cited(rows[1])
    details = details_of(datadog, rows[1])
    assert (finding.subject, details.expression) == ("checkout", f"{HITS} * 60")
    assert 1 < len(details.points) <= 61
    (item,) = [e for e in datadog.bench.case.evidence if e.id in finding.evidence]
    assert (item.source, item.query) == ("datadog", f"{HITS} * 60")
    assert "/metric/explorer?" in (item.link or "")
    asked = bodies(server, "/api/v2/query/timeseries")[0]["data"]["attributes"]
    assert asked["formulas"] == [{"formula": "query1 * 60"}]
    assert [one["query"] for one in asked["queries"]] == [HITS]
    assert asked["to"] - asked["from"] <= 60 * asked["interval"]


def test_datadogs_logs_are_searched_and_quoted(datadog: Desk, server: LocalServer) -> None:
    text = "service:checkout @order.id:>7000"
    start = (ALERT_AT - timedelta(hours=2)).isoformat()
    rows = datadog.rows("query", connector="datadog", query=text, start=start)
    details = details_of(datadog, rows[1])
    assert (details.about, details.expression) == ("log_line", text)
    assert details.quote
    (body,) = bodies(server, "/api/v2/logs/events/search")
    assert (body["filter"]["query"], body["page"]["limit"]) == (text, 40)
    assert rows[-1] == "cut: the first 40 lines"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("*", "name something"),
        ("-service:checkout", "name something"),
        ("NOT service:checkout", "name something"),
        ('service:"checkout', "does not end"),
        ("avg:system.load.1{*} by {host}", "with 'by'"),
        ("avg:system.load.1{!env:prod} by {host}", "with 'by'"),
        ("avg:system.load.1{host:a}.forecast(linear)", "forecast() is not taken"),
        ("forecast(avg:system.load.1{host:a}, 'linear', 1)", "forecast() is not taken"),
        ("timeshift(avg:system.load.1{host:a}, -9999999)", "timeshift() is not taken"),
        ("avg:system.load.1{host:a}.rollup(avg, 1)", "takes no seconds"),
        ("{host:a}", "made of metrics"),
        ("a\x00", "control characters"),
        ("service:a " * 150, "1000"),
    ],
)
def test_a_query_of_datadog_without_bounds_is_not_sent(
    datadog: Desk, server: LocalServer, text: str, why: str
) -> None:
    assert why in datadog.error("query", connector="datadog", query=text)
    assert server.asked == []


def test_what_datadog_says_of_a_query_is_told(datadog: Desk, server: LocalServer) -> None:
    wrong = Reply({"errors": ["Rule 'scope_expr' didn't match at 'x' (line 1)"]}, status=400)
    server.on("/api/v2/query/timeseries", wrong)
    error = datadog.error("query", connector="datadog", query=HITS)
    assert error.count("Rule") == 1
    assert "the request was not accepted: Rule 'scope_expr' didn't match" in error
    assert datadog.bench.asks == []


class Insights:
    """Logs Insights with one answer for every query."""

    def __init__(self, server: LocalServer) -> None:
        self.cloud = aws_stand_in.AwsStandIn(ALERT_AT)
        self.cloud.serve(server)

    def answers(
        self, *rows: dict[str, str], status: str = "Complete", scanned: float = 5e6
    ) -> None:
        results = [[{"field": k, "value": v} for k, v in row.items()] for row in rows]
        numbers = {"bytesScanned": scanned, "recordsMatched": float(len(rows))}
        answer = {"status": status, "results": results, "statistics": numbers}
        self.cloud.replies["GetQueryResults"] = lambda _: answer

    def asked(self, operation: str) -> list[dict[str, Any]]:
        return [dict(params) for name, params in self.cloud.asked if name == operation]


@pytest.fixture
def insights(server: LocalServer, monkeypatch: pytest.MonkeyPatch) -> Insights:
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")
    return Insights(server)


def aws(server: LocalServer, **own: Any) -> Connector:
    tables = aws_stand_in.settings(server.url)
    tables["services"]["checkout"]["aws"] = {"log_groups": [GROUP, "/not/there"]}
    tables["aws"] |= own
    built = AWS.configured(Settings.model_validate(tables))
    assert built is not None
    return built


def test_logs_insights_is_asked_about_the_groups_of_the_service(
    insights: Insights, server: LocalServer, tmp_path: Path
) -> None:
    at = f"{ALERT_AT - timedelta(minutes=5):%Y-%m-%d %H:%M:%S}.000"
    secret = "could not sign in with AKIAIOSFODNN7EXAMPLQ"
    insights.answers({"@timestamp": at, "@message": secret, "@ptr": "x"})
    desk = desk_with(tmp_path, [aws(server)])
    text = "fields @timestamp, @message | filter @message like /sign in/"
    rows = desk.rows("query", connector="aws", query=text, service="checkout")
    details = details_of(desk, rows[1])
    assert details.quote == "could not sign in with [AWS_KEY]"
    assert (details.about, desk.cited(rows[1]).subject) == ("log_line", "checkout")
    assert "no log group of that name" in rows[-1]
    (asked,) = insights.asked("StartQuery")
    assert asked["logGroupNames"] == [GROUP]
    assert asked["queryString"] == f"{text}\n| limit 40"
    assert asked["endTime"] - asked["startTime"] <= 6 * 3600
    (item,) = [e for e in desk.bench.case.evidence if e.id in desk.cited(rows[1]).evidence]
    assert "logs-insights" in (item.link or "")


def test_statistics_of_logs_insights_are_series(
    insights: Insights, server: LocalServer, tmp_path: Path
) -> None:
    times = [f"{ALERT_AT - timedelta(minutes=m):%Y-%m-%d %H:%M:%S}.000" for m in (10, 5)]
    points = [
        {"bin(5m)": at, "status": "503", "n": n} for at, n in zip(times, ("3", "40"), strict=True)
    ]
    insights.answers(*points)
    desk = desk_with(tmp_path, [aws(server)])
    text = "stats count(*) as n by bin(5m), status"
    (_, row, *_) = desk.rows("query", connector="aws", query=text, service="checkout")
    finding = desk.cited(row)
    assert (finding.numbers["first"], finding.numbers["last"]) == (3, 40)
    assert details_of(desk, row).labels == {"status": "503"}


def test_a_query_of_logs_insights_that_costs_too_much_is_stopped(
    insights: Insights, server: LocalServer, tmp_path: Path
) -> None:
    insights.answers(status="Running", scanned=3e9)
    desk = desk_with(tmp_path, [aws(server, logs_max_scanned_gb=2)])
    error = desk.error("query", connector="aws", query="fields @message", service="checkout")
    assert "2 GB (aws.logs_max_scanned_gb)" in error
    assert insights.asked("StopQuery")


def test_what_aws_says_of_a_query_is_told(
    insights: Insights, server: LocalServer, tmp_path: Path
) -> None:
    wrong = {"__type": "MalformedQueryException", "message": "unexpected symbol found ("}
    insights.cloud.replies["StartQuery"] = lambda _: Reply(wrong, status=400)
    desk = desk_with(tmp_path, [aws(server)])
    error = desk.error("query", connector="aws", query="fields @message", service="checkout")
    assert "MalformedQueryException: unexpected symbol found (" in error


def test_only_services_with_log_groups_are_asked(
    insights: Insights, server: LocalServer, tmp_path: Path
) -> None:
    desk = desk_with(tmp_path, [aws(server)])
    error = desk.error("query", connector="aws", query="fields @message")
    assert "must be one that the catalogue gives log groups; there are checkout" in error
    assert insights.asked("StartQuery") == []
    settings = aws_stand_in.settings(server.url) | {"services": {}}
    without = AWS.configured(Settings.model_validate(settings))
    assert without is not None
    assert "query" not in Desk(desk.folder, tmp_path / "other", [without]).offered


@pytest.fixture
def azure(server: LocalServer, tmp_path: Path) -> Desk:
    azure_stand_in.serve(server)
    settings = Settings.model_validate(azure_stand_in.settings(server.url))
    built = AZURE.configured(settings)
    assert built is not None
    return desk_with(tmp_path, [built])


def test_kql_is_asked_in_its_time_and_its_rows_are_our_services(
    azure: Desk, server: LocalServer
) -> None:
    at = (ALERT_AT - timedelta(minutes=5)).isoformat()
    columns = ["TimeGenerated", "AppRoleName", "ResultCode", "count_"]
    answer = azure_stand_in.result(columns, [[at, "payments-prod", "500", 12]])
    server.on(azure_stand_in.QUERY_PATH, answer)
    text = "AppRequests | summarize count() by bin(TimeGenerated, 5m), AppRoleName, ResultCode"
    rows = azure.rows("query", connector="azure_monitor", query=text)
    finding = azure.cited(rows[1])
    assert (finding.subject, finding.numbers["last"]) == ("payments", 12)
    (asked,) = [one for one in server.asked if one.path == azure_stand_in.QUERY_PATH]
    assert asked.query["query"] == [f"{text}\n| take 2400"]
    start, _, end = asked.query["timespan"][0].partition("/")
    assert start < end <= "2026-03-02T13"
    (item,) = [e for e in azure.bench.case.evidence if e.id in finding.evidence]
    assert "LogsBlade" in (item.link or "")


def test_a_row_that_is_no_line_of_a_log_is_not_said_to_be_logged(
    azure: Desk, server: LocalServer
) -> None:
    at = (ALERT_AT - timedelta(minutes=5)).isoformat()
    columns = ["TimeGenerated", "AppRoleName", "Name", "Success"]
    answer = azure_stand_in.result(columns, [[at, "payments-prod", "GET /", False]])
    server.on(azure_stand_in.QUERY_PATH, answer)
    rows = azure.rows("query", connector="azure_monitor", query="AppRequests | take 1")
    details = details_of(azure, rows[1])
    assert details.about == "query_row"
    assert details.quote == "AppRoleName=payments-prod, Name=GET /, Success=false"
    assert "payments had at" in azure.cited(rows[1]).sentence


def test_what_azure_says_of_a_query_is_told(azure: Desk, server: LocalServer) -> None:
    inner = {"code": "SEM0100", "message": "'where' operator: Failed to resolve column 'Nme'"}
    error = {"code": "BadArgumentError", "message": "The request had some invalid properties"}
    wrong = Reply({"error": {**error, "innererror": inner}}, status=400)
    server.on(azure_stand_in.QUERY_PATH, lambda _: wrong)
    said = azure.error("query", connector="azure_monitor", query="AppTraces | where Nme > 1")
    assert "SEM0100: 'where' operator: Failed to resolve column 'Nme'" in said


def test_tables_that_are_not_read_are_not_asked(azure: Desk, server: LocalServer) -> None:
    for text in ("SigninLogs | take 5", ".show tables", "AppTraces | union SigninLogs"):
        assert "the KQL is refused" in azure.error("query", connector="azure_monitor", query=text)
    assert [one for one in server.asked if "query" in one.query] == []


def test_an_operator_may_turn_queries_off(azure: Desk) -> None:
    assert "query" in azure.offered
    assert "'query' may ask" in " ".join(azure.rows(DATA.name))
    off = Desk(azure.folder, azure.bench.work.parent / "off", azure.bench.connectors, queries=False)
    assert "query" not in off.offered
    assert "collect" in off.offered
    assert "'query' may ask" not in " ".join(off.rows(DATA.name))
    assert "no such tool" in off.error("query", connector="azure_monitor", query="AppTraces")
