"""Events as log lines and as scale changes. Kubernetes keeps an event's first and last time and a
count."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.collection_builder import ChangeRow, LogRow
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import KubernetesEvent, Scaler
from faultline.connectors.vendors.kubernetes.workloads import makers_of
from faultline.connectors.vendors.pagerduty.answers import moment

MICROSECOND = timedelta(microseconds=1)
MOST_REPEATS = 200
"""Rows of one event that came again and again, in the windows."""
RESCALED = "SuccessfulRescale"
"""Reason of an autoscaler's event (kubernetes/pkg/controller/podautoscaler/horizontal.go)."""
SCALED_UP = re.compile(r"Scaled up replica set ([a-z0-9.-]{1,253})")
"""Message of a Deployment's ScalingReplicaSet event
(kubernetes/pkg/controller/deployment/sync.go)."""
_NEW_SIZE = re.compile(r"New size: (\d{1,7}); reason: (.{1,200})")

_MAKERS = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job")
"""Kinds of objects that make pods."""

Objects = Mapping[tuple[str, str, str], str]
"""Our name of the service by namespace, kind and name of an object."""


def service_of(event: KubernetesEvent, objects: Objects) -> str | None:
    """The service whose workload an event is about; a pod that is gone is known by its name."""
    about = event.about
    namespace = about.namespace or event.metadata.namespace or ""
    kind = about.kind or ""
    name = about.name or ""
    object_service = objects.get((namespace, kind, name))
    if object_service is not None or kind != "Pod":
        return object_service
    # Only the name of a deleted pod is left, and it begins with its maker's name.
    for maker in makers_of(name):
        for maker_kind in _MAKERS:
            service = objects.get((namespace, maker_kind, maker))
            if service is not None:
                return service
    return None


def log_rows(event: KubernetesEvent, services: Sequence[str], window: Window) -> list[LogRow]:
    """Rows of the logs table: one for each time it came, spread evenly between the first and the
    last."""
    about = event.about
    node = about.name if about.kind == "Node" else event.host
    fields = {
        "reason": _word(event.reason),
        "object": short(f"{about.kind}/{about.name}", 200),
        "namespace": short(about.namespace or event.metadata.namespace or "", 100),
        "node": short(node or "", 100),
        "count": event.times,
        "source": "kubernetes event",
    }
    attributes = json.dumps({name: value for name, value in fields.items() if value})
    level = "WARNING" if event.type == "Warning" else "INFO"
    text = event.text or _word(event.reason)
    rows = []
    for at in _times(event, window):
        rows += [LogRow(at, service, text, level, None, attributes) for service in services]
    return rows


def _times(event: KubernetesEvent, window: Window) -> list[datetime]:
    first, last, repeats = event.first, event.last, event.times - 1
    if first is None or last is None:
        return []
    span = (last - first) // MICROSECOND
    if repeats == 0 or span <= 0:
        return [last] if window.start <= last <= window.end else []
    # In whole microseconds, for a float of so large a number would miss the window's edges. The
    # first repetition inside is rounded up (the double minus), the last one down.
    begin = max(0, -(-((window.start - first) // MICROSECOND) * repeats // span))
    end = min(repeats, (window.end - first) // MICROSECOND * repeats // span)
    inside = range(begin, end + 1)
    every = max(1, math.ceil(len(inside) / MOST_REPEATS))
    return [first + span * number // repeats * MICROSECOND for number in inside[::every]]


def scale_row(
    event: KubernetesEvent, service: str, link: str | None, window: Window
) -> ChangeRow | None:
    """A row of the changes table where an autoscaler says that it scaled."""
    at = event.last
    if event.reason != RESCALED or at is None or not window.start <= at <= window.end:
        return None
    size = _NEW_SIZE.search(event.text)
    if size is None:
        return None
    name = short(event.about.name or "", 100)
    title = f"Autoscaler {name} set {service} to {size[1]} replicas: {short(size[2], 120)}"
    identity = short(f"{name} {event.metadata.name}", 200)
    restorer = f"HorizontalPodAutoscaler {name}"
    return ChangeRow(
        at, service, "scale", identity, title, "autoscaler", link, after=size[1],
        restored_by=restorer,
    )  # fmt: skip


def scaler_row(scaler: Scaler, service: str, link: str | None, window: Window) -> ChangeRow | None:
    """The autoscaler's last scaling, for when its event is gone."""
    status = scaler.status
    at = moment(status.last_scale_time) if status else None
    if status is None or at is None or not window.start <= at <= window.end:
        return None
    name = short(scaler.metadata.name, 100)
    sizes = f"{status.desired_replicas} replicas wanted, {status.current_replicas} there"
    title = f"Autoscaler {name} scaled {service}: {sizes}"
    identity = short(f"{name} {at:%H:%M:%S}", 200)
    return ChangeRow(at, service, "scale", identity, title, "autoscaler", link)


def scaled_up(events: Iterable[KubernetesEvent]) -> dict[str, datetime]:
    """When the Deployment controller first scaled a ReplicaSet up, by its name. Older events are
    gone."""
    times_by_name: dict[str, datetime] = {}
    for event in events:
        at = event.first
        if event.reason != "ScalingReplicaSet" or at is None:
            continue
        scaled = SCALED_UP.search(event.text)
        if scaled:
            times_by_name[scaled[1]] = min(at, times_by_name.get(scaled[1], at))
    return times_by_name


def _word(reason: str | None) -> str:
    return re.sub(r"[^A-Za-z]", "", reason or "")[:60]
