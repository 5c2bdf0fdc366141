"""Kinds of AWS resources beside compute and RDS: requests as boto3 sends them, answers made and
checked by AWS's own models."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.shared.settings.shared_settings import ServiceAwsSettings
from faultline.connectors.vendors.aws import CONNECTOR
from faultline.connectors.vendors.aws.connector import AwsConnector
from faultline.connectors.vendors.aws.resource_kinds import NAMED_KINDS, resource_names
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.test_aws import NOW, asked

REGION, ACCOUNT = "eu-west-1", "123456789012"
MACHINE = f"arn:aws:states:{REGION}:{ACCOUNT}:stateMachine:billing"
EXECUTION = f"arn:aws:states:{REGION}:{ACCOUNT}:execution:billing:1"
BOTO_NAMES = {"states": "stepfunctions", "monitoring": "cloudwatch"}
"""Where a service signs by another name than boto3 gives it."""
LATELY = NOW - timedelta(minutes=8)
BEFORE = NOW - timedelta(minutes=90)
SCOPE = re.compile(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request")
EKS_PATHS = {
    "/clusters/shop": "DescribeCluster",
    "/clusters/shop/node-groups": "ListNodegroups",
    "/clusters/shop/node-groups/workers": "DescribeNodegroup",
    "/clusters/shop/updates": "ListUpdates",
    "/clusters/shop/updates/u-1": "DescribeUpdate",
}
MADE_OF = {
    "queues": ["mails"],
    "tables": ["carts"],
    "caches": ["carts-001"],
    "auto_scaling_groups": ["workers"],
    "instances": ["i-0123456789abcdef0"],
    "streams": ["orders"],
    "state_machines": [MACHINE],
    "nat_gateways": ["nat-0123456789abcdef0"],
    "db_clusters": ["carts-db"],
    "eks_clusters": ["shop"],
}
"""One resource of each of these kinds."""
Answers = Mapping[str, Any]
"""By `service Operation`: the answer, or what makes it of the parameters."""


@cache
def service_model(service: str) -> Any:
    """AWS's own model, in the class that moto's serializers take."""
    from botocore.loaders import Loader
    from moto.core.model import ServiceModel

    return ServiceModel(Loader().load_service_model(service, "service-2"), service)


def modelled(service: str, operation: str, answer: Mapping[str, Any]) -> Reply:
    """The answer on the wire, if it has the shape of AWS's model."""
    from botocore.validate import ParamValidator
    from moto.core.serialize import get_serializer_class

    model = service_model(service)
    known = model.operation_model(operation)
    report = ParamValidator().validate(answer, known.output_shape)
    assert not report.has_errors(), report.generate_report()
    protocol = str(model.resolved_protocol)
    made = get_serializer_class(service, protocol)(operation_model=known).serialize(answer)
    body = made["body"]
    raw = body if isinstance(body, bytes) else str(body).encode()
    return Reply(raw, status=made["status_code"], headers=made["headers"])


class ModelledAws:
    """AWS on one loopback server; what has no answer is refused. `refused` holds what was."""

    def __init__(self, server: LocalServer) -> None:
        self.answers: Answers = {}
        self.always: Reply | None = None
        for path in ("/", *EKS_PATHS):
            server.on(path, self._reply)
        made_of = {"aws": {"regions": [REGION], "endpoint_url": server.url}}
        self._tables: dict[str, Any] = made_of

    def collect(
        self, folder: Path, made_of: Mapping[str, Any], answers: Answers, always: Any = None
    ) -> Collected:
        """What is collected of a service that is made of these resources."""
        self.always = always
        connector = self.connector(made_of, answers)
        return asyncio.run(collect_from(connector, asked(folder, "carts", labels={})))

    def connector(self, made_of: Mapping[str, Any], answers: Answers) -> AwsConnector:
        """The connector of such a service, where AWS answers so."""
        self.answers = answers
        tables = {**self._tables, "services": {"carts": {"aws": dict(made_of)}}}
        connector = CONNECTOR.configured(Settings.model_validate(tables))
        assert isinstance(connector, AwsConnector)
        return connector

    def _reply(self, request: Asked) -> Reply:
        if self.always is not None:
            return self.always
        scope = SCOPE.search(request.headers.get("Authorization", ""))
        assert scope is not None
        service = BOTO_NAMES.get(scope[1], scope[1])
        target = request.headers.get("X-Amz-Target", "")
        if service == "eks":
            operation, params = EKS_PATHS[request.path], {}
        elif target:
            operation, params = target.rpartition(".")[2], json.loads(request.body)
        else:
            form = parse_qs(request.body.decode())
            operation, params = form["Action"][0], {}
        answer = self.answers.get(f"{service} {operation}")
        if answer is None and not target and service != "eks":
            error = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
            return Reply(b"<ErrorResponse>" + error + b"</ErrorResponse>", status=403)
        if answer is None:
            body = {"__type": "AccessDeniedException", "message": "no"}
            headers = {"x-amzn-errortype": "AccessDeniedException"}
            return Reply(body, status=400, headers=headers)
        return modelled(service, operation, answer(params) if callable(answer) else answer)


@pytest.fixture(scope="module")
def cloud() -> Iterator[ModelledAws]:
    """One for all."""
    with LocalServer() as server, pytest.MonkeyPatch.context() as environment:
        for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
            environment.setenv(f"AWS_{key}", "test")
        yield ModelledAws(server)


def measured(**values: tuple[float, float]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """GetMetricData: a metric's value before the last eight minutes, and since."""

    def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
        results = []
        for query in params["MetricDataQueries"]:
            metric = query["MetricStat"]["Metric"]["MetricName"].replace(".", "_")
            earlier, later = values.get(metric, (None, None))
            times = range(int(params["StartTime"]), int(params["EndTime"]), 60)
            told = [at for at in times if earlier is not None]
            by_time = [later if at >= LATELY.timestamp() else earlier for at in told]
            one = {"Id": query["Id"], "Timestamps": told, "Values": by_time}
            results.append(one | {"StatusCode": "Complete"})
        return {"MetricDataResults": results}

    return answer


def facts(found: Collected) -> set[tuple[str, str, str]]:
    """Kind, name and fact of every row."""
    states = found.tables.get("states")
    return set() if states is None else set(states.select("kind", "name", "fact").rows())


ACTIVITY = {
    "ActivityId": "a-1",
    "AutoScalingGroupName": "workers",
    "Description": "Launching a new EC2 instance.  Status Reason: no capacity",
    "Cause": "At 2026-01-01T00:00:00Z an instance was launched in response to a difference.",
    "StartTime": LATELY,
    "StatusCode": "Failed",
    "StatusMessage": "We currently do not have sufficient m5.large capacity.",
}
REPLACED = ACTIVITY | {
    "ActivityId": "a-2",
    "Description": "Terminating EC2 instance: i-1",
    "Cause": "At 2026-01-01T00:00:00Z an instance was taken out of service in response to an EC2 "
    "health check indicating it has been terminated or stopped.",
    "StatusCode": "Successful",
}
FAILED_OVER = {
    "SourceIdentifier": "carts-001",
    "SourceType": "cache-cluster",
    "Message": "Failover from master node carts-001 to replica node carts-002 completed",
    "Date": LATELY,
}
ISSUE = {"code": "Ec2SubnetMissingIpv6Assignment", "message": "no addresses", "resourceIds": []}
DEGRADED = {"nodegroupName": "workers", "status": "DEGRADED", "health": {"issues": [ISSUE]}}
IMPAIRED = {"Status": "impaired", "Details": [{"ImpairedSince": LATELY, "Status": "failed"}]}
INSTANCE = {"InstanceId": "i-0123456789abcdef0", "InstanceState": {"Name": "running"}}
OPEN = {
    "service": "DYNAMODB",
    "eventTypeCode": "AWS_DYNAMODB_OPERATIONAL_ISSUE",
    "region": REGION,
    "startTime": LATELY,
}


@pytest.mark.parametrize(
    ("setting", "answers", "expected"),
    [
        (
            "tables",
            {"dynamodb DescribeTable": {"Table": {"TableStatus": "ARCHIVED"}}},
            ("Table", "carts", "database_unavailable"),
        ),
        (
            "caches",
            {"elasticache DescribeEvents": {"Events": [FAILED_OVER]}},
            ("Cache", "carts-001", "database_failed_over"),
        ),
        (
            "caches",
            {
                "elasticache DescribeCacheClusters": {
                    "CacheClusters": [{"CacheClusterStatus": "rebooting cluster nodes"}]
                }
            },
            ("Cache", "carts-001", "database_restarted"),
        ),
        (
            "auto_scaling_groups",
            {"autoscaling DescribeScalingActivities": {"Activities": [ACTIVITY]}},
            ("AutoScalingGroup", "workers", "launch_failed"),
        ),
        (
            "auto_scaling_groups",
            {"autoscaling DescribeScalingActivities": {"Activities": [REPLACED]}},
            ("AutoScalingGroup", "workers", "machine_lost"),
        ),
        (
            "instances",
            {
                "ec2 DescribeInstanceStatus": {
                    "InstanceStatuses": [INSTANCE | {"SystemStatus": IMPAIRED}]
                }
            },
            ("Instance", "i-0123456789abcdef0", "machine_impaired"),
        ),
        (
            "db_clusters",
            {
                "rds DescribeEvents": {
                    "Events": [{"Message": "Completed failover to DB instance", "Date": LATELY}]
                }
            },
            ("DBCluster", "carts-db", "database_failed_over"),
        ),
        (
            "db_clusters",
            {"rds DescribeDBClusters": {"DBClusters": [{"Status": "stopped"}]}},
            ("DBCluster", "carts-db", "database_unavailable"),
        ),
        (
            "eks_clusters",
            {
                "eks ListNodegroups": {"nodegroups": ["workers"]},
                "eks DescribeNodegroup": {"nodegroup": DEGRADED},
            },
            ("Node group", "shop/workers", "node_group_degraded"),
        ),
        (
            "tables",
            {"health DescribeEvents": {"events": [OPEN]}},
            ("AWS Health event", "AWS_DYNAMODB_OPERATIONAL_ISSUE", "provider_incident"),
        ),
        (
            "tables",
            {"cloudwatch GetMetricData": measured(WriteThrottleEvents=(0, 40))},
            ("Table", "carts", "requests_throttled"),
        ),
        (
            "streams",
            {"cloudwatch GetMetricData": measured(WriteProvisionedThroughputExceeded=(0, 40))},
            ("Stream", "orders", "requests_throttled"),
        ),
        (
            "caches",
            {"cloudwatch GetMetricData": measured(EngineCPUUtilization=(97, 98))},
            ("Cache", "carts-001", "cpu_exhausted"),
        ),
        (
            "nat_gateways",
            {"cloudwatch GetMetricData": measured(ErrorPortAllocation=(0, 12))},
            ("NatGateway", "nat-0123456789abcdef0", "ports_exhausted"),
        ),
    ],
)
def test_what_aws_says_of_a_resource_is_a_fact(
    cloud: ModelledAws, tmp_path: Path, setting: str, answers: Answers, expected: tuple[str, ...]
) -> None:
    found = cloud.collect(tmp_path, {setting: MADE_OF[setting]}, answers)
    assert facts(found) == {expected}
    row = found.tables["states"].row(0, named=True)
    assert row["service"] == "carts"
    assert row["link"].startswith("https://eu-west-1.console.aws.amazon.com/")


def test_levels_say_since_when(cloud: ModelledAws, tmp_path: Path) -> None:
    since = {}
    for earlier in (0, 40):
        answers = {"cloudwatch GetMetricData": measured(WriteThrottleEvents=(earlier, 40))}
        found = cloud.collect(tmp_path, {"tables": ["carts"]}, answers)
        since[earlier] = found.tables["states"]["since"][0]
    assert since == {0: LATELY, 40: None}


@pytest.mark.parametrize(("earlier", "told"), [(0, True), (20, True), (40, False)])
def test_a_dead_letter_queue_that_grows_is_a_fact(
    cloud: ModelledAws, tmp_path: Path, earlier: int, told: bool
) -> None:
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:{REGION}:{ACCOUNT}:mails-dead"}
    answers = {
        "sqs GetQueueUrl": {"QueueUrl": "https://sqs.eu-west-1.amazonaws.com/1/mails"},
        "sqs GetQueueAttributes": {"Attributes": {"RedrivePolicy": json.dumps(policy)}},
        "cloudwatch GetMetricData": measured(ApproximateNumberOfMessagesVisible=(earlier, 40)),
    }
    found = cloud.collect(tmp_path, {"queues": ["mails"]}, answers)
    assert facts(found) == (
        {("Dead-letter queue", "mails-dead", "dead_letters")} if told else set()
    )
    signals = set(found.tables["metrics"]["signal"])
    assert {"queue_depth", "dead_letter_queue_depth"} <= signals


def test_used_capacity_is_a_share_of_what_is_provisioned(
    cloud: ModelledAws, tmp_path: Path
) -> None:
    values = {
        "ConsumedReadCapacityUnits": (300.0, 600.0),
        "ProvisionedReadCapacityUnits": (10.0, 10.0),
    }
    answers = {"cloudwatch GetMetricData": measured(**values)}
    metrics = cloud.collect(tmp_path, {"tables": ["carts"]}, answers).tables["metrics"]
    assert set(metrics["signal"]) == {"table_read_saturation"}
    assert set(metrics["value"]) == {0.5, 1.0}


def test_scaling_capacity_and_updates_are_changes(cloud: ModelledAws, tmp_path: Path) -> None:
    capacity = {"LastIncreaseDateTime": BEFORE, "ReadCapacityUnits": 20, "WriteCapacityUnits": 5}
    update = {"id": "u-1", "type": "VersionUpdate", "status": "Successful", "createdAt": BEFORE}
    answers = {
        "dynamodb DescribeTable": {"Table": {"ProvisionedThroughput": capacity}},
        "autoscaling DescribeScalingActivities": {"Activities": [ACTIVITY]},
        "eks ListUpdates": {"updateIds": ["u-1"]},
        "eks DescribeUpdate": {"update": update},
    }
    changes = cloud.collect(tmp_path, MADE_OF, answers).tables["changes"]
    assert dict(changes.select("title", "kind").rows()) == {
        "DynamoDB capacity of carts raised (now 20 read, 5 write)": "scale",
        "Auto Scaling workers: Launching a new EC2 instance. Status Reason: no capacity (Failed)": (
            "scale"
        ),
        "EKS VersionUpdate of shop (Successful)": "deploy",
    }


def test_failed_executions_say_why_and_not_what_went_in(cloud: ModelledAws, tmp_path: Path) -> None:
    execution = {
        "executionArn": EXECUTION,
        "stateMachineArn": MACHINE,
        "name": "1",
        "status": "FAILED",
        "startDate": BEFORE,
        "stopDate": LATELY,
    }
    why = {"error": "States.TaskFailed", "cause": "card service: 503", "input": '{"card": 4111}'}
    answers = {
        "stepfunctions ListExecutions": lambda asked: {
            "executions": [execution] if asked["statusFilter"] == "FAILED" else []
        },
        "stepfunctions DescribeExecution": execution | why,
    }
    logs = cloud.collect(tmp_path, {"state_machines": [MACHINE]}, answers).tables["logs"]
    (line,) = logs["message"]
    assert line == "Step Functions billing execution FAILED: States.TaskFailed: card service: 503"


def test_a_refused_action_is_named_as_the_service_has_it(
    cloud: ModelledAws, tmp_path: Path
) -> None:
    found = cloud.collect(tmp_path, MADE_OF, {})
    reasons = "\n".join(gap.reason for gap in found.missing)
    for action in (
        "sqs:GetQueueUrl",
        "dynamodb:DescribeTable",
        "stepfunctions",
        "states:ListExecutions",
        "eks:ListNodegroups",
        "health:DescribeEvents",
    ):
        assert (f"need {action}" in reasons) == (action != "stepfunctions")


def test_check_tries_what_the_catalogue_names(cloud: ModelledAws, tmp_path: Path) -> None:
    identity = {"sts GetCallerIdentity": {"Account": ACCOUNT, "Arn": "arn:aws:iam::1:user/x"}}
    answers = identity | {"dynamodb DescribeTable": {"Table": {"TableStatus": "ACTIVE"}}}
    line = asyncio.run(cloud.connector(MADE_OF, answers).check()).line
    assert "tables can be read" in line
    for action in ("sqs:GetQueueUrl", "elasticache:DescribeCacheClusters", "eks:DescribeCluster"):
        assert action in line


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"null", b'{"Table": 1, "events": {}}'])
def test_nonsense_makes_gaps_and_no_failure(
    cloud: ModelledAws, tmp_path: Path, body: bytes
) -> None:
    found = cloud.collect(tmp_path, MADE_OF, {}, always=Reply(body))
    assert found.missing
    assert [gap for gap in found.missing if "internal error" in gap.reason] == []
    assert not facts(found)


def test_every_kind_is_named_once_and_found_by_its_dimensions() -> None:
    for named in NAMED_KINDS:
        if named.setting:
            assert named.setting in ServiceAwsSettings.model_fields
        given = dict.fromkeys(named.dimensions, "x")
        meant = resource_names(given)
        is_ambiguous = named.kind in ("eks", "dead_letter_queue")
        assert is_ambiguous or (meant is not None and meant[0] == named.kind)
