"""Replicas of a Deployment that somebody set, by the events that its controller leaves.

`kubectl scale` is noted on the object with who did it. What sets `spec.replicas` in any other way,
as an applied manifest does, shows in these events alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import ChangeRow
from faultline.connectors.vendors.kubernetes.answers import KubernetesEvent
from faultline.connectors.vendors.kubernetes.restorers import restorer_of
from faultline.connectors.vendors.kubernetes.rollouts import Revision
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload

SCALED = re.compile(
    r"Scaled (?:up|down) replica set ([a-z0-9.-]{1,253})"
    r"(?: from (\d{1,7}))? to (\d{1,7})(?: from (\d{1,7}))?"
)
"""Message of a Deployment's ScalingReplicaSet event
(kubernetes/pkg/controller/deployment/sync.go)."""
ROLLS_OUT_FOR = timedelta(minutes=10)
"""A rollout scales its ReplicaSet step by step, and is abandoned after that long
(`progressDeadlineSeconds`, 600 by default)."""
SAME = timedelta(minutes=1)


def replica_rows(
    workload: ObservedWorkload,
    revisions: Sequence[Revision],
    events: Iterable[KubernetesEvent],
    change_rows: Sequence[ChangeRow],
    link: str | None,
    window: Window,
) -> list[ChangeRow]:
    """Rows for scalings of the ReplicaSet that serves, but those of its rollout and those
    `change_rows` already."""
    if not revisions or revisions[-1].at is None:
        return []
    serving = revisions[-1]
    rows = []
    for event in events:
        scaled = SCALED.match(event.text) if event.reason == "ScalingReplicaSet" else None
        at = event.last
        # Old ReplicaSets shrink during a rollout. Only the one that serves shows a scaling.
        if scaled is None or scaled[1] != serving.name or at is None:
            continue
        if not window.start <= at <= window.end or (
            serving.at is not None and at <= serving.at + ROLLS_OUT_FOR
        ):
            continue
        # `kubectl scale` is noted on the object as well: do not report it twice.
        if not any(row.kind == "scale" and abs(row.time - at) <= SAME for row in change_rows):
            rows.append(_row(workload, scaled, at, link))
    return rows


def neighbour_rows(
    deployments: Mapping[str, Sequence[KubernetesEvent]], space: str, window: Window
) -> list[ChangeRow]:
    """Rows for scalings of Deployments that nobody asked about, by their events. Their revisions
    are not listed: where more than one ReplicaSet was scaled, or one from nothing, it was a
    rollout."""
    rows = []
    for name, events in deployments.items():
        scalings = [
            (scaled, event.last)
            for event in events
            if event.reason == "ScalingReplicaSet" and (scaled := SCALED.match(event.text))
        ]
        if len({scaled[1] for scaled, _ in scalings}) != 1:
            continue
        for scaled, at in scalings:
            before = int(scaled[2] or scaled[4] or 0)
            if before and at is not None and window.start <= at <= window.end:
                rows.append(_scaling(name, name, space, scaled, at))
    return rows


def _row(
    workload: ObservedWorkload, scaled: re.Match[str], at: datetime, link: str | None
) -> ChangeRow:
    row = _scaling(workload.ref.service, workload.meta.name, workload.ref.namespace, scaled, at)
    return row._replace(link=link, restored_by=restorer_of(workload.meta))


def _scaling(service: str, name: str, space: str, scaled: re.Match[str], at: datetime) -> ChangeRow:
    # `from` stands before or after `to`, depending on the server's version.
    before, after = scaled[2] or scaled[4], scaled[3]
    title = f"Replicas of deployment {space}/{name} set"
    if before:
        title += f" from {before}"
    title += f" to {after}"
    identity = f"{name} scale {at:%H:%M:%S}"
    return ChangeRow(at, service, "scale", identity, title, before=before, after=after)
