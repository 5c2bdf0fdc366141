"""Deployments: of ECS services, of Lambda functions, by CodeDeploy; each becomes a change with what
it changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from analysis.errors import FaultlineError
from analysis.vocabulary import Scope, Window
from connectors.aws.calls import AwsCalls, objects
from connectors.aws.console import codedeploy_link, ecs_link, lambda_link
from connectors.aws.evidence import AwsEvidence, changes_window, cut_note, moment, within, words
from connectors.aws.resource import Resource
from connectors.aws.task_definitions import difference, short_name
from connectors.base import Item

MOST_DEPLOYMENTS = 20
"""Of one service: the most that DescribeServiceDeployments takes at once (ECS API reference)."""
MOST_DIFFS = 4
MOST_VERSIONS = 1_000
CODEDEPLOY_BATCH = 25
"""Most that BatchGetDeployments takes (CodeDeploy API reference)."""
JUST_MADE = timedelta(seconds=60)
"""A version published within a minute of the function's last update is that update."""


async def ecs_deployments(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Deployments of an ECS service, the task definitions compared for the latest of them."""
    found = AwsEvidence()
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
        briefs = [
            one for one in objects(page.entries) if within(moment(one.get("createdAt")), window)
        ]
        arns = [
            words(one.get("serviceDeploymentArn"), 1600)
            for one in briefs
            if one.get("serviceDeploymentArn")
        ]
        described = await _described(calls, resource, arns)
        rows = await asyncio.gather(
            *(_ecs_row(calls, resource, one, n, found) for n, one in enumerate(described))
        )
        if not described:
            rows = await _present(calls, resource, window)
            query = f"DescribeServices {resource.place} {resource.name} deployments"
    except FaultlineError as error:
        found.lacks("changes", query, error)
        return found
    count = found.add("changes", [row for row in rows if row is not None])
    cut = cut_note(len(page.entries), more=page.more, what="deployments")
    link = ecs_link(resource.place.region, resource.cluster, resource.short_name)
    found.items.append(Item("changes", query, window, link, rows=count, cut=cut))
    return found


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
    found = objects(answer.get("serviceDeployments"))
    return sorted(found, key=lambda one: str(moment(one.get("createdAt"))), reverse=True)


async def _present(
    calls: AwsCalls, resource: Resource, window: Window
) -> list[tuple[Any, ...] | None]:
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
    rows: list[tuple[Any, ...] | None] = []
    for service in objects(answer.get("services")):
        for one in objects(service.get("deployments"))[:MOST_DEPLOYMENTS]:
            at = moment(one.get("createdAt"))
            if not within(at, window):
                continue
            state = words(one.get("rolloutState") or one.get("status"), 40)
            title = (
                f"ECS deployment of {short_name(words(one.get('taskDefinition'), 1600))} "
                f"to {resource.name} ({state})"
            )
            link = ecs_link(resource.place.region, resource.cluster, resource.short_name)
            identity = words(one.get("id"), 100)
            rows.append((at, resource.service, "deploy", identity, title, None, link, None, None))
    return rows


async def _ecs_row(
    calls: AwsCalls,
    resource: Resource,
    deployment: Mapping[str, Any],
    order: int,
    found: AwsEvidence,
) -> tuple[Any, ...] | None:
    at = moment(deployment.get("startedAt")) or moment(deployment.get("createdAt"))
    if at is None:
        return None
    target = deployment.get("targetServiceRevision")
    sources = objects(deployment.get("sourceServiceRevisions"))
    revisions = [
        words(one.get("arn"), 1600)
        for one in ([target] if isinstance(target, Mapping) else []) + sources[:1]
    ]
    before, after, diff = "", "", None
    if order < MOST_DIFFS and all(revisions) and revisions:
        try:
            before, after, diff = await _compared(calls, resource, revisions)
        except FaultlineError as error:
            found.lacks("changes", f"task definitions of {resource.name}", error)
    status = words(deployment.get("status"), 60)
    which = (
        f" {before} -> {after}"
        if before and after and before != after
        else f" of {after}"
        if after
        else ""
    )
    title = f"ECS deployment{which} to {resource.name} ({status})"
    if reason := words(deployment.get("statusReason"), 200):
        title += f": {reason}"
    kind = "deploy" if before != after or not after else "config"
    identity = words(deployment.get("serviceDeploymentArn"), 1600).rpartition("/")[2]
    link = ecs_link(resource.place.region, resource.cluster, resource.short_name)
    return at, resource.service, kind, identity, title, None, link, None, diff


async def _compared(
    calls: AwsCalls, resource: Resource, revisions: Sequence[str]
) -> tuple[str, str, str | None]:
    """The task definitions before and after (the same for a deployment that forced new tasks), and
    their difference."""
    answer = await calls.call(
        resource.place,
        "ecs",
        "DescribeServiceRevisions",
        serviceRevisionArns=list(dict.fromkeys(revisions)),
    )
    arns = {
        words(one.get("serviceRevisionArn"), 1600): words(one.get("taskDefinition"), 1600)
        for one in objects(answer.get("serviceRevisions"))
    }
    after, before = (
        arns.get(revisions[0], ""),
        arns.get(revisions[-1], "") if len(revisions) > 1 else "",
    )
    if not after or not before or before == after:
        return short_name(before), short_name(after), None
    definitions = await asyncio.gather(
        *(
            calls.call(resource.place, "ecs", "DescribeTaskDefinition", taskDefinition=arn)
            for arn in (before, after)
        )
    )
    old, new = (d.get("taskDefinition") for d in definitions)
    return short_name(before), short_name(after), difference(old, new)


async def lambda_versions(calls: AwsCalls, resource: Resource, scope: Scope) -> AwsEvidence:
    """Versions published and the last update of a function. What its environment holds is not
    kept."""
    found = AwsEvidence()
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
        found.lacks("changes", query, error)
        return found
    versions = objects(page.entries)
    latest = [one for one in versions if one.get("Version") == "$LATEST"]
    published = [one for one in versions if one.get("Version") != "$LATEST"]
    rows = [row for one in published if (row := _version_row(resource, one, window)) is not None]
    rows += [
        row for one in latest if (row := _update_row(resource, one, published, window)) is not None
    ]
    found.add("changes", rows)
    cut = cut_note(len(versions), more=page.more, what="versions")
    link = lambda_link(resource.place.region, resource.name)
    found.items.append(Item("changes", query, window, link, rows=len(rows), cut=cut))
    return found


def _version_row(
    resource: Resource, version: Mapping[str, Any], window: Window
) -> tuple[Any, ...] | None:
    at = moment(version.get("LastModified"))
    if not within(at, window):
        return None
    number = words(version.get("Version"), 20)
    link = lambda_link(resource.place.region, resource.name, number)
    said = words(version.get("Description"), 200)
    title = f"Lambda {resource.name} version {number} published" + (f": {said}" if said else "")
    return (
        at,
        resource.service,
        "deploy",
        f"{resource.name}:{number}",
        title,
        None,
        link,
        None,
        None,
    )


def _update_row(
    resource: Resource,
    latest: Mapping[str, Any],
    published: Sequence[Mapping[str, Any]],
    window: Window,
) -> tuple[Any, ...] | None:
    """The last update of code or configuration, unless it is the version that was published right
    after it."""
    at = moment(latest.get("LastModified"))
    if at is None or not within(at, window):
        return None
    code = latest.get("CodeSha256")
    same_code = [one for one in published if one.get("CodeSha256") == code]
    times = [t for one in same_code if (t := moment(one.get("LastModified"))) is not None]
    if any(abs(t - at) <= JUST_MADE for t in times):
        return None
    is_config = any(t < at for t in times)
    what = "configuration updated, the code as before" if is_config else "updated"
    details = ", ".join(
        f"{name} {words(latest.get(key), 40)}"
        for key, name in (
            ("Runtime", "runtime"),
            ("MemorySize", "memory MB"),
            ("Timeout", "timeout s"),
        )
        if latest.get(key)
    )
    title = (
        f"Lambda {resource.name} {what} ({details})"
        if details
        else f"Lambda {resource.name} {what}"
    )
    link = lambda_link(resource.place.region, resource.name)
    identity = f"{resource.name}:{words(latest.get('RevisionId'), 60) or at.isoformat()}"
    return (
        at,
        resource.service,
        "config" if is_config else "deploy",
        identity,
        title,
        None,
        link,
        None,
        None,
    )


async def codedeploy_deployments(
    calls: AwsCalls, resource: Resource, group: str, scope: Scope
) -> AwsEvidence:
    """Deployments of one deployment group, `application/group`; `resource` says whose and where."""
    found = AwsEvidence()
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
        ids = [one for one in page.entries if isinstance(one, str)]
        answer = (
            await calls.call(resource.place, "codedeploy", "BatchGetDeployments", deploymentIds=ids)
            if ids
            else {}
        )
    except FaultlineError as error:
        found.lacks("changes", query, error)
        return found
    rows = [_codedeploy_row(resource, group, one) for one in objects(answer.get("deploymentsInfo"))]
    count = found.add("changes", [row for row in rows if row is not None])
    cut = cut_note(len(ids), more=page.more, what="deployments")
    link = codedeploy_link(resource.place.region, ids[0]) if ids else None
    found.items.append(Item("changes", query, window, link, rows=count, cut=cut))
    return found


def _codedeploy_row(
    resource: Resource, group: str, one: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    at = moment(one.get("startTime")) or moment(one.get("createTime"))
    identity = words(one.get("deploymentId"), 60)
    if at is None or not identity:
        return None
    revision = one.get("revision")
    what = _revision(revision) if isinstance(revision, Mapping) else ""
    title = (
        f"CodeDeploy {group} {identity} "
        f"({words(one.get('status'), 40)}){': ' + what if what else ''}"
    )
    error = one.get("errorInformation")
    if isinstance(error, Mapping) and error.get("message"):
        title += f"; {words(error.get('message'), 200)}"
    author = words(one.get("creator"), 60) or None
    return (
        at,
        resource.service,
        "deploy",
        identity,
        title,
        author,
        codedeploy_link(resource.place.region, identity),
        None,
        None,
    )


def _revision(revision: Mapping[str, Any]) -> str:
    git, s3 = revision.get("gitHubLocation"), revision.get("s3Location")
    if isinstance(git, Mapping):
        return f"{words(git.get('repository'), 100)}@{words(git.get('commitId'), 40)}"
    if isinstance(s3, Mapping):
        return f"s3://{words(s3.get('bucket'), 63)}/{words(s3.get('key'), 200)}"
    return words(revision.get("revisionType"), 40)
