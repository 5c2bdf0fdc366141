"""AWS: the checkout service on ECS, behind a load balancer. A deployment at 11:48 brings a task
definition with fewer connections; two minutes later checkout is slow and fails, its alarm fires at
noon."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs

from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import Asked, LocalServer, Reply

READING_POSTS: frozenset[str] = frozenset({"/", "/TraceSummaries", "/Traces", "/ServiceGraph"})
REGION, ACCOUNT = "eu-west-1", "123456789012"
ALARM = "checkout-latency"
BALANCER, GROUP = "app/shop/1111111111111111", "targetgroup/checkout/2222222222222222"
LOG_GROUP = "/ecs/checkout"
LINE = "ERROR could not get a connection from the pool: timed out after 2 s"
ECS = f"arn:aws:ecs:{REGION}:{ACCOUNT}"
Body = dict[str, Any]


def settings(url: str) -> dict[str, Any]:
    """One region, one service with one resource of each kind."""
    made_of = {
        "ecs": ["shop/checkout"],
        "target_groups": [GROUP],
        "lambdas": ["checkout-mail"],
        "databases": ["checkout-db"],
        "queues": ["checkout-mails"],
        "codedeploy": ["shop/checkout"],
    }
    return {
        "aws": {"regions": [REGION], "endpoint_url": url},
        "services": {"checkout": {"aws": made_of}},
    }


def serve(server: LocalServer) -> None:
    """An incident before the recorded alert."""
    AwsStandIn(ALERT_AT).serve(server)


class AwsStandIn:
    """AWS on one loopback server. `asked` holds every operation with its parameters."""

    def __init__(self, alert_at: datetime) -> None:
        self.alert_at = alert_at
        self.onset = alert_at - timedelta(minutes=10)
        self.deployed = alert_at - timedelta(minutes=12)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.replies: dict[str, Callable[[Mapping[str, Any]], Reply | Body | str]] = {
            name.removeprefix("_on_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("_on_")
        }

    def serve(self, server: LocalServer) -> None:
        """Answer at that server."""
        server.on("/", self._answer)
        for path, operation in {
            "/TraceSummaries": "GetTraceSummaries",
            "/Traces": "BatchGetTraces",
            "/ServiceGraph": "GetServiceGraph",
            "/2015-03-31/functions/checkout-mail/versions": "ListVersionsByFunction",
        }.items():
            server.on(path, self._answering(operation))

    def operations(self) -> list[str]:
        """The operations asked, in order."""
        return [operation for operation, _ in self.asked]

    def _answering(self, operation: str) -> Callable[[Asked], Reply]:
        return lambda asked: self._reply(operation, _json(asked.body))

    def _answer(self, asked: Asked) -> Reply:
        target = asked.headers.get("X-Amz-Target", "")
        # RDS has an operation of the same name.
        if target.startswith("AWSHealth"):
            self.asked.append(("DescribeEvents", _json(asked.body)))
            return Reply({"__type": "SubscriptionRequiredException"}, status=400)
        if target:
            return self._reply(target.rpartition(".")[2], _json(asked.body))
        form = {name: values[0] for name, values in parse_qs(asked.body.decode()).items()}
        return self._reply(form.get("Action", ""), form)

    def _reply(self, operation: str, params: Mapping[str, Any]) -> Reply:
        self.asked.append((operation, params))
        known = self.replies.get(operation)
        if known is None:
            return Reply({"__type": "UnknownOperationException", "message": operation}, status=400)
        answer = known(params)
        if isinstance(answer, str):
            return Reply(answer.encode(), headers={"Content-Type": "text/xml"})
        return answer if isinstance(answer, Reply) else Reply(answer)

    def _on_GetCallerIdentity(self, _: Mapping[str, Any]) -> str:
        who = (
            f"<Arn>arn:aws:iam::{ACCOUNT}:user/faultline</Arn><UserId>U</"
            f"UserId><Account>{ACCOUNT}</Account>"
        )
        return _xml("GetCallerIdentity", who)

    def _on_AssumeRole(self, params: Mapping[str, Any]) -> str:
        until = (datetime.now().astimezone() + timedelta(hours=1)).isoformat()
        keys = (
            "<AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>s</"
            "SecretAccessKey><SessionToken>t</SessionToken>"
        )
        given = f"<Credentials>{keys}<Expiration>{until}</Expiration></Credentials>"
        return _xml("AssumeRole", given)

    def _on_DescribeAlarms(self, params: Mapping[str, Any]) -> Body:
        wanted = params.get("AlarmNames")
        if wanted and ALARM not in wanted:
            return {"MetricAlarms": [], "CompositeAlarms": []}
        return {"MetricAlarms": [self.alarm()], "CompositeAlarms": []}

    def alarm(self) -> Body:
        """The alarm that fired."""
        return {
            "AlarmName": ALARM,
            "AlarmArn": f"arn:aws:cloudwatch:{REGION}:{ACCOUNT}:alarm:{ALARM}",
            "StateValue": "ALARM",
            "StateReason": "Threshold Crossed: 3 datapoints were greater than the threshold (1.0).",
            "StateUpdatedTimestamp": self.alert_at.timestamp(),
            "Namespace": "AWS/ApplicationELB",
            "MetricName": "TargetResponseTime",
            "ExtendedStatistic": "p99",
            "Dimensions": [
                {"Name": "LoadBalancer", "Value": BALANCER},
                {"Name": "TargetGroup", "Value": GROUP},
            ],
            "Period": 60,
            "EvaluationPeriods": 3,
            "Threshold": 1.0,
            "ComparisonOperator": "GreaterThanThreshold",
        }

    def _on_DescribeAlarmHistory(self, _: Mapping[str, Any]) -> Body:
        data = json.dumps({"oldState": {"stateValue": "OK"}, "newState": {"stateValue": "ALARM"}})
        item = {
            "AlarmName": ALARM,
            "Timestamp": self.alert_at.timestamp(),
            "HistoryItemType": "StateUpdate",
        }
        return {"AlarmHistoryItems": [{**item, "HistoryData": data}]}

    def _on_ListMetrics(self, _: Mapping[str, Any]) -> Body:
        named = [
            {"Name": "TargetGroup", "Value": GROUP},
            {"Name": "LoadBalancer", "Value": BALANCER},
        ]
        return {
            "Metrics": [
                {
                    "Namespace": "AWS/ApplicationELB",
                    "MetricName": "RequestCount",
                    "Dimensions": named,
                }
            ]
        }

    def _on_GetMetricData(self, params: Mapping[str, Any]) -> Body:
        return {
            "MetricDataResults": [self._series(one, params) for one in params["MetricDataQueries"]]
        }

    def _series(self, query: Mapping[str, Any], params: Mapping[str, Any]) -> Body:
        stat = query.get("MetricStat") or {
            "Metric": {"MetricName": ""},
            "Period": 60,
            "Stat": "Average",
        }
        period = int(stat["Period"])
        first = int(params["StartTime"]) - int(params["StartTime"]) % period
        times, values = [], []
        for number, at in enumerate(range(first, int(params["EndTime"]), period)):
            late = at >= self.onset.timestamp()
            value = _value(stat["Metric"]["MetricName"], stat["Stat"], period, late=late)
            if value is not None:
                times.append(at)
                values.append(value * (1 + 0.01 * (number % 5)))
        return {"Id": query["Id"], "Timestamps": times, "Values": values, "StatusCode": "Complete"}

    def _on_DescribeLogGroups(self, params: Mapping[str, Any]) -> Body:
        name = params.get("logGroupNamePrefix")
        return {
            "logGroups": [{"logGroupName": LOG_GROUP, "storedBytes": 10}]
            if name in (None, LOG_GROUP)
            else []
        }

    def _on_StartQuery(self, params: Mapping[str, Any]) -> Body:
        kind = next(
            (k for k in ("stats", "pattern") if f"| {k} " in params["queryString"]), "lines"
        )
        return {"queryId": f"{kind}-{params['startTime']}-{params['endTime']}"}

    def _on_StopQuery(self, _: Mapping[str, Any]) -> Body:
        return {"success": True}

    def _on_GetQueryResults(self, params: Mapping[str, Any]) -> Body:
        kind, start, end = params["queryId"].split("-")
        late = int(end) > self.onset.timestamp()
        minutes = range(int(self.onset.timestamp()) // 60 + 1, int(end) // 60) if late else range(0)
        rows: list[Mapping[str, Any]] = []
        if kind == "stats":
            rows = [{"minute": _insights(60 * m), "lines": 20} for m in minutes]
        elif kind == "pattern" and late:
            rows = [
                {
                    "@pattern": "ERROR could not get a connection from the pool: <*>",
                    "@sampleCount": 180,
                }
            ]
        elif kind == "lines":
            origin = {"@logStream": "task/1", "@log": f"{ACCOUNT}:{LOG_GROUP}"}
            rows = [
                {"@timestamp": _insights(60 * m + s), "@message": LINE, **origin}
                for m in minutes
                for s in range(20)
            ]
            rows.append(
                {
                    "@timestamp": _insights(int(start) + 60),
                    "@message": "ERROR card was refused",
                    **origin,
                }
            )
        results = [[{"field": k, "value": str(v)} for k, v in row.items()] for row in rows]
        numbers = {"bytesScanned": 5e6, "recordsMatched": float(len(rows)), "recordsScanned": 1e4}
        return {"status": "Complete", "results": results, "statistics": numbers}

    def _on_GetTraceSummaries(self, params: Mapping[str, Any]) -> Body:
        every = (int(params["EndTime"]) - int(params["StartTime"])) // 20 or 1
        times = range(int(params["StartTime"]), int(params["EndTime"]), every)
        return {
            "TraceSummaries": [
                {"Id": f"1-{at:08x}-{0:024x}", "HasFault": self._late(at)} for at in times
            ]
        }

    def _late(self, at: float) -> bool:
        return at >= self.onset.timestamp()

    def _on_BatchGetTraces(self, params: Mapping[str, Any]) -> Body:
        return {
            "Traces": [self._trace(one) for one in params["TraceIds"]],
            "UnprocessedTraceIds": [],
        }

    def _trace(self, trace_id: str) -> Body:
        at = int(trace_id.split("-")[1], 16)
        took = 2.2 if self._late(at) else 0.2
        query = {
            "id": "b" * 16,
            "name": "orders",
            "start_time": at + 0.01,
            "end_time": at + took - 0.01,
        }
        document = {
            "id": "a" * 16,
            "trace_id": trace_id,
            "name": "checkout",
            "start_time": at,
            "end_time": at + took,
            "http": {
                "request": {"method": "POST", "url": "https://shop.example/orders?card=4"},
                "response": {"status": 500 if self._late(at) else 200},
            },
            "fault": self._late(at),
            "subsegments": [{**query, "namespace": "remote"}],
        }
        if self._late(at):
            document["cause"] = {
                "exceptions": [{"type": "PoolTimeout", "message": "no connection in 2 s"}]
            }
        called = {"id": "c" * 16, "parent_id": "b" * 16, "name": "orders", "inferred": True}
        called |= {"start_time": at + 0.02, "end_time": at + 0.1}
        parts = [
            {"Id": "a" * 16, "Document": json.dumps(document)},
            {"Id": "c" * 16, "Document": json.dumps(called)},
        ]
        return {"Id": trace_id, "Duration": took, "Segments": parts}

    def _on_GetServiceGraph(self, _: Mapping[str, Any]) -> Body:
        services = [
            {"ReferenceId": 0, "Name": "client", "Type": "client", "Edges": [{"ReferenceId": 1}]},
            {
                "ReferenceId": 1,
                "Name": "checkout",
                "Type": "AWS::ECS::Container",
                "Edges": [{"ReferenceId": 2}],
            },
            {"ReferenceId": 2, "Name": "orders", "Type": "Database::SQL", "Edges": []},
        ]
        return {"Services": services}

    def _on_DescribeServices(self, _: Mapping[str, Any]) -> Body:
        at = self.deployed.timestamp()
        events = [
            {
                "id": "e2",
                "createdAt": at + 90,
                "message": "(service checkout) has reached a steady state.",
            },
            {
                "id": "e1",
                "createdAt": at,
                "message": "(service checkout) has started 2 tasks: (task 1) (task 2).",
            },
        ]
        service = {
            "serviceName": "checkout",
            "taskDefinition": _definition_arn(42),
            "events": events,
        }
        return {"services": [service], "failures": []}

    def _on_DescribeTaskDefinition(self, params: Mapping[str, Any]) -> Body:
        number = int(params["taskDefinition"].rpartition(":")[2])
        variables = [
            {"name": "POOL_SIZE", "value": "64" if number == 41 else "4"},
            {"name": "MODE", "value": "live"},
        ]
        container = {
            "name": "app",
            "image": f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/checkout:1.{number}",
            "environment": variables,
            "logConfiguration": {"logDriver": "awslogs", "options": {"awslogs-group": LOG_GROUP}},
        }
        return {
            "taskDefinition": {
                "taskDefinitionArn": _definition_arn(number),
                "containerDefinitions": [container],
            }
        }

    def _on_ListServiceDeployments(self, params: Mapping[str, Any]) -> Body:
        brief = {"serviceDeploymentArn": _deployment_arn(), "createdAt": self.deployed.timestamp()}
        return {"serviceDeployments": [{**brief, "status": "SUCCESSFUL"}]}

    def _on_DescribeServiceDeployments(self, _: Mapping[str, Any]) -> Body:
        one = {
            "serviceDeploymentArn": _deployment_arn(),
            "createdAt": self.deployed.timestamp(),
            "startedAt": self.deployed.timestamp(),
            "status": "SUCCESSFUL",
            "sourceServiceRevisions": [{"arn": _revision_arn(41)}],
            "targetServiceRevision": {"arn": _revision_arn(42)},
        }
        return {"serviceDeployments": [one], "failures": []}

    def _on_DescribeServiceRevisions(self, params: Mapping[str, Any]) -> Body:
        revisions = [
            {
                "serviceRevisionArn": arn,
                "taskDefinition": _definition_arn(int(arn.rpartition("/")[2])),
            }
            for arn in params["serviceRevisionArns"]
        ]
        return {"serviceRevisions": revisions, "failures": []}

    def _on_ListTasks(self, _: Mapping[str, Any]) -> Body:
        return {"taskArns": [f"{ECS}:task/shop/1"]}

    def _on_DescribeTasks(self, _: Mapping[str, Any]) -> Body:
        killed = {
            "name": "app",
            "exitCode": 137,
            "reason": "OutOfMemoryError: Container killed due to memory usage",
        }
        task = {
            "taskArn": f"{ECS}:task/shop/1",
            "stoppedAt": (self.onset + timedelta(minutes=4)).timestamp(),
            "stoppedReason": "Essential container in task exited",
            "containers": [
                killed,
                {"name": "sidecar", "exitCode": 0},
                {"name": "init", "exitCode": 1},
                {"name": "agent", "reason": "CannotPullContainerError"},
            ],
        }
        return {"tasks": [task], "failures": []}

    def _on_ListDeployments(self, _: Mapping[str, Any]) -> Body:
        return {"deployments": ["d-ABCDEF123"]}

    def _on_BatchGetDeployments(self, _: Mapping[str, Any]) -> Body:
        at = (self.alert_at - timedelta(hours=3)).timestamp()
        revision = {
            "revisionType": "GitHub",
            "gitHubLocation": {"repository": "shop/checkout", "commitId": "f" * 40},
        }
        one = {
            "deploymentId": "d-ABCDEF123",
            "createTime": at,
            "status": "Succeeded",
            "revision": revision,
        }
        return {"deploymentsInfo": [{**one, "creator": "user"}]}

    def _on_ListVersionsByFunction(self, _: Mapping[str, Any]) -> Body:
        at = (self.alert_at - timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%S.000+0000")
        old = (self.alert_at - timedelta(days=9)).strftime("%Y-%m-%dT%H:%M:%S.000+0000")
        hidden = {"Environment": {"Variables": {"TOKEN": "hunter2-hunter2"}}}
        latest = {
            "Version": "$LATEST",
            "LastModified": at,
            "CodeSha256": "b",
            "MemorySize": 512,
            "Timeout": 3,
        }
        return {
            "Versions": [
                latest | hidden,
                {"Version": "7", "LastModified": old, "CodeSha256": "b"} | hidden,
            ]
        }

    def _on_DescribeEvents(self, _: Mapping[str, Any]) -> str:
        at = (self.alert_at - timedelta(minutes=70)).strftime("%Y-%m-%dT%H:%M:%SZ")
        event = (
            "<Event><SourceIdentifier>checkout-db</SourceIdentifier>"
            "<SourceType>db-instance</SourceType>"
            "<Message>Finished applying modification to DB instance class</Message>"
            "<EventCategories><EventCategory>configuration change</EventCategory></EventCategories>"
            f"<Date>{at}</Date></Event>"
        )
        return _xml("DescribeEvents", f"<Events>{event}</Events>")

    def _on_DescribeDBInstances(self, _: Mapping[str, Any]) -> str:
        waits = (
            "<DBParameterGroups><DBParameterGroup>"
            "<DBParameterGroupName>checkout-pg16</DBParameterGroupName>"
            "<ParameterApplyStatus>pending-reboot</ParameterApplyStatus>"
            "</DBParameterGroup></DBParameterGroups>"
        )
        instance = (
            "<DBInstance><DBInstanceIdentifier>checkout-db</DBInstanceIdentifier>"
            f"<DBInstanceStatus>available</DBInstanceStatus>{waits}</DBInstance>"
        )
        return _xml("DescribeDBInstances", f"<DBInstances>{instance}</DBInstances>")

    def _on_GetQueueUrl(self, params: Mapping[str, Any]) -> Body:
        return {"QueueUrl": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{params['QueueName']}"}

    def _on_GetQueueAttributes(self, _: Mapping[str, Any]) -> Body:
        return {}

    def _on_LookupEvents(self, params: Mapping[str, Any]) -> Body:
        wanted = (params.get("LookupAttributes") or [{}])[0].get("AttributeValue")
        events = [
            self._event("UpdateService", "alice", self.deployed, {"taskDefinition": "checkout:42"}),
            self._event(
                "UpdateService", "scaler", self.alert_at - timedelta(hours=1), {"desiredCount": 6}
            ),
            self._event("DescribeServices", "bob", self.alert_at, {}, read="true"),
        ]
        return {"Events": events if wanted == "checkout" else []}

    def _event(self, name: str, who: str, at: datetime, asked: Body, read: str = "false") -> Body:
        record = {
            "eventSource": "ecs.amazonaws.com",
            "requestParameters": asked,
            "userIdentity": {"type": "IAMUser"},
        }
        return {
            "EventId": f"{name}-{who}",
            "EventName": name,
            "ReadOnly": read,
            "EventTime": at.timestamp(),
            "EventSource": "ecs.amazonaws.com",
            "Username": who,
            "CloudTrailEvent": json.dumps(record),
        }


def _value(metric: str, stat: str, period: int, *, late: bool) -> float | None:
    """Samples of the incident; a metric of errors has none while there are no errors."""
    table: dict[str, tuple[float | None, float | None]] = {
        "RequestCount": (100.0 * period, 100.0 * period),
        "HTTPCode_Target_5XX_Count": (None, 30.0 * period),
        "TargetResponseTime": (0.2, 2.2) if stat == "p99" else (0.05, 1.6),
        "CPUUtilization": (40.0, 41.0),
        "MemoryUtilization": (50.0, 50.5),
        "DatabaseConnections": (60.0, 8.0),
    }
    return table.get(metric, (None, None))[late]


def _insights(at: float) -> str:
    return datetime.fromtimestamp(at, ALERT_AT.tzinfo).strftime("%Y-%m-%d %H:%M:%S.000")


def _definition_arn(number: int) -> str:
    return f"{ECS}:task-definition/checkout:{number}"


def _deployment_arn() -> str:
    return f"{ECS}:service-deployment/shop/checkout/dep1"


def _revision_arn(number: int) -> str:
    return f"{ECS}:service-revision/shop/checkout/{number}"


def _xml(operation: str, inner: str) -> str:
    return (
        f"<{operation}Response><{operation}Result>{inner}</{operation}Result></{operation}Response>"
    )


def _json(body: bytes) -> Mapping[str, Any]:
    found = json.loads(body or b"{}")
    return found if isinstance(found, dict) else {}
