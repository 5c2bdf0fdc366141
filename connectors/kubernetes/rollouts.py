"""Rollouts as changes: what differs between two revisions of a pod template. Values of variables
are never shown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Any

from analysis.vocabulary import Window
from connectors.kubernetes.answers import ControllerRevision, Managed, Named, Workload
from connectors.kubernetes.workloads import FoundWorkload
from connectors.pagerduty.answers import moment
from connectors.vendor_text import short

REVISION = "deployment.kubernetes.io/revision"
REUSED = "deployment.kubernetes.io/revision-history"
CAUSE = "kubernetes.io/change-cause"
"""Annotations of ReplicaSets (kubernetes.io, "Well-Known Labels, Annotations and Taints"; the
second is there where an old ReplicaSet serves again: pkg/controller/deployment/util)."""
RESTARTED = "kubectl.kubernetes.io/restartedAt"
MOST_CONTAINERS, MOST_FACTS, MOST_TOLD, MOST_DIFF = 20, 400, 4, 60
HIDDEN, TOO_DEEP = "not shown", "nested too deeply"

Facts = dict[str, tuple[str, str]]
"""What a pod template says, by key: as it may be shown, and as it is compared."""


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
    found: FoundWorkload, replica_sets: Iterable[Workload], scaled_up: Mapping[str, datetime]
) -> list[Revision]:
    """The revisions of a Deployment, oldest first. One that serves again counts from when it was
    scaled up again."""
    out = []
    for one in replica_sets:
        meta = one.metadata
        number = meta.annotation(REVISION)
        if (
            not meta.owned_by("Deployment", found.meta.name)
            or not number.isdigit()
            or len(number) > 12
        ):
            continue
        reused = bool(meta.annotation(REUSED))
        at = (scaled_up.get(meta.name) or _progressed(found.object)) if reused else meta.created
        template = one.spec.template if one.spec else None
        out.append(
            Revision(int(number), meta.name, template or {}, at, reused, meta.annotation(CAUSE))
        )
    return sorted(out, key=lambda r: r.number)


def controller_revisions(
    found: FoundWorkload, revisions: Iterable[ControllerRevision]
) -> list[Revision]:
    """The revisions of a StatefulSet or DaemonSet, oldest first."""
    out = []
    for one in revisions:
        spec = one.data.get("spec") if isinstance(one.data, Mapping) else None
        template = spec.get("template") if isinstance(spec, Mapping) else None
        if one.metadata.owned_by(found.kind, found.meta.name) and isinstance(template, Mapping):
            cause = one.metadata.annotation(CAUSE)
            out.append(
                Revision(
                    one.revision, one.metadata.name, template, one.metadata.created, False, cause
                )
            )
    return sorted(out, key=lambda r: r.number)


def rollout_rows(
    found: FoundWorkload, revisions: Sequence[Revision], link: str | None, window: Window
) -> list[tuple[Any, ...]]:
    """A row of the changes table for each revision that was rolled out in the window."""
    rows = []
    pairs: list[tuple[Revision | None, Revision]] = [(None, r) for r in revisions[:1]]
    for before, after in [*pairs, *pairwise(revisions)]:
        if after.at is None or not window.start <= after.at <= window.end:
            continue
        old, new = facts(before.template) if before else {}, facts(after.template)
        changed = (
            [k for k in dict.fromkeys((*old, *new)) if _compared(old, k) != _compared(new, k)]
            if before
            else []
        )
        what = "Rollback" if after.reused else "Rollout"
        title = f"{what} of {found.meta.name}: {_told(before, changed, old, new)}"
        title += (
            f" ({found.kind.lower()} {found.ref.namespace}/{found.meta.name}, "
            f"revision {after.number})"
        )
        title += f"; {short(after.cause, 120)}" if after.cause else ""
        diff = "\n".join(_diff(changed[:MOST_DIFF], old, new)) or None
        name = short(after.name, 200)
        rows.append(
            (after.at, found.ref.service, "deploy", name, short(title, 400), None, link, None, diff)
        )
    return rows


def scaled_by_hand(found: FoundWorkload, link: str | None, window: Window) -> list[tuple[Any, ...]]:
    """Rows for those who set the number of replicas through the subresource `scale`, but for
    autoscalers."""
    rows = []
    for one in found.meta.managed_fields or ():
        at = moment(one.time)
        if (
            one.subresource == "scale"
            and at
            and window.start <= at <= window.end
            and _is_person(one)
        ):
            who = short(one.manager or "", 80)
            title = (
                f"Replicas of {found.kind.lower()} "
                f"{found.ref.namespace}/{found.meta.name} set by {who}"
            )
            name = f"{found.meta.name} scale {at:%H:%M:%S}"
            rows.append((at, found.ref.service, "scale", name, title, who, link, None, None))
    return rows


def config_rows(
    maps: Iterable[Named], services: Mapping[str, Sequence[str]], namespace: str, window: Window
) -> list[tuple[Any, ...]]:
    """When the config maps that workloads name were written, and by whom. `services` by the map's
    name."""
    rows = []
    for one in maps:
        name = one.metadata.name
        written = [
            (at, m.manager) for m in one.metadata.managed_fields or () if (at := moment(m.time))
        ]
        if not written and (made := one.metadata.created):
            written = [(made, None)]
        for at, manager in written:
            if window.start <= at <= window.end:
                who = short(manager or "", 80) or None
                title = (
                    f"ConfigMap {namespace}/{short(name, 100)} written{f' by {who}' if who else ''}"
                )
                ident = f"configmap {short(name, 100)} {at:%H:%M:%S}"
                rows += [
                    (at, s, "config", ident, title, who, None, None, None)
                    for s in services.get(name, ())
                ]
    return rows


def config_maps_of(template: Mapping[str, Any] | None) -> set[str]:
    """Names of the config maps that a pod template reads."""
    found: set[str] = set()
    waiting: list[Any] = [template]
    seen = 0
    while waiting and seen < 20_000:
        node, seen = waiting.pop(), seen + 1
        if isinstance(node, Mapping):
            for key, value in node.items():
                if key in ("configMap", "configMapRef", "configMapKeyRef") and isinstance(
                    value, Mapping
                ):
                    name = value.get("name")
                    found |= {name} if isinstance(name, str) else set()
                waiting.append(value)
        elif isinstance(node, list):
            waiting += node
    return found


def facts(template: Mapping[str, Any]) -> Facts:
    """What of a pod template matters: images, limits, probes, and the names of what it is
    configured with."""
    out: Facts = {}
    spec = _table(template.get("spec"))
    annotations = _table(_table(template.get("metadata")).get("annotations"))
    for container in [*_tables(spec.get("containers")), *_tables(spec.get("initContainers"))][
        :MOST_CONTAINERS
    ]:
        _container(container, out)
    for volume in _tables(spec.get("volumes")):
        out[f"volume {_text(volume.get('name'))}"] = (_sources(volume), _canonical(volume))
    for key in (
        "serviceAccountName",
        "priorityClassName",
        "nodeSelector",
        "terminationGracePeriodSeconds",
    ):
        if key in spec:
            out[key] = (_text(spec[key]), _canonical(spec[key]))
    for key, value in annotations.items():
        shown = _text(value) if key == RESTARTED else HIDDEN
        out["restarted" if key == RESTARTED else f"annotation {_text(key)}"] = (
            shown,
            _canonical(value),
        )
    return dict(list(out.items())[:MOST_FACTS])


def _container(container: Mapping[str, Any], out: Facts) -> None:
    own = _text(container.get("name"))
    out[f"{own} image"] = (_text(container.get("image")), _canonical(container.get("image")))
    for side, given in _table(container.get("resources")).items():
        for resource, amount in _table(given).items():
            out[f"{own} {_text(side)}.{_text(resource)}"] = (_text(amount), _canonical(amount))
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            given = _table(container[probe])
            numbers = ", ".join(f"{_text(k)} {v}" for k, v in given.items() if type(v) is int)
            out[f"{own} {probe}"] = (numbers or "set", _canonical(given))
    for variable in _tables(container.get("env")):
        out[f"{own} env {_text(variable.get('name'))}"] = (_sources(variable), _canonical(variable))
    for number, source in enumerate(_tables(container.get("envFrom"))):
        out[f"{own} envFrom {number}"] = (_sources(source), _canonical(source))
    for key in ("command", "args"):
        if key in container:
            out[f"{own} {key}"] = (HIDDEN, _canonical(container[key]))


def _sources(given: Mapping[str, Any]) -> str:
    """Where a value comes from; the value itself is not shown."""
    names = sorted(f"config map {_text(n)}" for n in config_maps_of(given))
    for holder in (given, _table(given.get("valueFrom"))):
        for key in ("secret", "secretRef", "secretKeyRef"):
            secret = _table(holder.get(key))
            if secret:
                names.append(f"secret {_text(secret.get('name') or secret.get('secretName'))}")
    return ", ".join(names) or HIDDEN


def _told(before: Revision | None, changed: Sequence[str], old: Facts, new: Facts) -> str:
    if before is None:
        images = [shown for key, (shown, _) in new.items() if key.endswith(" image")]
        return (
            f"image {', '.join(_last(i) for i in images[:MOST_TOLD])}"
            if images
            else "its first revision"
        )
    ordered = sorted(
        changed, key=lambda k: (not k.endswith(" image"), not ("limits" in k or "requests" in k))
    )
    parts = [_one(key, old, new) for key in ordered[:MOST_TOLD]]
    rest = len(changed) - MOST_TOLD
    return (
        ", ".join(parts) + (f" and {rest} more" if rest > 0 else "")
        if parts
        else "nothing that is read differs"
    )


def _one(key: str, old: Facts, new: Facts) -> str:
    a, b = (_last(side[key][0]) if key in side else "" for side in (old, new))
    name = key.partition(" ")[2] or key
    if a == b or HIDDEN in (a, b):
        return (
            f"{name} "
            f"{'changed' if key in old and key in new else 'added' if key in new else 'removed'}"
        )
    return f"{name} {a or 'none'} -> {b or 'none'}"


def _diff(changed: Iterable[str], old: Facts, new: Facts) -> Iterable[str]:
    for key in changed:
        same = key in old and key in new and old[key][0] == new[key][0]
        if key in old:
            yield f"-{key}: {old[key][0]}{' (before)' if same else ''}"
        if key in new:
            yield f"+{key}: {new[key][0]}{' (after)' if same else ''}"


def _progressed(workload: Workload) -> datetime | None:
    """When a Deployment's rollout last went on."""
    conditions = (workload.status.conditions if workload.status else None) or ()
    return next((moment(c.last_update_time) for c in conditions if c.type == "Progressing"), None)


def _is_person(one: Managed) -> bool:
    manager = one.manager or ""
    return bool(manager) and not manager.startswith("kube-controller-manager")


def _last(image: str) -> str:
    """An image without its registry and path."""
    return image.rpartition("/")[2] if not image.endswith("/") else image


def _compared(side: Facts, key: str) -> str | None:
    return side[key][1] if key in side else None


def _canonical(value: Any) -> str:
    try:
        return json.dumps(value, sort_keys=True, default=str)
    except RecursionError:
        return TOO_DEEP


def _text(value: Any) -> str:
    return short(value if isinstance(value, str) else _canonical(value), 160)


def _table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return [v for v in value if isinstance(v, Mapping)] if isinstance(value, list) else []
