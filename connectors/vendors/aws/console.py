"""Links into the AWS console at the exact object, query and window.

The console writes the state of a page behind `#` in a form like JSURL: `~(key~value)`, a string
begins with `'`, and what is no letter, digit, `-`, `_` or `.` is `*` and two hexadecimal digits.
Logs Insights' is percent-encoded twice, with `$` for `%`. AWS documents neither; both are what the
console's own address bar shows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.aws.resource import Resource, ResourceKind

_CONSOLES = {"cn-": "console.amazonaws.cn", "us-gov-": "console.amazonaws-us-gov.com"}
"""Partitions with their own console, by how their regions begin."""
_OTHER = "console.aws.amazon.com"
_PAGES: Mapping[ResourceKind, str] = {
    "queue": "sqs/v3/home?region={region}#/queues",
    "dead_letter_queue": "sqs/v3/home?region={region}#/queues",
    "table": "dynamodbv2/home?region={region}#table?name={name}&tab=monitoring",
    "cache": "elasticache/home?region={region}#/events",
    "scaling_group": ("ec2/home?region={region}#AutoScalingGroupDetails:id={name};view=activity"),
    "instance": "ec2/home?region={region}#InstanceDetails:instanceId={name}",
    "state_machine": "states/home?region={region}#/statemachines/view/{name}",
    "db_cluster": (
        "rds/home?region={region}#database:id={name};is-cluster=true;tab=logs-and-events"
    ),
    "eks": "eks/home?region={region}#/clusters/{name}",
}
_UNSAFE = re.compile(rb"[^A-Za-z0-9_.-]")
_TWICE = str.maketrans({"~": "$257E", "(": "$2528", ")": "$2529", "'": "$2527"})


def alarm_link(region: str, name: str) -> str:
    """The page of an alarm."""
    return _cloudwatch(region, f"alarmsV2:alarm/{quote(name, safe='')}")


def firing_link(region: str) -> str:
    """The alarms that are firing now."""
    return _cloudwatch(region, "alarmsV2:?~(alarmStateFilter~'ALARM)")


def metrics_link(
    region: str, metrics: Sequence[Sequence[Any]], window: Window, period_s: int
) -> str:
    """A graph. A metric is a list: namespace, name, dimension names and values in turn, options as
    a mapping."""
    graph = {
        "metrics": list(metrics),
        "view": "timeSeries",
        "stacked": False,
        "region": region,
        "start": console_time(window.start),
        "end": console_time(window.end),
        "period": period_s,
    }
    return _cloudwatch(region, f"metricsV2:graph={_state(graph)}")


def insights_link(region: str, groups: Sequence[str], query: str, window: Window) -> str:
    """A query of Logs Insights, ready to run."""
    detail = {
        "end": console_time(window.end),
        "start": console_time(window.start),
        "timeType": "ABSOLUTE",
        "tz": "UTC",
        "editorString": query,
        "source": list(groups),
    }
    # `$3F` and `$3D` are `?` and `=` in this page's encoding.
    return _cloudwatch(
        region, "logsV2:logs-insights$3FqueryDetail$3D" + _state(detail).translate(_TWICE)
    )


def traces_link(region: str, expression: str, window: Window) -> str:
    """A search for traces."""
    span = {"end": console_time(window.end), "start": console_time(window.start)}
    state = _state({"query": {"expression": expression}, "context": {"timeRange": span}})
    return _cloudwatch(region, f"xray:traces/query?{state}")


def service_map_link(region: str, window: Window) -> str:
    """The map of services."""
    span = {"end": console_time(window.end), "start": console_time(window.start)}
    return _cloudwatch(region, f"xray:service-map/map?{_state({'context': {'timeRange': span}})}")


def trail_link(region: str, resource: str, window: Window) -> str:
    """The history of events about a resource."""
    phrase = f"ResourceName={quote(resource, safe='')}"
    span = (
        f"StartTime={quote(console_time(window.start), safe='')}&"
        f"EndTime={quote(console_time(window.end), safe='')}"
    )
    return f"{_base(region)}/cloudtrailv2/home?region={region}#/events?{phrase}&{span}"


def trail_event_link(region: str, event_id: str) -> str:
    """One event of CloudTrail."""
    return f"{_base(region)}/cloudtrailv2/home?region={region}#/events/{quote(event_id, safe='')}"


def ecs_link(region: str, cluster: str, service: str, page: str = "deployments") -> str:
    """A page of an ECS service: deployments, events, tasks."""
    path = f"clusters/{quote(cluster, safe='')}/services/{quote(service, safe='')}/{page}"
    return f"{_base(region)}/ecs/v2/{path}?region={region}"


def lambda_link(region: str, function: str, version: str | None = None) -> str:
    """A function, or one version of it."""
    tail = f"/versions/{quote(version, safe='')}" if version else ""
    return (
        f"{_base(region)}/lambda/home?region={region}#/functions/{quote(function, safe='')}{tail}"
    )


def codedeploy_link(region: str, deployment: str) -> str:
    """A deployment of CodeDeploy."""
    return (
        f"{_base(region)}/codesuite/codedeploy/deployments/"
        f"{quote(deployment, safe='')}?region={region}"
    )


def database_link(region: str, database: str) -> str:
    """An RDS instance's logs and events."""
    return (
        f"{_base(region)}/rds/"
        f"home?region={region}#database:id={quote(database, safe='')};tab=logs-and-events"
    )


def resource_link(resource: Resource) -> str:
    """The page of a resource; of its service where it has none by its name."""
    region = resource.place.region
    path = _PAGES.get(resource.kind, "console/home?region={region}")
    return f"{_base(region)}/{path.format(region=region, name=quote(resource.name, safe=''))}"


def health_link(region: str) -> str:
    """The open issues of AWS Health."""
    return f"{_base(region)}/health/home?region={region}#/account/dashboard/open-issues"


def console_time(at: datetime) -> str:
    """A time as the console writes it."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{at.microsecond // 1000:03d}Z"


def _cloudwatch(region: str, fragment: str) -> str:
    return f"{_base(region)}/cloudwatch/home?region={region}#{fragment}"


def _base(region: str) -> str:
    # China and GovCloud have consoles of another domain.
    host = next((host for begins, host in _CONSOLES.items() if region.startswith(begins)), _OTHER)
    return f"https://{quote(region, safe='')}.{host}"


def _state(value: Any) -> str:
    """A value in the console's form."""
    # In Python a bool is an int, too, so it comes first.
    if isinstance(value, bool):
        return f"~{str(value).lower()}"
    if isinstance(value, (int, float)):
        return f"~{value}"
    if isinstance(value, str):
        raw = value.encode("utf-8", "replace")
        return "~'" + _UNSAFE.sub(lambda match: f"*{match[0][0]:02x}".encode(), raw).decode("ascii")
    if isinstance(value, Mapping):
        return "~(" + "~".join(f"{key}{_state(inner)}" for key, inner in value.items()) + ")"
    return "~(" + "".join(_state(inner) for inner in value) + ")"
