"""Every AWS operation that is ever sent, and the IAM action that allows it: one list for guard,
policy and pages.

An operation is named as in AWS's API reference, `service` as boto3 names it. Operation and action
differ in name for S3 alone, and Step Functions' actions begin with `states`
(docs.aws.amazon.com/service-authorization, "Actions, resources, and condition keys").
"""

from __future__ import annotations

import json
from collections.abc import Mapping

ACTIONS: Mapping[tuple[str, str], str] = {
    ("sts", "GetCallerIdentity"): "sts:GetCallerIdentity",
    ("sts", "AssumeRole"): "sts:AssumeRole",
    ("cloudwatch", "GetMetricData"): "cloudwatch:GetMetricData",
    ("cloudwatch", "ListMetrics"): "cloudwatch:ListMetrics",
    ("cloudwatch", "DescribeAlarms"): "cloudwatch:DescribeAlarms",
    ("cloudwatch", "DescribeAlarmHistory"): "cloudwatch:DescribeAlarmHistory",
    ("logs", "DescribeLogGroups"): "logs:DescribeLogGroups",
    ("logs", "StartQuery"): "logs:StartQuery",
    ("logs", "GetQueryResults"): "logs:GetQueryResults",
    ("logs", "StopQuery"): "logs:StopQuery",
    ("xray", "GetTraceSummaries"): "xray:GetTraceSummaries",
    ("xray", "BatchGetTraces"): "xray:BatchGetTraces",
    ("xray", "GetServiceGraph"): "xray:GetServiceGraph",
    ("ecs", "DescribeServices"): "ecs:DescribeServices",
    ("ecs", "DescribeTaskDefinition"): "ecs:DescribeTaskDefinition",
    ("ecs", "ListServiceDeployments"): "ecs:ListServiceDeployments",
    ("ecs", "DescribeServiceDeployments"): "ecs:DescribeServiceDeployments",
    ("ecs", "DescribeServiceRevisions"): "ecs:DescribeServiceRevisions",
    ("ecs", "ListTasks"): "ecs:ListTasks",
    ("ecs", "DescribeTasks"): "ecs:DescribeTasks",
    ("codedeploy", "ListDeployments"): "codedeploy:ListDeployments",
    ("codedeploy", "BatchGetDeployments"): "codedeploy:BatchGetDeployments",
    ("lambda", "ListVersionsByFunction"): "lambda:ListVersionsByFunction",
    ("rds", "DescribeEvents"): "rds:DescribeEvents",
    ("rds", "DescribeDBInstances"): "rds:DescribeDBInstances",
    ("rds", "DescribeDBClusters"): "rds:DescribeDBClusters",
    ("sqs", "GetQueueUrl"): "sqs:GetQueueUrl",
    ("sqs", "GetQueueAttributes"): "sqs:GetQueueAttributes",
    ("dynamodb", "DescribeTable"): "dynamodb:DescribeTable",
    ("elasticache", "DescribeCacheClusters"): "elasticache:DescribeCacheClusters",
    ("elasticache", "DescribeEvents"): "elasticache:DescribeEvents",
    ("autoscaling", "DescribeScalingActivities"): "autoscaling:DescribeScalingActivities",
    ("ec2", "DescribeInstanceStatus"): "ec2:DescribeInstanceStatus",
    ("stepfunctions", "ListExecutions"): "states:ListExecutions",
    ("stepfunctions", "DescribeExecution"): "states:DescribeExecution",
    ("eks", "DescribeCluster"): "eks:DescribeCluster",
    ("eks", "ListNodegroups"): "eks:ListNodegroups",
    ("eks", "DescribeNodegroup"): "eks:DescribeNodegroup",
    ("eks", "ListUpdates"): "eks:ListUpdates",
    ("eks", "DescribeUpdate"): "eks:DescribeUpdate",
    ("health", "DescribeEvents"): "health:DescribeEvents",
    ("cloudtrail", "LookupEvents"): "cloudtrail:LookupEvents",
    ("s3", "ListObjectsV2"): "s3:ListBucket",
    ("s3", "GetObject"): "s3:GetObject",
}
"""(service, operation) to IAM action. Whatever is not listed is refused before it is sent."""

CASE_STORE: Mapping[str, tuple[str, ...]] = {
    "ListObjectsV2": ("s3:ListBucket",),
    "GetObject": ("s3:GetObject",),
    "HeadObject": ("s3:GetObject",),
    "PutObject": ("s3:PutObject",),
    "CreateMultipartUpload": ("s3:PutObject",),
    "UploadPart": ("s3:PutObject",),
    "CompleteMultipartUpload": ("s3:PutObject",),
    "AbortMultipartUpload": ("s3:AbortMultipartUpload",),
    "CopyObject": ("s3:GetObject", "s3:PutObject"),
    "DeleteObject": ("s3:DeleteObject",),
    "DeleteObjects": ("s3:DeleteObject",),
}
"""What the case store asks of its own bucket, by obstore, and the actions that allow it: the only
thing in AWS that is ever written. Source: Amazon S3 User Guide, "Required permissions for Amazon S3
API operations"."""
ON_BUCKETS = frozenset({"s3:ListBucket"})
"""Actions on a bucket; all other actions of S3 here are on its objects."""

NOT_NAMED_AS_READS = frozenset(
    {"AssumeRole", "StartQuery", "StopQuery", "BatchGetTraces", "BatchGetDeployments"},
)
"""Operations that read, whatever their name begins with: a query over logs, a role of ours, two
reads in batches."""
READ_NAMES = ("List", "Get", "Describe", "Lookup")

SESSION_ACTIONS = tuple(
    sorted(a for (service, _), a in ACTIONS.items() if service not in ("s3", "sts"))
)
"""What a role that was assumed is asked for; trace files are read with the bot's own
credentials."""


def allowed(service: str, operation: str) -> bool:
    """Whether the operation may be sent."""
    return (service, operation) in ACTIONS


def session_policy() -> str:
    """The policy that is sent along when a role is assumed: the session cannot do more, whatever
    the role may.

    AWS takes up to 2,048 characters (STS API reference, AssumeRole, `Policy`).
    """
    statement = {"Effect": "Allow", "Action": list(SESSION_ACTIONS), "Resource": "*"}
    # AWS bounds the policy's characters, so write no spaces.
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, separators=(",", ":"))


def storage_actions() -> str:
    """The actions on S3: all that cases need in their bucket, and what reading traces needs in
    others."""
    cases = {action for actions in CASE_STORE.values() for action in actions}
    traces = {action for (service, _), action in ACTIONS.items() if service == "s3"}
    split = {
        name: {"objects": sorted(actions - ON_BUCKETS), "bucket": sorted(actions & ON_BUCKETS)}
        for name, actions in (("cases", cases), ("traces", traces))
    }
    return json.dumps(split, indent=2)


def iam_policy() -> str:
    """The policy to give to the bot, as in docs/connectors/aws.md; roles and buckets are the
    operator's to narrow."""
    # StartQuery gets a separate statement, which can be narrowed to log groups.
    reads = sorted(
        a
        for (service, _), a in ACTIONS.items()
        if service not in ("s3", "sts") and a != "logs:StartQuery"
    )
    statements = [
        {"Sid": "Read", "Effect": "Allow", "Action": reads, "Resource": "*"},
        {
            "Sid": "QueryLogs",
            "Effect": "Allow",
            "Action": "logs:StartQuery",
            # StartQuery is allowed on log groups, unlike the reads above.
            "Resource": "arn:aws:logs:*:*:log-group:*",
        },
    ]
    return json.dumps({"Version": "2012-10-17", "Statement": statements}, indent=2)
