"""Rollouts as changes: revisions of a pod template, scaling by hand, and written config maps and
secrets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import (
    ControllerRevision,
    Managed,
    Named,
    Workload,
)
from faultline.connectors.vendors.kubernetes.pod_templates import TemplateDifference
from faultline.connectors.vendors.kubernetes.restorers import replicas_restorer, restorer_of
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload
from faultline.connectors.vendors.pagerduty.answers import moment

REVISION = "deployment.kubernetes.io/revision"
REUSED = "deployment.kubernetes.io/revision-history"
CAUSE = "kubernetes.io/change-cause"
"""Annotations of ReplicaSets (kubernetes.io, "Well-Known Labels, Annotations and Taints"; the
second is there where an old ReplicaSet serves again: pkg/controller/deployment/util)."""
MOST_ROLLOUTS = 50
"""Of one workload, the latest. Kubernetes keeps ten unless told otherwise
(`revisionHistoryLimit`)."""


@dataclass(frozen=True)
class Revision:
    """One revision of a workload's pod template."""

    number: int
    name: str
    template: Mapping[str, Any]
    at: datetime | None
    reused: bool
    cause: str


def deployment_revisions(
    workload: ObservedWorkload, replica_sets: Iterable[Workload], scaled_up: Mapping[str, datetime]
) -> list[Revision]:
    """The revisions of a Deployment, oldest first. One that serves again counts from when it was
    scaled up again."""
    revisions = []
    for replica_set in replica_sets:
        meta = replica_set.metadata
        number = meta.annotation(REVISION)
        if not meta.owned_by("Deployment", workload.meta.name) or not (
            # An annotation may hold any text: int() must not meet a huge number.
            number.isdigit() and len(number) <= 12
        ):
            continue
        reused = bool(meta.annotation(REUSED))
        at = meta.created
        if reused:
            # Its creation is the time of its first rollout, not of this one.
            at = scaled_up.get(meta.name) or _progressed(workload.object)
        template = replica_set.spec.template if replica_set.spec else None
        cause = meta.annotation(CAUSE)
        revisions.append(Revision(int(number), meta.name, template or {}, at, reused, cause))
    return sorted(revisions, key=lambda revision: revision.number)


def controller_revisions(
    workload: ObservedWorkload, revisions: Iterable[ControllerRevision]
) -> list[Revision]:
    """The revisions of a StatefulSet or DaemonSet, oldest first. One that serves again is given a
    new number, and counts from then."""
    read: list[Revision] = []
    newest: datetime | None = None
    for revision in sorted(revisions, key=lambda revision: revision.revision):
        meta = revision.metadata
        template = _table(_table(revision.data).get("spec")).get("template")
        if not meta.owned_by(workload.kind, workload.meta.name) or not isinstance(
            template, Mapping
        ):
            continue
        at = meta.created
        # A higher number on an older object: it serves again.
        reused = at is not None and newest is not None and at < newest
        if reused:
            at = meta.written
        elif at is not None:
            newest = at
        cause = meta.annotation(CAUSE)
        read.append(Revision(revision.revision, meta.name, template, at, reused, cause))
    return read


def rollout_rows(
    workload: ObservedWorkload, revisions: Sequence[Revision], link: str | None, until: datetime
) -> list[ChangeRow]:
    """A row of the changes table for each revision that is kept and was rolled out until then.

    Old ones are reported too: they show how often a service is rolled out anyway.
    """
    rows = []
    previous: Revision | None = None
    for revision in revisions:
        # Before any `continue`: the next revision is compared with this one, whatever its date.
        before, previous = previous, revision
        if revision.at is None or revision.at > until:
            continue
        difference = TemplateDifference.between(
            None if before is None else before.template, revision.template
        )
        what = "Rollback" if revision.reused else "Rollout"
        where = f"{workload.kind.lower()} {workload.ref.namespace}/{workload.meta.name}"
        title = f"{what} of {workload.meta.name}: {difference.summary()}"
        title += f" ({where}, revision {revision.number})"
        if revision.cause:
            title += f"; {short(revision.cause, 120)}"
        version_before, version_after = difference.versions
        row = ChangeRow(
            revision.at,
            workload.ref.service,
            "deploy",
            short(revision.name, 200),
            short(title, 400),
            link=link,
            diff="\n".join(difference.lines()) or None,
            before=version_before,
            after=version_after,
            restored_by=restorer_of(workload.meta),
        )
        rows.append(row)
    return rows[-MOST_ROLLOUTS:]


def scaled_by_hand(workload: ObservedWorkload, link: str | None, window: Window) -> list[ChangeRow]:
    """Rows for those who set the number of replicas through the subresource `scale`, but for
    autoscalers."""
    rows = []
    for managed_field in workload.meta.managed_fields or ():
        at = moment(managed_field.time)
        if managed_field.subresource != "scale" or not _is_person(managed_field):
            continue
        if at is None or not window.start <= at <= window.end:
            continue
        who = short(managed_field.manager or "", 80)
        title = (
            f"Replicas of {workload.kind.lower()} "
            f"{workload.ref.namespace}/{workload.meta.name} set by {who}"
        )
        name = f"{workload.meta.name} scale {at:%H:%M:%S}"
        row = ChangeRow(at, workload.ref.service, "scale", name, title, who, link)
        restored_by = replicas_restorer(workload.meta, workload.kind, (), who)
        rows.append(row._replace(restored_by=restored_by))
    return rows


def config_rows(
    kind: str,
    objects: Iterable[Named],
    services: Mapping[str, Sequence[str]],
    namespace: str,
    window: Window,
) -> list[ChangeRow]:
    """Who wrote the config maps or secrets that workloads name, and when. `services` by the
    object's name."""
    rows = []
    for named_object in objects:
        name = named_object.metadata.name
        for at, manager in _writes(named_object):
            if not window.start <= at <= window.end:
                continue
            who = short(manager or "", 80) or None
            title = f"{kind} {namespace}/{short(name, 100)} written"
            if who:
                title += f" by {who}"
            identity = f"{kind.lower()} {short(name, 100)} {at:%H:%M:%S}"
            for service in services.get(name, ()):
                rows.append(ChangeRow(at, service, "config", identity, title, who))
    return rows


def _writes(named_object: Named) -> list[tuple[datetime, str | None]]:
    """When an object was written, and by which manager. Without recorded writes, when it was
    made."""
    writes = []
    for managed in named_object.metadata.managed_fields or ():
        at = moment(managed.time)
        if at is not None:
            writes.append((at, managed.manager))
    created = named_object.metadata.created
    if not writes and created is not None:
        return [(created, None)]
    return writes


def _progressed(workload: Workload) -> datetime | None:
    """When a Deployment's rollout last went on."""
    conditions = (workload.status.conditions if workload.status else None) or ()
    return next((moment(c.last_update_time) for c in conditions if c.type == "Progressing"), None)


def _is_person(managed_field: Managed) -> bool:
    manager = managed_field.manager or ""
    # The autoscaler runs in kube-controller-manager and writes under its name.
    return bool(manager) and not manager.startswith("kube-controller-manager")


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
