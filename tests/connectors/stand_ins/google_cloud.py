"""Google Cloud: checkout on Cloud Run fails from ONSET on, two minutes after somebody deployed it
and while its database failed over. It answers in the shapes of the discovery documents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from faultline.connectors.shared.auth.google_token import GOOGLE_TOKEN
from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins.loki import LINES, TRACE_ID

PROJECT = "shop-prod"
ENTRIES = "/v2/entries:list"
SERIES = f"/v3/projects/{PROJECT}/timeSeries"
TRACES = f"/v1/projects/{PROJECT}/traces"
GROUPS = f"/v1beta1/projects/{PROJECT}/groupStats"
CLUSTERS = f"/v1/projects/{PROJECT}/locations/-/operations"
DATABASES = f"/v1/projects/{PROJECT}/operations"
RUN = f"/v2/projects/{PROJECT}/locations/{{}}/services/{{}}/revisions"
REVISIONS = RUN.format("europe-west1", "checkout")
POLICIES = f"/v3/projects/{PROJECT}/alertPolicies"
PROMQL = f"/v1/projects/{PROJECT}/location/global/prometheus/api/v1/query_range"
MQL = f"{SERIES}:query"
READING_POSTS = frozenset({ENTRIES, MQL})
DEPLOYED = ONSET - timedelta(minutes=2)
IMAGE = "europe-docker.pkg.dev/shop-prod/apps/checkout:v42"
RESOURCE = {
    "type": "cloud_run_revision",
    "labels": {
        "project_id": PROJECT,
        "service_name": "checkout",
        "revision_name": "checkout-00042-abc",
        "configuration_name": "checkout",
        "location": "europe-west1",
    },
}
TRACE = "aaf92f3577b34da6a3ce929d0e0e4736"


def settings(url: str) -> dict[str, Any]:
    """Whatever API, and the metadata server, at one address."""
    return {"google_cloud": {"project": PROJECT, "api_url": url, "identity_url": url}}


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(GOOGLE_TOKEN, Reply({"access_token": "of-google", "expires_in": 3599}))
    server.on(ENTRIES, entries)
    server.on(SERIES, series)
    server.on(TRACES, traces)
    server.on(GROUPS, groups)
    operation = {
        "name": "operation-1",
        "operationType": "AUTO_UPGRADE_NODES",
        "startTime": zulu(DEPLOYED - timedelta(hours=3)),
        "targetLink": f"https://container.googleapis.com/v1/projects/{PROJECT}/locations/eu/clusters/main",
        "status": "DONE",
    }
    server.on(CLUSTERS, Reply({"operations": [operation]}))
    failover = {
        "kind": "sql#operation",
        "name": "8f3d",
        "operationType": "FAILOVER",
        "insertTime": zulu(ONSET),
        "startTime": zulu(ONSET),
        "targetId": "checkout",
        "user": "ops@example.com",
        "status": "DONE",
    }
    backup = failover | {"name": "8f3e", "operationType": "BACKUP"}
    server.on(REVISIONS, Reply({"revisions": revisions()}))
    server.on(RUN.format("us-central1", "-"), Reply({}))
    server.on(DATABASES, Reply({"kind": "sql#operationsList", "items": [failover, backup]}))


def revisions() -> list[dict[str, Any]]:
    """The newest first: of the deploy, and of one three days ago."""
    made = DEPLOYED + timedelta(seconds=4)
    return [
        revision("checkout-00042-abc", made, IMAGE, "hunter2"),
        revision("checkout-00041-xyz", made - timedelta(days=3), f"{IMAGE[:-3]}v41", "hunter1"),
    ]


def revision(name: str, made: datetime, image: str, token: str, **own: Any) -> dict[str, Any]:
    """One revision as the API has it."""
    variables = [{"name": "PSP_TOKEN", "value": token}, {"name": "REGION", "value": "eu"}]
    container = {
        "name": "app",
        "image": image,
        "env": variables,
        "resources": {"limits": {"cpu": "1", "memory": "512Mi"}, "cpuIdle": True},
        "startupProbe": {"timeoutSeconds": 240, "tcpSocket": {"port": 8080}},
    }
    return {
        "name": f"projects/{PROJECT}/locations/europe-west1/services/checkout/revisions/{name}",
        "uid": "0f",
        "generation": "1",
        "createTime": zulu(made),
        "creator": "ada@example.com",
        "service": "checkout",
        "scaling": {"maxInstanceCount": 20},
        "maxInstanceRequestConcurrency": 80,
        "timeout": "300s",
        "serviceAccount": "checkout@shop-prod.iam.gserviceaccount.com",
        "containers": [container],
        "conditions": [{"type": "Ready", "state": "CONDITION_SUCCEEDED"}],
        **own,
    }


def zulu(at: datetime) -> str:
    """RFC 3339 as Google writes it, with nanoseconds."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def entries(asked: Asked) -> Reply:
    """Entries of the window that a filter names, errors alone where it says so."""
    body = json.loads(asked.body)
    assert body["resourceNames"] == [f"projects/{PROJECT}"]
    text = body["filter"]
    bounds = re.findall(r'timestamp(?:>=|<)"([^"]+)"', text)
    start, end = (datetime.fromisoformat(one) for one in bounds)
    if text.startswith("(log_id("):
        found = [change(at) for at in (DEPLOYED,) if start <= at < end]
        return Reply({"entries": found})
    found = []
    for at, level, said in LINES if '"checkout"' in text else ():
        if start <= at < end and (level == "error" or "severity>=ERROR" not in text):
            found.append(entry(at, level.upper(), said))
    size = int(body["pageSize"])
    page = int(body.get("pageToken") or 0)
    answer: dict[str, Any] = {"entries": found[page : page + size]}
    if page + size < len(found):
        answer["nextPageToken"] = str(page + size)
    return Reply(answer)


def entry(at: datetime, severity: str, said: str) -> dict[str, Any]:
    """A line that a container wrote as JSON."""
    return {
        "insertId": f"{at:%H%M%S}{severity}",
        "logName": f"projects/{PROJECT}/logs/run.googleapis.com%2Fstdout",
        "resource": RESOURCE,
        "timestamp": zulu(at),
        "receiveTimestamp": zulu(at),
        "severity": severity,
        "jsonPayload": {"message": said, "order": 7},
        "trace": f"projects/{PROJECT}/traces/{TRACE_ID}",
    }


def change(at: datetime) -> dict[str, Any]:
    """A deploy, as the activity log has it (cloud.google.com/run/docs/audit-logging)."""
    containers = [{"image": IMAGE, "ports": [{"containerPort": 8080}]}]
    return {
        "insertId": "9k2x1",
        "logName": f"projects/{PROJECT}/logs/cloudaudit.googleapis.com%2Factivity",
        "resource": RESOURCE,
        "timestamp": zulu(at),
        "severity": "NOTICE",
        "protoPayload": {
            "@type": "type.googleapis.com/google.cloud.audit.AuditLog",
            "serviceName": "run.googleapis.com",
            "methodName": "google.cloud.run.v1.Services.ReplaceService",
            "resourceName": f"namespaces/{PROJECT}/services/checkout",
            "authenticationInfo": {"principalEmail": "ada@example.com"},
            "request": {"service": {"spec": {"template": {"spec": {"containers": containers}}}}},
        },
    }


def minutes(start: datetime, end: datetime) -> Iterator[datetime]:
    """The ends of the whole minutes in a window."""
    at = start.replace(second=0, microsecond=0) + timedelta(minutes=1)
    while at <= end:
        yield at
        at += timedelta(minutes=1)


def series(asked: Asked) -> Reply:
    """Requests, latencies and lines of checkout on Cloud Run; there is nothing else."""
    text = asked.query["filter"][0]
    start, end = (
        datetime.fromisoformat(asked.query[f"interval.{name}"][0])
        for name in ("startTime", "endTime")
    )
    metric, resource = re.findall(r'(?:metric|resource)\.type="([^"]+)"', text)
    if resource != "cloud_run_revision" or '"checkout"' not in text:
        return Reply({})
    place = {"service_name": "checkout", "location": "europe-west1", "project_id": PROJECT}
    found = []
    for label, values in of_metric(metric, asked.query["aggregation.crossSeriesReducer"][0]):
        points = []
        for at in reversed(list(minutes(start, end))):
            value = values(at)
            if value is not None:
                begins = zulu(at - timedelta(minutes=1))
                points.append(
                    {"interval": {"startTime": begins, "endTime": zulu(at)}, "value": value}
                )
        found.append(
            {
                "metric": {"type": metric, "labels": label},
                "resource": {"type": resource, "labels": place},
                "metricKind": "GAUGE",
                "valueType": "DOUBLE",
                "points": points,
            }
        )
    return Reply({"timeSeries": found, "unit": "1"})


def of_metric(metric: str, reducer: str) -> list[tuple[dict[str, str], Any]]:
    """Labels and values of each series of a metric."""
    late = ONSET + timedelta(minutes=1)

    def rate(good: float, bad: float) -> Any:
        return lambda at: {"doubleValue": bad if at >= late else good}

    if metric.endswith("request_count"):
        return [
            ({"response_code_class": "2xx"}, rate(20.0, 12.0)),
            (
                {"response_code_class": "5xx"},
                lambda at: {"doubleValue": 8.0} if at >= late else None,
            ),
        ]
    if metric.endswith("request_latencies"):
        base = 90.0 if reducer.endswith("99") else 30.0
        return [
            ({}, lambda at: {"doubleValue": base + at.minute % 5 + (2000 if at >= late else 0)})
        ]
    if metric.endswith("log_entry_count"):
        return [
            ({"severity": "INFO"}, lambda at: {"int64Value": "6"}),
            ({"severity": "ERROR"}, lambda at: {"int64Value": "6"} if at >= late else None),
        ]
    return []


def traces(asked: Asked) -> Reply:
    """Two traces of each third, which fail from ONSET on."""
    assert asked.query["view"] == ["COMPLETE"]
    if asked.query["filter"] != ['+service.name:"checkout"']:
        return Reply({})
    start, end = (datetime.fromisoformat(asked.query[name][0]) for name in ("startTime", "endTime"))
    found = []
    for number, at in enumerate(list(minutes(start, end - timedelta(minutes=1)))[::9]):
        failed = at >= ONSET
        took = timedelta(milliseconds=2090 if failed else 90)
        labels = {"service.name": "checkout", "/http/status_code": "503" if failed else "200"}
        root = {
            "spanId": "14830837120927262273",
            "kind": "RPC_SERVER",
            "name": "POST /orders",
            "startTime": zulu(at),
            "endTime": zulu(at + took),
            "labels": labels,
        }
        call = root | {
            "spanId": "77",
            "parentSpanId": "14830837120927262273",
            "kind": "RPC_CLIENT",
            "name": "SELECT stock",
            "labels": {"service.name": "checkout", "db.system": "postgresql"},
        }
        trace_id = f"{int(at.timestamp()):08x}{number:024x}"
        found.append({"projectId": PROJECT, "traceId": trace_id, "spans": [root, call]})
    return Reply({"traces": found})


def groups(asked: Asked) -> Reply:
    """One group of errors that is new."""
    if asked.query["serviceFilter.service"] != ["checkout"]:
        return Reply({})
    step = timedelta(seconds=int(asked.query["timedCountDuration"][0].removesuffix("s")))
    at, counts = ONSET, []
    while at < ALERT_AT:
        counts.append({"count": "12", "startTime": zulu(at), "endTime": zulu(at + step)})
        at += step
    group = {
        "group": {"name": f"projects/{PROJECT}/groups/CNSgkp", "groupId": "CNSgkp"},
        "count": "120",
        "affectedUsersCount": "31",
        "firstSeenTime": zulu(ONSET),
        "lastSeenTime": zulu(ALERT_AT),
        "timedCounts": counts,
        "representative": {
            "eventTime": zulu(ONSET + timedelta(minutes=1)),
            "message": "OutOfStock: could not reserve\n  at reserve (orders.js:12:7)",
            "serviceContext": {"service": "checkout", "version": "v42"},
        },
    }
    return Reply({"errorGroupStats": [group], "timeRangeBegin": zulu(ONSET)})
