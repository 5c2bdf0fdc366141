"""AWS's emulators as referees: ministack (metrics, alarms, SNS, logs, ECS, roles) and moto (X-Ray,
CodeDeploy).

The connector speaks to them as it is; what happens in them is made by boto3 without the guard.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import httpx
import polars as pl
import pytest
from moto.server import ThreadedMotoServer

from faultline.analysis.vocabulary import Alert, Scope, Window
from faultline.bot.intake.accepting import NotAccepted
from faultline.bot.intake.signatures import BadSignature
from faultline.bot.intake.sources.cloudwatch import SnsWebhook
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival
from faultline.connectors.shared.contract.base import Collected, Request, collect_from
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.vendors.aws import CONNECTOR
from faultline.connectors.vendors.aws.calls import AwsCalls
from faultline.connectors.vendors.aws.segments import spans_of
from faultline.connectors.vendors.aws.session import AwsAccount, AwsPlace, AwsSession, Bounds
from tests.bot.intake.sns_sender import PEM, SnsSender, signed
from tests.connectors.local_http import LocalServer, Reply
from tests.contracts.emulators import ministack

REGION = "us-east-1"
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": REGION}
NOW = datetime.now(UTC)
ALARM = "CheckoutLatencyHigh"
GROUP = "/ecs/checkout"
TOPIC = f"arn:aws:sns:{REGION}:000000000000:alarms"
LINE = "ERROR could not get a connection from the pool"
WITHIN_S = 90.0


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """As boto3 looks for them."""
    for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{key}", "test")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Ministack, in which the checkout service has slowed down."""
    with ministack(tmp_path_factory.mktemp("ministack")) as url:
        _metrics(url)
        _logs(url)
        _service(url)
        yield url


def made_by(url: str, service: str) -> Any:
    """A client without the guard: it makes what the connector reads."""
    return boto3.client(service, endpoint_url=url, **KEYS)  # type: ignore[call-overload]


def _metrics(url: str) -> None:
    client = made_by(url, "cloudwatch")
    start = NOW.replace(second=0, microsecond=0) - timedelta(minutes=150)
    for first in range(0, 150, 10):
        data = [
            {
                "MetricName": "Duration",
                "Dimensions": [{"Name": "FunctionName", "Value": "checkout"}],
                "Timestamp": start + timedelta(minutes=minute),
                "Values": [2500.0 if minute >= 140 else 200.0],
                "Counts": [10.0],
            }
            for minute in range(first, first + 10)
        ]
        client.put_metric_data(Namespace="AWS/Lambda", MetricData=data)


def _logs(url: str) -> None:
    client = made_by(url, "logs")
    client.create_log_group(logGroupName=GROUP)
    client.create_log_stream(logGroupName=GROUP, logStreamName="task")
    at = int((NOW - timedelta(minutes=5)).timestamp() * 1000)
    lines = [LINE, "INFO fine", "WARN a connection TIMED OUT"]
    events = [{"timestamp": at + n, "message": line} for n, line in enumerate(lines)]
    client.put_log_events(logGroupName=GROUP, logStreamName="task", logEvents=events)


def _service(url: str) -> None:
    client = made_by(url, "ecs")
    client.create_cluster(clusterName="shop")
    for image in ("checkout:1", "checkout:2"):
        container = {"name": "app", "image": image, "memory": 64, "cpu": 10}
        log = {
            "logDriver": "awslogs",
            "options": {"awslogs-group": GROUP, "awslogs-region": REGION},
        }
        client.register_task_definition(
            family="checkout", containerDefinitions=[container | {"logConfiguration": log}]
        )
    client.create_service(
        cluster="shop", serviceName="checkout", taskDefinition="checkout:1", desiredCount=0
    )
    client.update_service(cluster="shop", service="checkout", taskDefinition="checkout:2")


def collect(
    url: str, folder: Path, made_of: dict[str, Any], alarm: str | None = None, **own: Any
) -> Collected:
    """What the connector brings of the last half hour."""
    tables = {
        "aws": {"regions": [REGION], "endpoint_url": url, **own},
        "services": {"checkout": {"aws": made_of}},
    }
    built = CONNECTOR.configured(Settings.model_validate(tables))
    assert built is not None
    labels = {"alarm_name": alarm} if alarm else {}
    end = datetime.now(UTC)
    incident = Window(start=end - timedelta(minutes=30), end=end)
    baseline = Window(start=incident.start - timedelta(hours=2), end=incident.start)
    alert = Alert(source="cloudwatch", title="t", started_at=end, labels=labels)
    scope = Scope(incident=incident, baseline=(baseline,), services=("checkout",))
    return asyncio.run(collect_from(built, Request(alert, scope, folder)))


def gaps(found: Collected) -> str:
    return "\n".join(f"{gap.query}: {gap.reason}" for gap in found.missing)


def test_metrics_of_a_function_over_both_windows(cloud: str, tmp_path: Path) -> None:
    found = collect(cloud, tmp_path, {"lambdas": ["checkout"]})
    slow = found.tables["metrics"].filter(pl.col("signal") == "latency_p99").sort("time")
    assert slow.height > 100, gaps(found)
    assert slow["value"][5] == pytest.approx(200)
    assert slow["value"][-1] == pytest.approx(2500)


def test_error_lines_of_the_log_group_that_the_tasks_write_to(cloud: str, tmp_path: Path) -> None:
    found = collect(cloud, tmp_path, {"ecs": ["shop/checkout"]})
    lines = [m for m in found.tables["logs"]["message"] if m and not m.startswith("ECS")]
    assert sorted(lines) == sorted([LINE, "WARN a connection TIMED OUT"]), gaps(found)
    items = [
        item for item in found.items if item.kind == "logs" and "sort @timestamp" in item.query
    ]
    assert len(items) == 2


def test_a_deployment_of_a_service_with_what_it_changed(cloud: str, tmp_path: Path) -> None:
    found = collect(cloud, tmp_path, {"ecs": ["shop/checkout"]})
    titles = found.tables["changes"].filter(pl.col("kind") == "deploy")["title"].to_list()
    assert any("checkout:2" in title for title in titles), gaps(found)


def test_queues_tables_and_caches_are_read(cloud: str, tmp_path: Path) -> None:
    sqs = made_by(cloud, "sqs")
    sqs.create_queue(QueueName="mails-dead")
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:000000000000:mails-dead"}
    redrive = json.dumps(policy | {"maxReceiveCount": 3})
    sqs.create_queue(QueueName="mails", Attributes={"RedrivePolicy": redrive})
    samples = [_depth(minute) for minute in range(1, 40)]
    made_by(cloud, "cloudwatch").put_metric_data(Namespace="AWS/SQS", MetricData=samples)
    made_by(cloud, "dynamodb").create_table(
        TableName="carts",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        ProvisionedThroughput={"ReadCapacityUnits": 5, "WriteCapacityUnits": 5},
    )
    made_by(cloud, "elasticache").create_cache_cluster(
        CacheClusterId="carts-001", Engine="memcached", NumCacheNodes=1
    )
    made_of = {"queues": ["mails"], "tables": ["carts"], "caches": ["carts-001"]}
    found = collect(cloud, tmp_path, made_of)
    facts = found.tables["states"].select("name", "fact").rows()
    assert facts == [("mails-dead", "dead_letters")], gaps(found)
    queries = [item.query for item in found.items if item.kind == "states"]
    for operation in ("DescribeTable", "DescribeCacheClusters"):
        assert any(query.startswith(operation) for query in queries), gaps(found)


def _depth(minutes_ago: int) -> dict[str, Any]:
    """Messages in a dead-letter queue, which come within ten minutes."""
    return {
        "MetricName": "ApproximateNumberOfMessagesVisible",
        "Dimensions": [{"Name": "QueueName", "Value": "mails-dead"}],
        # This file may have been read long before its tests run.
        "Timestamp": datetime.now(UTC) - timedelta(minutes=minutes_ago),
        "Value": 7.0 if minutes_ago <= 10 else 0.0,
    }


def test_a_role_of_another_account_is_assumed(cloud: str, tmp_path: Path) -> None:
    accounts = [
        {"name": "shop", "role_arn": "arn:aws:iam::000000000000:role/read", "external_id": "e1"}
    ]
    found = collect(cloud, tmp_path, {"lambdas": ["checkout"]}, accounts=accounts)
    assert "AssumeRole" not in gaps(found)
    assert any("shop/us-east-1" in item.query for item in found.items)


def test_check_reads_in_the_emulator(cloud: str) -> None:
    built = CONNECTOR.configured(
        Settings.model_validate({"aws": {"regions": [REGION], "endpoint_url": cloud}})
    )
    assert built is not None
    checked = asyncio.run(built.check())
    assert checked.ok, checked.line
    assert "account 000000000000" in checked.line


def test_an_alarm_that_fires_comes_through_sns_and_leads_to_its_metric(
    cloud: str, tmp_path: Path
) -> None:
    """Ministack does not sign: its messages are refused as they come, and taken once they are
    signed as SNS would."""
    with LocalServer() as server:
        sender = SnsSender(server)

        async def reach(url: str) -> bytes:
            """What goes to SNS goes to ministack; the certificate is ours."""
            if urlsplit(url).path != "/":
                return await sender.fetch(url)
            async with httpx.AsyncClient() as client:
                return (
                    (await client.get(f"{cloud}/?{urlsplit(url).query}")).raise_for_status().content
                )

        webhook = SnsWebhook(Settings.model_validate({"aws": {"sns_topics": [TOPIC]}}), reach)

        def read(body: bytes) -> Any:
            return asyncio.run(webhook.read(body, {}, now=datetime.now(UTC)))

        server.on("/webhook", Reply(b""))
        sns = made_by(cloud, "sns")
        assert sns.create_topic(Name="alarms")["TopicArn"] == TOPIC
        sns.subscribe(TopicArn=TOPIC, Protocol="http", Endpoint=f"{server.url}/webhook")
        invited = _wait(server, b"SubscriptionConfirmation")
        with pytest.raises((BadSignature, NotAccepted)):
            read(invited)
        read(_as_sns_signs(invited))
        _fire(cloud)
        alarmed = _wait(server, b"NewStateValue")
        with pytest.raises((BadSignature, NotAccepted)):
            read(alarmed)
        found = read(_as_sns_signs(alarmed))
    assert isinstance(found, Arrival)
    assert (found.alert.title, found.alert.status, found.alert.service) == (
        ALARM,
        "firing",
        "checkout",
    )
    collected = collect(cloud, tmp_path, {}, alarm=found.alert.labels["alarm_name"])
    own = collected.tables["metrics"].filter(pl.col("labels").str.contains(ALARM))
    assert own["value"].max() == pytest.approx(2500), gaps(collected)
    assert collected.tables["monitors"].filter(pl.col("state") == "ALARM").height


def _as_sns_signs(body: bytes) -> bytes:
    """The message with SNS's own addresses and a signature."""
    message = json.loads(body)
    host = f"https://sns.{REGION}.amazonaws.com"
    message["SigningCertURL"] = f"{host}{PEM}"
    if "SubscribeURL" in message:
        message["SubscribeURL"] = f"{host}/?{urlsplit(message['SubscribeURL']).query}"
    return signed(message)


def _fire(url: str) -> None:
    client = made_by(url, "cloudwatch")
    client.put_metric_alarm(
        AlarmName=ALARM,
        AlarmActions=[TOPIC],
        Namespace="AWS/Lambda",
        MetricName="Duration",
        Dimensions=[{"Name": "FunctionName", "Value": "checkout"}],
        Statistic="Maximum",
        Period=60,
        EvaluationPeriods=1,
        Threshold=1000,
        ComparisonOperator="GreaterThanThreshold",
    )
    named = [{"Name": "FunctionName", "Value": "checkout"}]
    client.put_metric_data(
        Namespace="AWS/Lambda",
        MetricData=[
            {
                "MetricName": "Duration",
                "Dimensions": named,
                "Value": 2500.0,
                "Timestamp": datetime.now(UTC),
            }
        ],
    )


def _wait(server: LocalServer, words: bytes) -> bytes:
    ends = time.monotonic() + WITHIN_S
    while True:
        for asked in list(server.asked):
            if asked.path == "/webhook" and words in asked.body:
                return asked.body
        assert time.monotonic() < ends, f"ministack sent no {words.decode()}"
        time.sleep(0.2)


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """Moto's server, with a deployment, a function and two traces."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_traces_of_x_ray(moto: str) -> None:
    """Moto gives traces by their ids; it does not know filter expressions."""
    client = made_by(moto, "xray")
    at = (NOW - timedelta(minutes=5)).timestamp()
    documents = []
    for number in range(2):
        documents.append(
            json.dumps(
                {
                    "id": f"{number:016x}",
                    "trace_id": f"1-{int(at):08x}-{number:024x}",
                    "name": "checkout",
                    "start_time": at,
                    "end_time": at + 2.0,
                    "fault": True,
                    "http": {
                        "request": {"method": "GET", "url": "http://shop/pay"},
                        "response": {"status": 500},
                    },
                    "subsegments": [
                        {"id": "f" * 16, "name": "orders", "start_time": at, "end_time": at + 1.0}
                    ],
                }
            )
        )
    client.put_trace_segments(TraceSegmentDocuments=documents)
    ids = [json.loads(document)["trace_id"] for document in documents]

    async def read() -> Mapping[str, Any]:
        with ThreadPoolExecutor(1) as threads:
            calls = AwsCalls(
                AwsSession(moto),
                threads,
                Bounds(Deadline.after(60), ByteBudget("size", 10_000_000)),
            )
            return await calls.call(
                AwsPlace(AwsAccount("own"), REGION), "xray", "BatchGetTraces", TraceIds=ids
            )

    rows = [
        row for trace in asyncio.run(read())["Traces"] for row in spans_of(trace, lambda name: name)
    ]
    roots = {(row[3], row[4], row[6], row[7]) for row in rows if row[2] is None}
    assert roots == {("checkout", "GET /pay", 2e6, "error")}
    assert len(rows) == 4


def test_deployments_of_codedeploy_and_versions_of_a_function(moto: str, tmp_path: Path) -> None:
    client = made_by(moto, "codedeploy")
    client.create_application(applicationName="shop")
    role = "arn:aws:iam::123456789012:role/deploy"
    client.create_deployment_group(
        applicationName="shop", deploymentGroupName="live", serviceRoleArn=role
    )
    revision = {
        "revisionType": "GitHub",
        "gitHubLocation": {"repository": "shop/checkout", "commitId": "a" * 40},
    }
    made = client.create_deployment(
        applicationName="shop", deploymentGroupName="live", revision=revision
    )
    found = collect(moto, tmp_path, {"codedeploy": ["shop/live"]})
    changes = found.tables["changes"].rows(named=True)
    assert [row["id"] for row in changes] == [made["deploymentId"]], gaps(found)
    assert "shop/checkout@" + "a" * 40 in changes[0]["title"]
