"""The kinds of resources that are looked at: their list in the catalogue, their CloudWatch
dimensions, and what an object of theirs is called in a fact."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.connectors.shared.settings.shared_settings import ServiceAwsSettings
from faultline.connectors.vendors.aws.resource import ResourceKind


@dataclass(frozen=True)
class NamedKind:
    """How one kind is named. A name of several dimensions has `/` between their values."""

    kind: ResourceKind
    setting: str
    namespace: str
    dimensions: tuple[str, ...]
    object: str
    in_trail: bool = False
    """Whether CloudTrail lists it by the name it is known by; others it lists by ARN or not."""


NAMED_KINDS = (
    NamedKind("target_group", "target_groups", "AWS/ApplicationELB", ("TargetGroup",), "Targets"),
    NamedKind("api", "apis", "AWS/ApiGateway", ("ApiName",), "API", in_trail=True),
    NamedKind("lambda", "lambdas", "AWS/Lambda", ("FunctionName",), "Function", in_trail=True),
    NamedKind(
        "ecs", "ecs", "AWS/ECS", ("ClusterName", "ServiceName"), "ECS service", in_trail=True
    ),
    NamedKind(
        "database",
        "databases",
        "AWS/RDS",
        ("DBInstanceIdentifier",),
        "DBInstance",
        in_trail=True,
    ),
    NamedKind("queue", "queues", "AWS/SQS", ("QueueName",), "Queue"),
    NamedKind("dead_letter_queue", "", "AWS/SQS", ("QueueName",), "Dead-letter queue"),
    NamedKind("table", "tables", "AWS/DynamoDB", ("TableName",), "Table"),
    NamedKind("cache", "caches", "AWS/ElastiCache", ("CacheClusterId",), "Cache"),
    NamedKind(
        "scaling_group",
        "auto_scaling_groups",
        "AWS/EC2",
        ("AutoScalingGroupName",),
        "AutoScalingGroup",
    ),
    NamedKind("instance", "instances", "AWS/EC2", ("InstanceId",), "Instance"),
    NamedKind("stream", "streams", "AWS/Kinesis", ("StreamName",), "Stream"),
    NamedKind(
        "state_machine", "state_machines", "AWS/States", ("StateMachineArn",), "StateMachine"
    ),
    NamedKind("nat_gateway", "nat_gateways", "AWS/NATGateway", ("NatGatewayId",), "NatGateway"),
    NamedKind("db_cluster", "db_clusters", "AWS/RDS", ("DBClusterIdentifier",), "DBCluster"),
    NamedKind("eks", "eks_clusters", "AWS/EKS", ("ClusterName",), "EKS cluster"),
)
"""In the order in which a service's resources are taken; an alarm's dimensions mean the first whose
dimensions they have."""
BY_KIND: Mapping[ResourceKind, NamedKind] = {
    named_kind.kind: named_kind for named_kind in NAMED_KINDS
}

IDENTIFIED_KINDS: frozenset[ResourceKind] = frozenset({"instance", "nat_gateway"})
"""Their ids say nothing of the service that they belong to."""


_LOAD_BALANCING = re.compile(r"(?:^|[:/])(?:app|net|gwy|targetgroup)/([^/]+)/[^/]+$")
"""The dimensions `LoadBalancer` and `TargetGroup`, and the ends of such ARNs, as AWS writes them:
Elastic Load Balancing, "CloudWatch metrics"."""
_GENERATED = re.compile(r"[0-9a-f]{16,}|[0-9a-f-]{32,}|tf-?(?:lb-)?\d{14,}.*")


def is_generated(name: str) -> bool:
    """Whether a name was made by a machine, so that it says nothing of a service: a digest, or a
    time that Terraform numbers with."""
    return _GENERATED.fullmatch(name) is not None


def catalogued_names(entry: ServiceAwsSettings, named: NamedKind) -> Sequence[str]:
    """The resources of one kind that the catalogue names for a service."""
    if not named.setting:
        return ()
    names: Sequence[str] = getattr(entry, named.setting)
    return names


def base_name(name: str) -> str:
    """The last part of an ARN or of a name of several parts; of a load balancer or target group the
    name before its id."""
    match = _LOAD_BALANCING.search(name)
    if match is not None:
        return match[1]
    return name.rpartition("/")[2].rpartition(":")[2]


def resource_names(dimensions: Mapping[str, str]) -> tuple[ResourceKind, str] | None:
    """The kind and name of the resource that an alarm's dimensions mean; None where they mean none
    that is known."""
    for named in NAMED_KINDS:
        # A cluster without a service may be of ECS as well.
        if named.kind == "eks":
            continue
        values = [dimensions.get(dimension, "") for dimension in named.dimensions]
        if all(values):
            return named.kind, "/".join(values)
    # HTTP APIs are measured by id, REST APIs by name.
    if dimensions.get("ApiId"):
        return "api", dimensions["ApiId"]
    return None
