"""Training jobs as objects of their operators: how they ended, what they wait for, how often they
were started again.

Kubeflow's TrainJob, MPIJob and PyTorchJob, JobSet, Kueue's Workload, KubeRay's RayJob (their
published CRDs), and Volcano's Job (volcano.sh, "VolcanoJob"). What a cluster serves, its discovery
says (`GET /apis`), so that nothing is asked for that is not there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import KubernetesCondition, Meta, Struct
from faultline.connectors.vendors.kubernetes.session import ServedGroup, replayed
from faultline.connectors.vendors.kubernetes.state_inquiry import ListObjects
from faultline.connectors.vendors.kubernetes.workloads import Ref, of_job
from faultline.connectors.vendors.pagerduty.answers import moment

WORKLOAD = "Workload"
VOLCANO = "VolcanoJob"
RAY = "RayJob"
MOST_OBJECTS = 50
"""Of one kind and job; a sweep may have thousands."""
Fact = tuple[str, str, str | None]
"""A fact, its value, and since when as the object writes it."""


@dataclass(frozen=True)
class JobKind:
    """A kind of objects, and the versions of its group that are known, the newest first."""

    kind: str
    group: str
    resource: str
    versions: tuple[str, ...]


JOB_KINDS = (
    JobKind("TrainJob", "trainer.kubeflow.org", "trainjobs", ("v1alpha1",)),
    JobKind("MPIJob", "kubeflow.org", "mpijobs", ("v2beta1", "v1")),
    JobKind("PyTorchJob", "kubeflow.org", "pytorchjobs", ("v1",)),
    JobKind("JobSet", "jobset.x-k8s.io", "jobsets", ("v1alpha2",)),
    JobKind(WORKLOAD, "kueue.x-k8s.io", "workloads", ("v1beta2", "v1beta1")),
    JobKind(VOLCANO, "batch.volcano.sh", "jobs", ("v1alpha1",)),
    JobKind(RAY, "ray.io", "rayjobs", ("v1", "v1alpha1")),
)


class JobObjectStatus(Struct):
    """What the operators write; each has some of it."""

    conditions: list[KubernetesCondition] | None = None
    restarts: int | None = None
    state: Any = None
    """Volcano: an object with phase, reason and message."""
    job_status: str | None = None
    job_deployment_status: str | None = None
    reason: str | None = None
    message: str | None = None
    end_time: str | None = None


class JobObject(Struct):
    """Any of them."""

    metadata: Meta
    status: JobObjectStatus | None = None


class VolcanoState(Struct):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None


@dataclass(frozen=True)
class JobObjectList:
    """One list: its query, the rows that it showed, and what of it was left out."""

    query: str
    rows: list[StateRow]
    cut: str | None


async def job_object_lists(
    fetch: ListObjects, groups: Mapping[str, ServedGroup], refs: Sequence[Ref]
) -> list[JobObjectList]:
    """What the objects of these training jobs say, a list for each kind that the cluster serves
    and each namespace."""
    calls = []
    for space in dict.fromkeys(ref.namespace for ref in refs):
        matching_refs = [ref for ref in refs if ref.namespace == space]
        for kind in JOB_KINDS:
            version = _version(kind, groups)
            if version is not None:
                path = f"/apis/{kind.group}/{version}/namespaces/{space}/{kind.resource}"
                calls.append(_list(fetch, kind, path, matching_refs))
    lists = [object_list for object_list in await asyncio.gather(*calls) if object_list is not None]
    return _without_queued(lists)


def _version(kind: JobKind, groups: Mapping[str, ServedGroup]) -> str | None:
    """The version to ask for; None where the cluster does not serve the group."""
    group = groups.get(kind.group)
    if group is None:
        return None
    for version in kind.versions:
        if version in group.versions:
            return version
    # Of several kinds in one group each has its own versions, so another one's tells nothing.
    return group.preferred if kind.group != "kubeflow.org" else None


async def _list(
    fetch: ListObjects, kind: JobKind, path: str, refs: Sequence[Ref]
) -> JobObjectList | None:
    answer = await fetch("states", path, JobObject, silent=True)
    if answer is None:
        return None
    rows: list[StateRow] = []
    for ref in refs:
        job_objects = [
            job_object
            for job_object in answer[0]
            if _is_of(kind, job_object.metadata, ref.patterns)
        ]
        # The newest first: those before it ended before the alert.
        job_objects.sort(
            # Kubernetes writes times in UTC and in one format, so they sort as text.
            key=lambda job_object: job_object.metadata.creation_timestamp or "",
            reverse=True,
        )
        for job_object in job_objects[:MOST_OBJECTS]:
            rows += _rows(kind, job_object, ref, replayed(path))
    return JobObjectList(replayed(path), rows, answer[1])


def _is_of(kind: JobKind, meta: Meta, patterns: Sequence[str]) -> bool:
    """Whether the object is that of the training job. Kueue names a Workload after its owner's
    kind, so its owner decides."""
    if kind.kind != WORKLOAD:
        return of_job(meta, patterns)
    owners = [owner.name for owner in meta.owner_references or ()]
    return any(fnmatchcase(name, pattern) for name in owners for pattern in patterns)


def _rows(kind: JobKind, job_object: JobObject, ref: Ref, query: str) -> Iterator[StateRow]:
    for fact, value, since in _facts(kind, job_object.status or JobObjectStatus()):
        yield StateRow(
            kind=kind.kind,
            name=short(job_object.metadata.name, 120),
            fact=fact,
            namespace=short(ref.namespace, 100),
            service=ref.service,
            field="status",
            value=short(value, 200) or None,
            since=moment(since),
            query=query,
        )


def _facts(kind: JobKind, status: JobObjectStatus) -> Iterator[Fact]:
    if kind.kind == VOLCANO:
        yield from _of_volcano(status)
    elif kind.kind == RAY:
        reason_text = _reason_text(status.reason, status.message)
        if status.job_status == "FAILED" or status.job_deployment_status == "Failed":
            yield "job_failed", reason_text, status.end_time
        elif status.job_deployment_status == "Suspended":
            yield "job_suspended", reason_text, None
    elif kind.kind == WORKLOAD:
        yield from _of_kueue(status)
    else:
        yield from _of_conditions(status)


def _of_conditions(status: JobObjectStatus) -> Iterator[Fact]:
    """TrainJob, MPIJob, PyTorchJob, JobSet."""
    restarted = False
    for condition in status.conditions or ():
        if condition.status != "True":
            continue
        since = condition.last_transition_time
        if condition.type == "Failed":
            yield "job_failed", _reason_text(condition.reason, condition.message), since
        elif condition.type == "Suspended":
            yield "job_suspended", _reason_text(condition.reason, condition.message), since
        elif condition.type == "Restarting":
            restarted = True
            yield "job_requeued", _reason_text(condition.reason, condition.message), since
    if status.restarts and not restarted:
        # JobSet counts, but does not say when.
        yield "job_requeued", f"{status.restarts} times", None


def _of_kueue(status: JobObjectStatus) -> Iterator[Fact]:
    """A Workload waits for quota, or lost what it had."""
    true = {c.type: c for c in status.conditions or () if c.status == "True"}
    # A finished Workload may keep the conditions of its waits, which no longer matter.
    if "Finished" in true:
        return
    for condition in status.conditions or ():
        reason_text = _reason_text(condition.reason, condition.message)
        since = condition.last_transition_time
        if condition.type == "QuotaReserved" and condition.status == "False":
            yield "unschedulable", reason_text, since
        elif condition.type == "Evicted" and condition.status == "True":
            is_preempted = condition.reason == "Preempted"
            yield "job_preempted" if is_preempted else "job_requeued", reason_text, since


def _of_volcano(status: JobObjectStatus) -> Iterator[Fact]:
    try:
        state = msgspec.convert(status.state or {}, VolcanoState)
    except msgspec.ValidationError:
        return
    message = _reason_text(state.reason, state.message)
    since = state.last_transition_time
    if state.phase in ("Failed", "Aborted", "Terminated"):
        yield "job_failed", _reason_text(state.phase, message), since
    elif state.phase == "Pending":
        yield "unschedulable", message, since
    elif state.phase == "Restarting":
        yield "job_requeued", message, since


def _reason_text(reason: str | None, message: str | None) -> str:
    return ": ".join(part for part in (reason, message) if part)


def _without_queued(lists: Iterable[JobObjectList]) -> list[JobObjectList]:
    """Kueue suspends the jobs that it makes wait, so its own word is the reason."""
    remaining_lists = list(lists)
    queued = set()
    for remaining_list in remaining_lists:
        for row in remaining_list.rows:
            if row.kind == WORKLOAD:
                queued.add((row.namespace, row.service))
    unqueued_lists = []
    for remaining_list in remaining_lists:
        rows = []
        for row in remaining_list.rows:
            if row.fact != "job_suspended" or (row.namespace, row.service) not in queued:
                rows.append(row)
        unqueued_lists.append(JobObjectList(remaining_list.query, rows, remaining_list.cut))
    return unqueued_lists
