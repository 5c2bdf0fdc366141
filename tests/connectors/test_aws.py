"""AWS: what one incident's collection brings, from a stand-in that speaks AWS's own protocols to
the real boto3."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Link, Scope, Window
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.aws import CONNECTOR
from faultline.connectors.vendors.aws import connector as aws
from faultline.connectors.vendors.aws.errors import NEEDS_SUPPORT_PLAN
from faultline.connectors.vendors.aws.operations import ACTIONS
from tests.connectors.collected_cases import calls_in
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import aws as stand_in
from tests.connectors.stand_ins.aws import ALARM, AwsStandIn

NOW = datetime.now(UTC).replace(second=0, microsecond=0)


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boto3 looks for them."""
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")


@pytest.fixture
def cloud(server: LocalServer) -> AwsStandIn:
    """AWS with an incident that fired just now: samples by the minute are kept for 15 days only."""
    made = AwsStandIn(NOW)
    made.serve(server)
    return made


def connector(
    server: LocalServer, limits: Limits = aws.LIMITS, **settings: Any
) -> aws.AwsConnector:
    tables = stand_in.settings(server.url)
    for table, values in settings.items():
        tables[table] = tables.get(table, {}) | values
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert built is not None
    built.limits = limits
    return built


def asked(
    folder: Path, *services: str, labels: dict[str, str] | None = None, links: tuple[Link, ...] = ()
) -> Request:
    labels = {"alarm_name": ALARM, "aws_region": "eu-west-1"} if labels is None else labels
    alert = Alert(source="cloudwatch", title=ALARM, started_at=NOW, labels=labels, links=links)
    incident = Window(start=NOW - timedelta(minutes=30), end=NOW)
    baseline = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    return Request(alert, Scope(incident=incident, baseline=(baseline,), services=services), folder)


@pytest.fixture(scope="module")
def incident(tmp_path_factory: pytest.TempPathFactory) -> tuple[Collected, list[str]]:
    """Everything of the incident, and the operations that were asked."""
    with LocalServer() as server, pytest.MonkeyPatch.context() as environment:
        for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
            environment.setenv(f"AWS_{key}", "test")
        made = AwsStandIn(NOW)
        made.serve(server)
        request = asked(tmp_path_factory.mktemp("files"), "checkout")
        return asyncio.run(collect_from(connector(server), request)), made.operations()


@pytest.fixture
def collected(incident: tuple[Collected, list[str]]) -> Collected:
    """Everything of the incident."""
    return incident[0]


def test_everything_of_an_incident_is_collected_and_linked(
    incident: tuple[Collected, list[str]],
) -> None:
    collected, operations = incident
    tables = {"metrics", "logs", "spans", "changes", "topology", "monitors", "states"}
    assert set(collected.tables) == tables
    assert all(table.height for table in collected.tables.values())
    assert all(
        item.link and item.link.startswith("https://eu-west-1.console.aws.amazon.com/")
        for item in collected.items
    )
    assert all(item.window is not None and item.query for item in collected.items)
    assert set(operations) <= {operation for _, operation in ACTIONS}


def test_what_is_missing_is_said(collected: Collected) -> None:
    reasons = {gap.query.split(":")[0]: gap.reason for gap in collected.missing}
    assert (
        "no samples" in reasons["GetMetricData own/eu-west-1 AWS/Lambda FunctionName=checkout-mail"]
    )
    assert (
        reasons["DescribeLogGroups own/eu-west-1 /aws/lambda/checkout-mail"]
        == "no log group of that name"
    )
    health = [gap.reason for gap in collected.missing if "Health" in gap.query]
    assert len(health) == 1
    assert NEEDS_SUPPORT_PLAN in health[0]
    assert len(collected.missing) == 4


def test_signals_have_canonical_names_and_units(collected: Collected) -> None:
    metrics = collected.tables["metrics"].filter(pl.col("service") == "checkout")
    units = dict(metrics.select("signal", "unit").unique().iter_rows())
    assert units | {"latency_p99": "ms", "request_rate": "1/s", "error_ratio": "ratio"} == units
    late = metrics.filter(pl.col("time") >= NOW - timedelta(minutes=5))
    now = {signal: late.filter(pl.col("signal") == signal)["value"].median() for signal in units}
    assert 2000 < now["latency_p99"] < 2400  # type: ignore[operator]
    assert 0.29 < now["error_ratio"] < 0.32  # type: ignore[operator]
    assert 99 < now["request_rate"] < 106  # type: ignore[operator]


def test_a_minute_without_errors_is_a_zero_where_there_were_requests(collected: Collected) -> None:
    ratios = collected.tables["metrics"].filter(pl.col("signal") == "error_ratio")
    before = ratios.filter(pl.col("time") < NOW - timedelta(minutes=11))["value"]
    assert before.len() > 100
    assert before.max() == 0


def test_a_minute_that_has_not_ended_is_no_fall_of_traffic(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    request = asked(tmp_path, "checkout")
    half = Window(start=request.scope.incident.start, end=NOW - timedelta(seconds=30))
    scope = request.scope.model_copy(update={"incident": half})
    found = asyncio.run(connector(server).collect(Request(request.alert, scope, tmp_path)))
    rates = found.tables["metrics"].filter(pl.col("signal") == "request_rate")
    assert rates["time"].max() == NOW - timedelta(minutes=2)


def test_the_alarms_own_metric_is_asked_first_and_its_state_told(
    incident: tuple[Collected, list[str]],
) -> None:
    collected, operations = incident
    assert collected.items[0].kind == "monitors"
    assert (
        collected.items[0].details["condition"] == "TargetResponseTime p99 > 1.0 for 3 of 3 periods"
    )
    assert operations[:2] == ["DescribeAlarms", "DescribeAlarmHistory"]
    own = [item for item in collected.items if f"alarm {ALARM}" in item.query]
    assert [item.kind for item in own] == ["metrics"]
    (row,) = collected.tables["monitors"].iter_rows(named=True)
    assert (row["monitor"], row["service"], row["state"], row["since"]) == (
        ALARM,
        "checkout",
        "ALARM",
        NOW,
    )


def test_a_deployment_tells_what_it_changed_and_who_made_it(collected: Collected) -> None:
    changes = {row["id"]: row for row in collected.tables["changes"].iter_rows(named=True)}
    deployed = changes["dep1"]
    assert (deployed["kind"], deployed["author"]) == ("deploy", "alice")
    assert "checkout:41 -> checkout:42" in deployed["title"]
    assert (
        "+ app image: 123456789012.dkr.ecr.eu-west-1.amazonaws.com/checkout:1.42"
        in deployed["diff"]
    )
    assert "variable POOL_SIZE of app (value not kept)" in deployed["diff"]
    assert "MODE" not in deployed["diff"]
    assert "64" not in deployed["diff"]
    assert changes["UpdateService-scaler"]["kind"] == "scale"
    assert "UpdateService-alice" not in changes
    assert "DescribeServices-bob" not in changes
    assert changes["d-ABCDEF123"]["title"].endswith(f"shop/checkout@{'f' * 40}")
    config = next(
        row
        for row in changes.values()
        if row["title"].startswith("Lambda checkout-mail configuration")
    )
    assert config["kind"] == "config"


def test_no_value_of_an_environment_is_kept(collected: Collected) -> None:
    kept = [str(table.to_dicts()) for table in collected.tables.values()] + [str(collected.items)]
    assert not any("hunter2" in text for text in kept)


def test_log_lines_counts_and_patterns(collected: Collected) -> None:
    lines = collected.tables["logs"].filter(pl.col("message") == stand_in.LINE)
    assert lines.height == 180
    counts = collected.tables["metrics"].filter(pl.col("signal") == "log_error_lines")
    assert counts.height == 150
    assert counts["value"].max() == 20
    assert counts["value"].min() == 0
    patterns = [
        item.details for item in collected.items if "| pattern" in item.query and item.details
    ]
    assert patterns == [
        {"pattern 1, 180 lines": "ERROR could not get a connection from the pool: <*>"}
    ]
    assert all(
        "GB scanned" in item.query
        for item in collected.items
        if item.query.startswith("Logs Insights")
    )


def test_a_task_that_was_killed_is_a_log_line(collected: Collected) -> None:
    (said,) = [
        m for m in collected.tables["logs"]["message"] if m and m.startswith("ECS task stopped")
    ]
    assert said == (
        "ECS task stopped: Essential container in task exited; container app exit code 137: "
        "OutOfMemoryError: Container killed due to memory usage; container init exit code 1; "
        "container agent: CannotPullContainerError"
    )


def test_spans_are_an_even_sample_of_both_windows(collected: Collected) -> None:
    spans = collected.tables["spans"]
    assert spans["trace_id"].n_unique() == 60
    roots = spans.filter(pl.col("parent_id").is_null())
    assert set(roots["operation"]) == {"POST /orders"}
    assert roots.filter(pl.col("status") == "error").height == 10
    assert set(spans["service"]) == {"checkout", "orders"}
    details = [item.details for item in collected.items if item.kind == "spans"]
    assert sorted(int(one["of them with a fault"]) for one in details) == [0, 28]
    assert calls_in(collected, "xray") == [("checkout", "orders")]


def test_the_deployment_is_found_to_be_the_cause(collected: Collected, tmp_path: Path) -> None:
    folder = tmp_path / "case"
    folder.mkdir()
    request = asked(tmp_path, "checkout")
    alert = request.alert.model_copy(update={"service": "checkout", "signal": "latency_p99"})
    (folder / "alert.json").write_text(alert.model_dump_json())
    (folder / "scope.json").write_text(request.scope.model_dump_json())
    for name, table in collected.tables.items():
        write_table(folder, name, table)
    found = diagnose(read_case(folder))
    assert found.verdict == "cause_found"
    assert (found.causes[0].subject, found.causes[0].change) == ("checkout", "dep1")


def test_an_alarm_page_in_a_link_is_enough(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    page = (
        f"https://eu-west-1.console.aws.amazon.com/cloudwatch/"
        f"home?region=eu-west-1#alarmsV2:alarm/{ALARM}?~(search~'x)"
    )
    request = asked(tmp_path, labels={}, links=(Link(title="Alarm", url=page),))
    found = asyncio.run(connector(server, services={}).collect(request))
    assert set(found.tables["metrics"]["signal"]) >= {"latency_p99", "request_rate"}


def test_an_alarm_of_a_service_nobody_named_leads_to_its_resources(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    tables = {"aws": {"regions": ["eu-west-1"], "endpoint_url": server.url}}
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert built is not None
    found = asyncio.run(built.collect(asked(tmp_path)))
    assert found.tables["metrics"].filter(pl.col("signal") == "error_ratio").height


def test_a_service_without_resources_is_a_gap_that_names_the_setting(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    found = asyncio.run(connector(server).collect(asked(tmp_path, "cart", labels={})))
    reasons = " ".join(gap.reason for gap in found.missing)
    assert "[services.cart.aws]" in reasons
    assert "X-Ray's services of that time do not include it (checkout, client, orders)" in reasons


def test_a_query_that_scans_too_much_is_stopped(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    running = {"status": "Running", "results": [], "statistics": {"bytesScanned": 3e9}}
    cloud.replies["GetQueryResults"] = lambda _: running
    found = asyncio.run(
        connector(server, aws={"logs_max_scanned_gb": 2}).collect(asked(tmp_path, "checkout"))
    )
    assert "StopQuery" in cloud.operations()
    assert any("logs_max_scanned_gb" in gap.reason for gap in found.missing)
    assert found.tables["metrics"].height


def test_a_query_that_takes_too_long_is_stopped_and_the_rest_stands(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    cloud.replies["GetQueryResults"] = lambda _: {"status": "Running", "results": []}
    slow = connector(server, Limits(deadline_s=15))
    found = asyncio.run(collect_from(slow, asked(tmp_path, "checkout")))
    assert any("still running" in gap.reason or "time limit" in gap.reason for gap in found.missing)
    assert "StopQuery" in cloud.operations()
    assert found.tables["metrics"].height


def test_traces_without_segments_say_where_they_are(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    cloud.replies["BatchGetTraces"] = lambda p: {"Traces": [], "UnprocessedTraceIds": p["TraceIds"]}
    found = asyncio.run(connector(server).collect(asked(tmp_path, "checkout")))
    assert any("aws/spans" in gap.reason for gap in found.missing)


def test_an_anomaly_alarm_is_asked_for_its_metric_and_not_its_band(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    stat = {
        "Metric": {"Namespace": "Shop", "MetricName": "Orders", "Dimensions": []},
        "Period": 10,
        "Stat": "Sum",
    }
    band = {"Id": "ad1", "Expression": "ANOMALY_DETECTION_BAND(m1, 2)", "ReturnData": True}
    parts = [{"Id": "m1", "MetricStat": stat, "ReturnData": True}, band]
    plain = {
        key: cloud.alarm()[key] for key in ("AlarmName", "StateValue", "StateUpdatedTimestamp")
    }
    cloud.replies["DescribeAlarms"] = lambda _: {
        "MetricAlarms": [plain | {"Metrics": parts, "ThresholdMetricId": "ad1"}]
    }
    asyncio.run(connector(server).collect(asked(tmp_path, "checkout")))
    queries = [
        q
        for operation, p in cloud.asked
        if operation == "GetMetricData"
        for q in p["MetricDataQueries"]
    ]
    own = [
        q
        for q in queries
        if q.get("MetricStat", {}).get("Metric", {}).get("MetricName") == "Orders"
    ]
    assert [q["MetricStat"]["Period"] for q in own] == [60]
    assert not any("BAND" in q.get("Expression", "") for q in queries)


def test_a_composite_alarm_is_looked_at_through_its_children(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    def describe(params: Any) -> dict[str, Any]:
        if params.get("ChildrenOfAlarmName"):
            return {"MetricAlarms": [{"AlarmName": "child"}]}
        if params.get("AlarmNames") == ["child"]:
            return {"MetricAlarms": [cloud.alarm() | {"AlarmName": "child"}]}
        at = NOW.timestamp()
        rule = {
            "AlarmName": ALARM,
            "AlarmRule": "ALARM(child)",
            "StateValue": "ALARM",
            "StateUpdatedTimestamp": at,
        }
        return {"CompositeAlarms": [rule]}

    cloud.replies["DescribeAlarms"] = describe
    found = asyncio.run(connector(server).collect(asked(tmp_path, "checkout")))
    assert {"child", ALARM} <= set(found.tables["monitors"]["monitor"])
    assert any("alarm child" in item.query for item in found.items)


def test_hostile_text_is_made_harmless(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    nasty = "\x1b[31m<script>alert(1)</script>\u202e" + "x" * 100_000
    plain = cloud._on_DescribeServices
    event = {"id": "e", "createdAt": NOW.timestamp(), "message": nasty}

    def describe(params: Any) -> dict[str, Any]:
        answer = plain(params)
        answer["services"][0]["events"] = [event]
        return answer

    cloud.replies["DescribeServices"] = describe
    found = asyncio.run(connector(server).collect(asked(tmp_path, "checkout")))
    (said,) = [m for m in found.tables["logs"]["message"] if m and "script" in m]
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert len(said) < 600


def test_what_lies_in_one_region_is_not_missed_in_another(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    both = ["eu-west-1", "eu-north-1"]
    absent = {"__type": "ClusterNotFoundException", "message": "Cluster not found."}

    def only_in_the_first(asked: Asked) -> Reply:
        service = asked.headers.get("X-Amz-Target", "")
        is_north = "eu-north-1" in asked.headers["Authorization"]
        if not is_north:
            return plain(asked)
        return Reply(absent, status=400) if "ContainerService" in service else Reply({})

    plain = cloud._answer
    server.on("/", only_in_the_first)
    found = asyncio.run(
        connector(server, aws={"regions": both}).collect(asked(tmp_path, "checkout"))
    )
    missed = [gap for gap in found.missing if "eu-north-1" in gap.query and "shop" in gap.query]
    assert missed == []
    assert any("eu-north-1" in gap.query and "checkout-mail" in gap.query for gap in found.missing)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ExpiredTokenException", "have expired"),
        ("UnrecognizedClientException", "are not accepted"),
    ],
)
def test_credentials_that_do_not_work_are_one_thing_to_say(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path, code: str, said: str
) -> None:
    for path in list(server._replies):
        server.on(path, Reply({"__type": code, "message": "x"}, status=400))
    found = asyncio.run(collect_from(connector(server), asked(tmp_path, "checkout")))
    assert {gap.reason for gap in found.missing} == {f"aws every call: the credentials {said}"}
    assert len(found.missing) == 7


def test_pagerdutys_words_for_an_alarm_are_understood(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path
) -> None:
    arn = f"arn:aws:cloudwatch:eu-west-1:{stand_in.ACCOUNT}:alarm:{ALARM}"
    found = asyncio.run(
        connector(server).collect(asked(tmp_path, "checkout", labels={"AlarmArn": arn}))
    )
    assert found.items[0].details["condition"]


WRONG: tuple[Any, ...] = (
    [],
    {"Services": "x", "results": 1},
    {"MetricDataResults": [{"Id": 1, "Timestamps": [1]}]},
)


@pytest.mark.parametrize("third", range(3))
def test_operations_that_answer_nonsense_are_gaps_and_the_others_stand(
    server: LocalServer, cloud: AwsStandIn, tmp_path: Path, third: int
) -> None:
    broken = sorted(cloud.replies)[third::3]
    for number, name in enumerate(broken):
        cloud.replies[name] = partial(_fixed, Reply(WRONG[number % len(WRONG)]))
    found = asyncio.run(collect_from(connector(server), asked(tmp_path, "checkout")))
    assert not any("internal error" in gap.reason for gap in found.missing)
    assert set(found.tables) - {"topology"}
    assert len(found.missing) > 3


def _fixed(reply: Reply, _: Any) -> Reply:
    return reply


def test_it_is_registered_and_not_built_without_regions() -> None:
    assert CONNECTOR.configured(Settings()) is None
