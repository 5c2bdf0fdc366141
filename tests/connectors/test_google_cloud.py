"""The Google Cloud connector against a local server that answers in the shapes of the discovery
documents."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl
import pydantic
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert, Link, Window
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.settings import Settings
from faultline.connectors.shared.auth.google_token import GoogleToken
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.vendors.google_cloud import CONNECTOR, errors, logs, metrics, traces
from faultline.connectors.vendors.google_cloud.collecting import MOST_PAGES, MOST_TRACED
from faultline.connectors.vendors.google_cloud.connector import LIMITS, NEEDS, GoogleCloudConnector
from faultline.connectors.vendors.google_cloud.session import ENTRIES, GoogleApi
from tests.connectors.collected_cases import collected, diagnosed
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import google_cloud as stand_in

NAMES = ServiceNames()
MINUTE = timedelta(minutes=1)


def connector(server: LocalServer, **own: Any) -> GoogleCloudConnector:
    """As the settings build it, at the time of the alert, before the stand-in."""
    stand_in.serve(server)
    values = stand_in.settings(server.url)
    values["google_cloud"] |= own
    built = CONNECTOR.configured(Settings.model_validate(values))
    assert isinstance(built, GoogleCloudConnector)
    built._project = replace(built._project, now=lambda: ALERT_AT)
    return built


def reasons(found: Any) -> str:
    """All gaps in one text."""
    return " | ".join(f"{one.kind}: {one.reason}" for one in found.missing)


def test_golden_signals_say_what_failed_and_where(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert found.missing == ()
    table = conform(found.tables["metrics"], "metrics", "metrics")
    assert table["service"].unique().to_list() == ["checkout"]
    late = table.filter(pl.col("time") >= ONSET)

    def median(signal: str, of: pl.DataFrame) -> Any:
        return of.filter(pl.col("signal") == signal)["value"].median()

    early = table.filter(pl.col("time") < ONSET)
    assert (median("request_rate", early), median("request_rate", late)) == (20, 20)
    assert (median("error_ratio", early), median("error_ratio", late)) == (0, 0.4)
    assert median("latency_p99", late) > 2000 > median("latency_p99", early)
    requests = table.filter(pl.col("signal") == "request_rate")
    assert json.loads(requests["labels"][0]) == {"region": "europe-west1"}
    assert (median(ERROR_LINES, early), median(ERROR_LINES, late)) == (0, 6)
    assert median(LINES, late) == 6
    assert median("error_rate", late) == 12


def test_log_lines_and_error_groups_are_lines(server: LocalServer, tmp_path: Path) -> None:
    table = conform(collected(tmp_path, connector(server)).tables["logs"], "logs", "logs")
    failing = table.filter(pl.col("level") == "error")
    assert failing["time"].min() >= ONSET  # type: ignore[operator]
    assert stand_in.TRACE_ID in failing["trace_id"].to_list()
    said = [json.loads(text) for text in failing["attributes"].to_list() if text]
    assert any(one.get("revision") == "checkout-00042-abc" for one in said)
    (group,) = (one for one in said if "error_group" in one)
    assert group["affected_users"] == "31"
    assert group["url"] == "https://console.cloud.google.com/errors/CNSgkp"


def test_spans_are_whole_traces_whose_failures_are_errors(
    server: LocalServer, tmp_path: Path
) -> None:
    table = conform(collected(tmp_path, connector(server)).tables["spans"], "spans", "spans")
    roots = table.filter(pl.col("parent_id").is_null())
    assert roots["span_id"].unique().to_list() == [f"{14830837120927262273:016x}"]
    assert set(roots.filter(pl.col("start") >= ONSET)["status"]) == {"error"}
    assert set(roots.filter(pl.col("start") < ONSET)["status"]) == {"ok"}
    assert table.filter(pl.col("parent_id") == roots["span_id"][0]).height == roots.height


def test_changes_are_deploys_of_the_audit_log_and_operations(
    server: LocalServer, tmp_path: Path
) -> None:
    table = conform(collected(tmp_path, connector(server)).tables["changes"], "changes", "changes")
    rows = {row["id"]: row for row in table.iter_rows(named=True)}
    deploy = rows["checkout-00042-abc europe-west1"]
    assert deploy["kind"] == "deploy"
    assert deploy["service"] == "checkout"
    assert deploy["author"] == "ada@example.com"
    said = "image checkout:v41 -> checkout:v42, env PSP_TOKEN changed"
    assert deploy["title"] == f"Cloud Run revision checkout-00042-abc in europe-west1: {said}"
    assert "9k2x1" not in rows, "the audit log tells of the same deploy"
    assert "hunter" not in str(rows)
    assert rows["8f3d"]["title"] == "Cloud SQL failover of checkout"
    assert rows["operation-1"]["title"] == "GKE auto upgrade nodes of main"
    assert rows["operation-1"]["service"] is None
    assert "8f3e" not in rows, "a backup is no change"


def test_of_a_deploy_without_a_revision_the_audit_log_tells(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    for answer in (Reply({}), refusal(403, "SERVICE_DISABLED")):
        server.on(stand_in.REVISIONS, answer)
        found = collected(tmp_path, built)
        assert found.missing == ()
        table = conform(found.tables["changes"], "changes", "changes")
        (deploy,) = table.filter(id="9k2x1").iter_rows(named=True)
        said = f"Services.ReplaceService on checkout: image {stand_in.IMAGE}"
        assert (deploy["author"], deploy["title"]) == ("ada@example.com", said)


def test_a_revision_says_what_differs_and_why_it_is_not_ready(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    failed = [{"type": "Ready", "state": "CONDITION_FAILED", "message": "did not listen on 8080"}]
    new, old = stand_in.revisions()
    new |= {"timeout": "10s", "conditions": failed, "scaling": None}
    new["containers"] = [{**old["containers"][0], "resources": {"limits": {"memory": "128Mi"}}}]
    server.on(stand_in.REVISIONS, Reply({"revisions": [new, old], "nextPageToken": "x"}))
    found = collected(tmp_path, built)
    (row,) = (
        one
        for one in found.tables["changes"].iter_rows(named=True)
        if one["id"].startswith("checkout-00042")
    )
    assert "memory 512Mi -> 128Mi" in row["title"]
    assert "timeout 300s -> 10s" in row["title"]
    assert row["title"].endswith("; not ready: did not listen on 8080")
    assert "-maxInstances: 20" in row["diff"]
    assert "the latest 50; there are more" in {one.cut for one in found.items}


def test_without_a_series_or_line_of_cloud_run_no_revisions_are_asked_for(
    server: LocalServer, tmp_path: Path
) -> None:
    alert = Alert(source="test", title="x", started_at=ALERT_AT, service="payments")
    collected(tmp_path, connector(server), services=("payments",), alert=alert)
    assert not any(path.endswith("/revisions") for path in server.paths())


def test_the_deploy_is_found_near_the_onset(server: LocalServer, tmp_path: Path) -> None:
    findings = diagnosed(tmp_path, connector(server)).findings
    near = [one for one in findings if one.kind == "change_near"]
    assert any("checkout-00042" in str(one.series) and one.subject == "checkout" for one in near)


def test_every_item_links_to_the_console_at_its_query(server: LocalServer, tmp_path: Path) -> None:
    found = collected(tmp_path, connector(server))
    assert {one.kind for one in found.items} == set(GoogleCloudConnector.kinds)
    for item in found.items:
        assert item.link is not None
        assert item.link.startswith("https://console.cloud.google.com/")
        assert "project=shop-prod" in item.link
        if item.kind == "logs" and item.query.startswith("("):
            assert item.query in unquote(item.link)


def test_only_reading_calls_are_sent_with_the_accounts_token(
    server: LocalServer, tmp_path: Path
) -> None:
    collected(tmp_path, connector(server))
    for asked in server.asked:
        assert asked.method == "GET" or asked.path == ENTRIES
        if asked.path != stand_in.GOOGLE_TOKEN:
            assert asked.headers["Authorization"] == "Bearer of-google"
    assert len([one for one in server.asked if one.path == ENTRIES]) <= 8


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v2/entries:write", {"entries": []}),
        ("POST", ENTRIES, {"filter": "", "dryRun": True}),
        ("DELETE", "/v3/projects/shop-prod/timeSeries", None),
        ("GET", "/computeMetadata/v1/project/attributes/ssh-keys", None),
    ],
)
def test_nothing_else_can_be_sent(server: LocalServer, method: str, path: str, body: Any) -> None:
    server.on(stand_in.GOOGLE_TOKEN, Reply({"access_token": "t", "expires_in": 3599}))

    async def send() -> None:
        api = GoogleApi("logging", server.url, GoogleToken("google_cloud", server.url), LIMITS)
        budget = ByteBudget("test", 1000)
        async with api.open(Deadline.within(LIMITS), budget) as session:
            await session._client.request(method, server.url + path, json=body)

    with pytest.raises(ConnectorError, match="reading calls only"):
        asyncio.run(send())
    assert path not in server.paths()


def refusal(status: int, reason: str, message: str = "") -> Reply:
    """As google.aip.dev/193 has it."""
    detail = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason}
    error = {"code": status, "message": message, "status": "X", "details": [detail]}
    return Reply({"error": error}, status=status)


def test_a_refused_api_is_a_gap_with_its_reason(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    server.on(stand_in.TRACES, refusal(403, "IAM_PERMISSION_DENIED", "secret words"))
    server.on(stand_in.SERIES, refusal(400, "", "unknown metric"))
    found = collected(tmp_path, built)
    assert "spans: google_cloud /v1/projects/shop-prod/traces: not permitted" in reasons(found)
    assert "IAM_PERMISSION_DENIED" in reasons(found)
    assert "unknown metric" in reasons(found)
    assert "secret words" not in reasons(found)
    assert found.tables["logs"].height


def test_an_api_that_the_project_does_not_use_is_no_gap(
    server: LocalServer, tmp_path: Path
) -> None:
    built = connector(server)
    for path in (stand_in.CLUSTERS, stand_in.DATABASES):
        server.on(path, refusal(403, "SERVICE_DISABLED"))
    assert collected(tmp_path, built).missing == ()
    said = asyncio.run(built.check())
    assert said.ok
    assert "not enabled in the project: container, sqladmin" in said.line


def test_bad_answers_are_gaps(server: LocalServer, tmp_path: Path) -> None:
    built = connector(server)
    for path in (ENTRIES, stand_in.SERIES, stand_in.TRACES, stand_in.GROUPS):
        server.on(path, Reply(b"<html>"))
    found = collected(tmp_path, built)
    assert {one.kind for one in found.missing} == set(GoogleCloudConnector.kinds)
    assert "unexpected response" in reasons(found)


def test_a_service_that_the_project_does_not_know_is_named(
    server: LocalServer, tmp_path: Path
) -> None:
    found = collected(tmp_path, connector(server), services=("checkout", "payments"))
    assert [(one.query, one.unknown) for one in found.missing] == [("payments", True)]


def test_names_are_literals_of_the_filter(server: LocalServer, tmp_path: Path) -> None:
    collected(tmp_path, connector(server), services=('x") OR ("', "checkout"))
    (body, *_) = [json.loads(a.body) for a in server.asked if b"service_name" in a.body]
    assert r'"x\") OR (\""' in body["filter"]


def test_check_says_which_api_cannot_be_read_and_what_it_needs(server: LocalServer) -> None:
    built = connector(server)
    assert asyncio.run(built.check()).ok
    server.on(stand_in.GROUPS, refusal(403, "IAM_PERMISSION_DENIED"))
    said = asyncio.run(built.check())
    assert said.ok
    assert "needs errorreporting.groups.list" in said.line
    server.on(stand_in.GOOGLE_TOKEN, Reply({}, status=404))
    assert not asyncio.run(connector(server, identity_url="http://127.0.0.1:1").check()).ok


def test_hostile_points_entries_and_spans_are_left_out() -> None:
    interval = metrics._Interval(endTime="soon")
    bad = metrics.GoogleSeries(
        points=[metrics._GooglePoint(interval, metrics.GoogleValue(doubleValue=1.0))]
    )
    huge = metrics.GoogleValue(int64Value="9" * 400)
    assert huge.number is None or huge.number > 0
    assert metrics.metric_rows(metrics.METRICS[0], [bad], NAMES) == []
    page = logs.line_page([logs.LogEntry(timestamp="2026-03-02T11:00:00Z")], ["a"], NAMES)
    assert page.rows == []
    assert page.left_out == 1
    span = traces.TraceSpan(spanId="18446744073709551616", startTime="x", endTime="y")
    assert traces.span_rows([traces.CloudTrace("f" * 32, [span])], "l", NAMES) == ([], 1)
    deep: Any = {"image": "a"}
    for _ in range(500):
        deep = {"x": deep}
    assert list(logs.images_in(deep)) == []


def test_error_reporting_is_asked_for_the_shortest_period_that_holds_the_incident() -> None:
    window = Window(start=ALERT_AT - timedelta(minutes=30), end=ALERT_AT)
    assert errors.period_of(window, ALERT_AT) == errors.PERIODS[0]
    assert errors.period_of(window, ALERT_AT + timedelta(hours=2)) == errors.PERIODS[1]
    assert errors.period_of(window, ALERT_AT + timedelta(days=2)) is None


def test_a_project_is_no_part_of_an_address(server: LocalServer) -> None:
    with pytest.raises(pydantic.ValidationError):
        connector(server, project="../other")


def test_the_page_names_metrics_permissions_and_limits_as_they_are() -> None:
    page = " ".join(
        (Path(__file__).parents[2] / "docs/connectors/google_cloud.md").read_text().split()
    )
    for metric in (*metrics.METRICS, *metrics.COUNTS):
        assert f"`{metric.type}`" in page, metric.type
        assert f"`{metric.signal}`" in page, metric.signal
    for permission in NEEDS.values():
        assert permission in page, permission
    for field in logs.NAMED_BY:
        assert f"`{field}`" in page, field
    for label in traces.NAMED_BY:
        assert f"`{label}`" in page, label
    pace = f"{LIMITS.requests_per_s:g} requests a second and {LIMITS.concurrency} at once"
    assert f"At most {pace}" in page
    assert f"{traces.MOST_TRACES} traces of each third" in page
    assert f"{MOST_TRACED} services" in page
    assert f"{MOST_PAGES} pages" in page
    assert f"latest {logs.MOST_CHANGES}" in page


# The alert's own query: the condition of the policy that it names.

COUNT = 'metric.type="run.googleapis.com/request_count" AND resource.type="cloud_run_revision"'
RATE = {
    "alignmentPeriod": "60s",
    "perSeriesAligner": "ALIGN_RATE",
    "crossSeriesReducer": "REDUCE_SUM",
    "groupByFields": ["resource.labels.service_name"],
}
THRESHOLD = {
    "filter": f'{COUNT} AND metric.labels.response_code_class="5xx"',
    "aggregations": [RATE],
    "denominatorFilter": COUNT,
    "denominatorAggregations": [RATE],
    "comparison": "COMPARISON_GT",
    "thresholdValue": 0.1,
    "duration": "300s",
    "trigger": {"count": 1},
}
MQL_TEXT = (
    "fetch cloud_run_revision | metric 'run.googleapis.com/request_count' | align rate(1m) "
    "| group_by [resource.service_name], [value: mean(value.request_count)] "
    "| condition val() > 0.1 '1/s'"
)
PROMQL_TEXT = "sum by (service_name) (rate(run_googleapis_com:request_count[5m])) > 0.1"
CONDITIONS: dict[str, dict[str, Any]] = {
    "filter": {"conditionThreshold": THRESHOLD},
    "promql": {"conditionPrometheusQueryLanguage": {"query": PROMQL_TEXT, "duration": "300s"}},
    "mql": {"conditionMonitoringQueryLanguage": {"query": MQL_TEXT, "duration": "300s"}},
}


def policy(*conditions: dict[str, Any]) -> Reply:
    """As `alertPolicies.list` answers."""
    named = [{"displayName": f"condition {n}", **c} for n, c in enumerate(conditions)]
    name = f"projects/{stand_in.PROJECT}/alertPolicies/1"
    found = {"name": name, "displayName": "Checkout fails", "conditions": named, "enabled": True}
    return Reply({"alertPolicies": [found], "totalSize": 1})


def minutes_of(start: datetime, end: datetime) -> Iterator[tuple[datetime, float]]:
    """Minutes with a value, which is larger from the onset on."""
    at = start
    while at <= end:
        yield at, 0.4 if at >= ONSET else 0.02
        at += timedelta(minutes=1)


def filtered(asked: Asked) -> Reply:
    """Of a ratio both sides by one filter each."""
    names = ("interval.startTime", "interval.endTime")
    start, end = (datetime.fromisoformat(asked.query[name][0]) for name in names)
    assert asked.query["aggregation.perSeriesAligner"] == ["ALIGN_RATE"]
    failed = "5xx" in asked.query["filter"][0]
    points = [
        {
            "interval": {"startTime": stand_in.zulu(at), "endTime": stand_in.zulu(at + MINUTE)},
            "value": {"doubleValue": 20 * value if failed else 20.0},
        }
        for at, value in minutes_of(start, end)
    ]
    resource = {"type": "cloud_run_revision", "labels": {"service_name": "checkout"}}
    return Reply({"timeSeries": [{"metric": {}, "resource": resource, "points": points}]})


def matrix(asked: Asked) -> Reply:
    """The Prometheus HTTP API."""
    start, end = (datetime.fromisoformat(asked.query[name][0]) for name in ("start", "end"))
    assert "> 0.1" not in asked.query["query"][0]
    values = [[at.timestamp(), str(value)] for at, value in minutes_of(start, end)]
    result = [{"metric": {"service_name": "checkout"}, "values": values}]
    return Reply({"status": "success", "data": {"resultType": "matrix", "result": result}})


def queried(asked: Asked) -> Reply:
    """`timeSeries.query`."""
    text = json.loads(asked.body)["query"]
    assert "condition" not in text
    start, end = (
        datetime.strptime(at, "%Y/%m/%d-%H:%M:%S").replace(tzinfo=UTC)
        for at in re.findall(r"d'([^']+)'", text)
    )
    points = [
        {
            "values": [{"doubleValue": value}],
            "timeInterval": {"startTime": stand_in.zulu(at), "endTime": stand_in.zulu(at)},
        }
        for at, value in minutes_of(start, end)
    ]
    descriptor = {
        "labelDescriptors": [{"key": "resource.service_name"}],
        "pointDescriptors": [{"key": "value", "valueType": "DOUBLE", "metricKind": "GAUGE"}],
    }
    data = [{"labelValues": [{"stringValue": "checkout"}], "pointData": points}]
    return Reply({"timeSeriesDescriptor": descriptor, "timeSeriesData": data})


def policy_alert(**labels: str) -> Alert:
    link = Link(title="Incident", url="https://console.cloud.google.com/monitoring/alerting/1")
    return Alert(
        source="gcp_monitoring",
        title="Checkout fails",
        started_at=ALERT_AT,
        labels=labels,
        links=(link,),
    )


@pytest.mark.parametrize("kind", CONDITIONS)
def test_the_condition_of_the_policy_is_evaluated(
    server: LocalServer, tmp_path: Path, kind: str
) -> None:
    built = connector(server)
    server.on(stand_in.POLICIES, policy(CONDITIONS[kind]))
    server.on(stand_in.SERIES, filtered)
    server.on(stand_in.PROMQL, matrix)
    server.on(stand_in.MQL, queried)
    alert = policy_alert(project=stand_in.PROJECT, condition="condition 0")
    request = request_for(tmp_path, alert=alert)
    found = asyncio.run(collect_from(AlertQueryConnector([built]), request))
    assert found.missing == ()
    rows = found.tables["alert_query"]
    true = rows.filter(pl.col("is_true") > 0)
    assert abs(true["time"].min() - ONSET) <= MINUTE  # type: ignore[operator]
    assert true["value"].to_list() == pytest.approx([0.4] * true.height)
    assert set(rows["threshold"]) == {0.1}
    assert {"checkout"} == {next(iter(json.loads(key).values())) for key in rows["series"]}
    asked = next(one for one in server.asked if one.path == stand_in.POLICIES)
    assert asked.query["filter"] == ['display_name="Checkout fails"']
    rule = asyncio.run(built.rule_of(alert))
    assert rule is not None
    assert rule.holds_for_s == 300


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        ((CONDITIONS["promql"], CONDITIONS["filter"]), "no single policy"),
        (({"conditionMatchedLog": {"filter": "severity>=ERROR"}},), "no single policy"),
        (
            ({"conditionMonitoringQueryLanguage": {"query": "fetch x | condition a > b"}},),
            "no plain number",
        ),
    ],
)
def test_a_condition_that_cannot_be_asked_is_a_gap(
    server: LocalServer, tmp_path: Path, conditions: tuple[dict[str, Any], ...], reason: str
) -> None:
    built = connector(server)
    server.on(stand_in.POLICIES, policy(*conditions))
    request = request_for(tmp_path, alert=policy_alert())
    (gap,) = asyncio.run(collect_from(AlertQueryConnector([built]), request)).missing
    assert reason in gap.reason


def test_an_alert_of_another_project_is_not_asked_about(server: LocalServer) -> None:
    assert not connector(server).evaluates(policy_alert(project="other"))
    plain = Alert(source="alertmanager", title="Checkout fails", started_at=ALERT_AT)
    assert not connector(server).evaluates(plain)
