"""Deployments: of ECS services, of Lambda functions, by CodeDeploy; each becomes a change with what
it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item
from faultline.connectors.shared.rows.collection_builder import ChangeRow, readable
from faultline.connectors.vendors.aws.calls import AwsCalls, AwsPages, objects
from faultline.connectors.vendors.aws.console import codedeploy_link, ecs_link, lambda_link
from faultline.connectors.vendors.aws.evidence import (
    AwsEvidence,
    changes_window,
    cut_note,
    moment,
    within,
    words,
)
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.task_definitions import difference, short_name

MOST_DEPLOYMENTS = 20
"""Of one service: the most that DescribeServiceDeployments takes at once (ECS API reference)."""
MOST_DIFFS = 4
MOST_VERSIONS = 1_000
CODEDEPLOY_BATCH = 25
"""Most that BatchGetDeployments takes (CodeDeploy API reference)."""
JUST_MADE = timedelta(seconds=60)
"""A version published within a minute of the function's last update is that update."""
LONGEST_ARN = 1600
_LAMBDA_SETTINGS = {"Runtime": "runtime", "MemorySize": "memory MB", "Timeout": "timeout s"}


async def ecs_deployments(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Deployments of an ECS service, the task definitions compared for the latest of them."""
    aws_evidence = AwsEvidence()
    window = changes_window(scope)
    query = f"ListServiceDeployments {resource.place} {resource.name}"
    try:
        page = await calls.pages(
            resource.place,
            "ecs",
            "ListServiceDeployments",
            "serviceDeployments",
            most=MOST_DEPLOYMENTS,
            cluster=resource.cluster,
            service=resource.short_name,
            createdAt={"after": window.start, "before": window.end},
        )
        described = await _described(calls, resource, _arns(page, window))
        rows = await asyncio.gather(
            *(
                _ecs_row(calls, resource, deployment, n, aws_evidence)
                for n, deployment in enumerate(described)
            )
        )
        if not described:
            rows = await _present(calls, resource, window)
            query = f"DescribeServices {resource.place} {resource.name} deployments"
    except FaultlineError as error:
        aws_evidence.lacks("changes", query, error)
        return aws_evidence
    remaining_readable = readable(rows)
    aws_evidence.add("changes", remaining_readable)
    cut = cut_note(len(page.entries), more=page.more, what="deployments")
    item = Item(
        "changes", query, window, _ecs_link(resource), rows=len(remaining_readable), cut=cut
    )
    aws_evidence.items.append(item.holding(remaining_readable))
    return aws_evidence


def _arns(page: AwsPages, window: Window) -> list[str]:
    arns = []
    for deployment in objects(page.entries):
        arn = deployment.get("serviceDeploymentArn")
        if arn and within(moment(deployment.get("createdAt")), window):
            arns.append(words(arn, LONGEST_ARN))
    return arns


def _ecs_link(resource: Resource) -> str:
    return ecs_link(resource.place.region, resource.cluster, resource.short_name)


async def _described(
    calls: AwsCalls, resource: Resource, arns: Sequence[str]
) -> list[Mapping[str, Any]]:
    if not arns:
        return []
    answer = await calls.call(
        resource.place,
        "ecs",
        "DescribeServiceDeployments",
        serviceDeploymentArns=list(arns[:MOST_DEPLOYMENTS]),
    )
    deployments = objects(answer.get("serviceDeployments"))
    return sorted(
        deployments, key=lambda deployment: str(moment(deployment.get("createdAt"))), reverse=True
    )


async def _present(calls: AwsCalls, resource: Resource, window: Window) -> list[ChangeRow | None]:
    """The deployments that the service itself names, the present one and those it takes over from:
    ECS lists no others from before October 2024, nor for services that CodeDeploy or an external
    controller deploys."""
    answer = await calls.call(
        resource.place,
        "ecs",
        "DescribeServices",
        cluster=resource.cluster,
        services=[resource.short_name],
    )
    rows: list[ChangeRow | None] = []
    for service in objects(answer.get("services")):
        for deployment in objects(service.get("deployments"))[:MOST_DEPLOYMENTS]:
            at = moment(deployment.get("createdAt"))
            if at is None or not within(at, window):
                continue
            definition = short_name(words(deployment.get("taskDefinition"), LONGEST_ARN))
            state = words(deployment.get("rolloutState") or deployment.get("status"), 40)
            title = f"ECS deployment of {definition} to {resource.name} ({state})"
            identity = words(deployment.get("id"), 100)
            link = _ecs_link(resource)
            rows.append(ChangeRow(at, resource.service, "deploy", identity, title, link=link))
    return rows


@dataclass(frozen=True)
class _Definitions:
    """Names of the task definitions before and after a deployment ("" where one is not known), and
    their difference."""

    before: str = ""
    after: str = ""
    diff: str | None = None

    @property
    def kind(self) -> str:
        """The same definition deployed again is a change of the service's configuration."""
        return "config" if self.after and self.before == self.after else "deploy"

    @property
    def which(self) -> str:
        """As a title says it."""
        if self.before and self.after and self.before != self.after:
            return f" {self.before} -> {self.after}"
        return f" of {self.after}" if self.after else ""


async def _ecs_row(
    calls: AwsCalls,
    resource: Resource,
    deployment: Mapping[str, Any],
    order: int,
    aws_evidence: AwsEvidence,
) -> ChangeRow | None:
    # A deployment that has not started yet has only the time of its creation.
    at = moment(deployment.get("startedAt")) or moment(deployment.get("createdAt"))
    if at is None:
        return None
    revisions = _revisions(deployment)
    definitions = _Definitions()
    # Each comparison takes three calls, so only the latest deployments get one.
    if order < MOST_DIFFS and revisions and all(revisions):
        try:
            definitions = await _compared(calls, resource, revisions)
        except FaultlineError as error:
            aws_evidence.lacks("changes", f"task definitions of {resource.name}", error)
    status = words(deployment.get("status"), 60)
    title = f"ECS deployment{definitions.which} to {resource.name} ({status})"
    reason = words(deployment.get("statusReason"), 200)
    if reason:
        title += f": {reason}"
    return ChangeRow(
        at,
        resource.service,
        definitions.kind,
        # The ARN ends in the deployment's id.
        words(deployment.get("serviceDeploymentArn"), LONGEST_ARN).rpartition("/")[2],
        title,
        link=_ecs_link(resource),
        diff=definitions.diff,
        before=definitions.before or None,
        after=definitions.after or None,
    )


def _revisions(deployment: Mapping[str, Any]) -> list[str]:
    """ARNs of the service revision that was deployed, and of the first that it replaced."""
    revisions = objects([deployment.get("targetServiceRevision")])
    revisions += objects(deployment.get("sourceServiceRevisions"))[:1]
    return [words(revision.get("arn"), LONGEST_ARN) for revision in revisions]


async def _compared(calls: AwsCalls, resource: Resource, revisions: Sequence[str]) -> _Definitions:
    """The task definitions before and after; the same for a deployment that forced new tasks."""
    answer = await calls.call(
        resource.place,
        "ecs",
        "DescribeServiceRevisions",
        serviceRevisionArns=list(dict.fromkeys(revisions)),
    )
    arns: dict[str, str] = {}
    for service_revision in objects(answer.get("serviceRevisions")):
        revision = words(service_revision.get("serviceRevisionArn"), LONGEST_ARN)
        arns[revision] = words(service_revision.get("taskDefinition"), LONGEST_ARN)
    after = arns.get(revisions[0], "")
    before = arns.get(revisions[-1], "") if len(revisions) > 1 else ""
    if not after or not before or before == after:
        return _Definitions(short_name(before), short_name(after))
    old, new = await asyncio.gather(
        _definition(calls, resource, before), _definition(calls, resource, after)
    )
    return _Definitions(short_name(before), short_name(after), difference(old, new))


async def _definition(calls: AwsCalls, resource: Resource, arn: str) -> Any:
    answer = await calls.call(resource.place, "ecs", "DescribeTaskDefinition", taskDefinition=arn)
    return answer.get("taskDefinition")


async def lambda_versions(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Versions published and the last update of a function. What its environment holds is not
    kept."""
    aws_evidence = AwsEvidence()
    window = changes_window(scope)
    query = f"ListVersionsByFunction {resource.place} {resource.name}"
    try:
        page = await calls.pages(
            resource.place,
            "lambda",
            "ListVersionsByFunction",
            "Versions",
            most=MOST_VERSIONS,
            FunctionName=resource.name,
        )
    except FaultlineError as error:
        aws_evidence.lacks("changes", query, error)
        return aws_evidence
    versions = objects(page.entries)
    # $LATEST is the function as it is now, so it was modified with the last update.
    latest = [version for version in versions if version.get("Version") == "$LATEST"]
    published = [version for version in versions if version.get("Version") != "$LATEST"]
    rows = readable(_version_row(resource, version, window) for version in published)
    rows += readable(_update_row(resource, latest, published, window) for latest in latest)
    aws_evidence.add("changes", rows)
    cut = cut_note(len(versions), more=page.more, what="versions")
    link = lambda_link(resource.place.region, resource.name)
    item = Item("changes", query, window, link, rows=len(rows), cut=cut)
    aws_evidence.items.append(item.holding(rows))
    return aws_evidence


def _version_row(
    resource: Resource, version: Mapping[str, Any], window: Window
) -> ChangeRow | None:
    at = moment(version.get("LastModified"))
    if at is None or not within(at, window):
        return None
    number = words(version.get("Version"), 20)
    title = f"Lambda {resource.name} version {number} published"
    description = words(version.get("Description"), 200)
    if description:
        title += f": {description}"
    identity = f"{resource.name}:{number}"
    link = lambda_link(resource.place.region, resource.name, number)
    return ChangeRow(at, resource.service, "deploy", identity, title, link=link, after=number)


def _update_row(
    resource: Resource,
    latest: Mapping[str, Any],
    published: Sequence[Mapping[str, Any]],
    window: Window,
) -> ChangeRow | None:
    """The last update of code or configuration, unless it is the version that was published right
    after it."""
    at = moment(latest.get("LastModified"))
    if at is None or not within(at, window):
        return None
    times = _published_at(latest.get("CodeSha256"), published)
    if any(abs(time - at) <= JUST_MADE for time in times):
        return None
    # Code that was published before is not new: the configuration is.
    is_config = any(time < at for time in times)
    what = "configuration updated, the code as before" if is_config else "updated"
    title = f"Lambda {resource.name} {what}"
    details = _lambda_settings(latest)
    if details:
        title += f" ({details})"
    # $LATEST has no number, so its revision tells one update from the next.
    identity = f"{resource.name}:{words(latest.get('RevisionId'), 60) or at.isoformat()}"
    link = lambda_link(resource.place.region, resource.name)
    kind = "config" if is_config else "deploy"
    return ChangeRow(at, resource.service, kind, identity, title, link=link)


def _published_at(code: Any, published: Sequence[Mapping[str, Any]]) -> list[datetime]:
    """When versions of this code were published."""
    same_code = [version for version in published if version.get("CodeSha256") == code]
    return readable(moment(version.get("LastModified")) for version in same_code)


def _lambda_settings(latest: Mapping[str, Any]) -> str:
    named = []
    for key, name in _LAMBDA_SETTINGS.items():
        if latest.get(key):
            named.append(f"{name} {words(latest.get(key), 40)}")
    return ", ".join(named)


async def codedeploy_deployments(
    calls: AwsCalls, resource: Resource, group: str, scope: Scope
) -> AwsEvidence:
    """Deployments of one deployment group, `application/group`; `resource` says whose and where."""
    aws_evidence = AwsEvidence()
    window = changes_window(scope)
    application, _, deployment_group = group.partition("/")
    query = f"ListDeployments {resource.place} {group}"
    try:
        page = await calls.pages(
            resource.place,
            "codedeploy",
            "ListDeployments",
            "deployments",
            most=CODEDEPLOY_BATCH,
            applicationName=application,
            deploymentGroupName=deployment_group,
            createTimeRange={"start": window.start, "end": window.end},
        )
        ids = [entry for entry in page.entries if isinstance(entry, str)]
        deployments: list[Mapping[str, Any]]
        # CodeDeploy refuses a batch of no deployments.
        if not ids:
            deployments = []
        else:
            answer = await calls.call(
                resource.place, "codedeploy", "BatchGetDeployments", deploymentIds=ids
            )
            deployments = objects(answer.get("deploymentsInfo"))
    except FaultlineError as error:
        aws_evidence.lacks("changes", query, error)
        return aws_evidence
    rows = readable(_codedeploy_row(resource, group, deployment) for deployment in deployments)
    aws_evidence.add("changes", rows)
    cut = cut_note(len(ids), more=page.more, what="deployments")
    link = codedeploy_link(resource.place.region, ids[0]) if ids else None
    item = Item("changes", query, window, link, rows=len(rows), cut=cut)
    aws_evidence.items.append(item.holding(rows))
    return aws_evidence


def _codedeploy_row(
    resource: Resource, group: str, deployment: Mapping[str, Any]
) -> ChangeRow | None:
    at = moment(deployment.get("startTime")) or moment(deployment.get("createTime"))
    identity = words(deployment.get("deploymentId"), 60)
    if at is None or not identity:
        return None
    title = f"CodeDeploy {group} {identity} ({words(deployment.get('status'), 40)})"
    revision = _revision(deployment.get("revision"))
    if revision:
        title += f": {revision}"
    error = deployment.get("errorInformation")
    if isinstance(error, Mapping) and error.get("message"):
        title += f"; {words(error.get('message'), 200)}"
    author = words(deployment.get("creator"), 60) or None
    link = codedeploy_link(resource.place.region, identity)
    return ChangeRow(at, resource.service, "deploy", identity, title, author, link)


def _revision(revision: Any) -> str:
    """Where the code came from: a commit, a bundle in S3, or the kind of it."""
    if not isinstance(revision, Mapping):
        return ""
    git, s3 = revision.get("gitHubLocation"), revision.get("s3Location")
    if isinstance(git, Mapping):
        return f"{words(git.get('repository'), 100)}@{words(git.get('commitId'), 40)}"
    if isinstance(s3, Mapping):
        return f"s3://{words(s3.get('bucket'), 63)}/{words(s3.get('key'), 200)}"
    return words(revision.get("revisionType"), 40)
