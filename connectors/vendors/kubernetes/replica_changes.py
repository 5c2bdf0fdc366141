"""Replicas of a Deployment that somebody set, by the events that its controller leaves.

`kubectl scale` is noted on the object with who did it. What sets `spec.replicas` in any other way,
as an applied manifest does, shows in these events alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
        if not window.start <= at <= window.end or _belongs_to_rollout(serving, at):
            continue
        # `kubectl scale` is noted on the object as well: do not report it twice.
        if not any(row.kind == "scale" and abs(row.time - at) <= SAME for row in change_rows):
            rows.append(_row(workload, scaled, at, link))
    return rows


def _belongs_to_rollout(serving: Revision, at: datetime) -> bool:
    return serving.at is not None and at <= serving.at + ROLLS_OUT_FOR


def _row(
    workload: ObservedWorkload, scaled: re.Match[str], at: datetime, link: str | None
) -> ChangeRow:
    # `from` stands before or after `to`, depending on the server's version.
    before, after = scaled[2] or scaled[4], scaled[3]
    title = f"Replicas of deployment {workload.ref.namespace}/{workload.meta.name} set"
    if before:
        title += f" from {before}"
    title += f" to {after}"
    identity = f"{workload.meta.name} scale {at:%H:%M:%S}"
    return ChangeRow(
        at,
        workload.ref.service,
        "scale",
        identity,
        title,
        link=link,
        before=before,
        after=after,
        restored_by=restorer_of(workload.meta),
    )
