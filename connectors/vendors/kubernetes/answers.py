"""The fields of Kubernetes API objects that we read: v1.34's reference, group by group. All
text is hostile.

Go writes an absent list or time as null as often as it leaves it out, so everything may be None.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.pagerduty.answers import moment

T = TypeVar("T")


class Struct(msgspec.Struct, rename="camel"):
    """Base: Kubernetes writes camelCase."""


class Owner(Struct):
    """Who made an object."""

    kind: str = ""
    name: str = ""


class Managed(Struct):
    """Who last wrote which part of an object, and when; `subresource` is `scale` or `status`."""

    manager: str | None = None
    time: str | None = None
    subresource: str | None = None


class Meta(Struct):
    """metav1.ObjectMeta."""

    name: str = ""
    namespace: str | None = None
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[Owner] | None = None
    managed_fields: list[Managed] | None = None
    deletion_timestamp: str | None = None

    @property
    def written(self) -> datetime | None:
        """When anything but its status was last written, else when it was made."""
        times = []
        for managed_field in self.managed_fields or ():
            at = moment(managed_field.time)
            # Controllers write the status all the time. That does not change the object.
            if at is not None and managed_field.subresource != "status":
                times.append(at)
        return max(times, default=self.created)

    @property
    def created(self) -> datetime | None:
        """When it was made."""
        return moment(self.creation_timestamp)

    def annotation(self, key: str) -> str:
        """An annotation, "" without it."""
        return (self.annotations or {}).get(key, "")

    def owned_by(self, kind: str, name: str) -> bool:
        """Whether it was made by that object."""
        return any(o.kind == kind and o.name == name for o in self.owner_references or ())


class ListMeta(Struct):
    """metav1.ListMeta; `continue` asks for the next page."""

    # `continue` is a keyword of Python.
    next_page: str | None = msgspec.field(default=None, name="continue")
    remaining_item_count: int | None = None


class KubernetesList(msgspec.Struct, Generic[T]):
    """One page. An answer without `items` is no list."""

    items: list[T] | None
    metadata: ListMeta | None = None


class Named(Struct):
    """Any object whose metadata is all that matters (metav1.PartialObjectMetadata)."""

    metadata: Meta


class Selector(Struct):
    """metav1.LabelSelector."""

    match_labels: dict[str, str] | None = None
    match_expressions: list[dict[str, Any]] | None = None

    @property
    def text(self) -> str:
        """As the query parameter takes it; "" where it selects nothing in particular."""
        parts = [f"{key}={value}" for key, value in sorted((self.match_labels or {}).items())]
        for match_expression in self.match_expressions or ():
            key, values = str(match_expression.get("key", "")), match_expression.get("values") or []
            listed = ",".join(map(str, values)) if isinstance(values, list) else ""
            operator = str(match_expression.get("operator", ""))
            # `In` and `NotIn` take the same form: `key in (a,b)`.
            forms = {"Exists": key, "DoesNotExist": f"!{key}"}
            parts.append(forms.get(operator, f"{key} {operator.lower()} ({listed})"))
        return ",".join(parts)


class KubernetesCondition(Struct):
    """A condition of a pod, node, deployment or autoscaler."""

    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: str | None = None
    # Deployments have it: when a rollout last went on.
    last_update_time: str | None = None


class WorkloadSpec(Struct):
    """Of a Deployment, StatefulSet, DaemonSet or Job."""

    selector: Selector | None = None
    template: dict[str, Any] | None = None
    replicas: int | None = None


class WorkloadStatus(Struct):
    """Of a Deployment, StatefulSet or Job."""

    ready_replicas: int | None = None
    conditions: list[KubernetesCondition] | None = None


class Workload(Struct):
    """A Deployment, StatefulSet, DaemonSet, Job or ReplicaSet."""

    metadata: Meta
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class ControllerRevision(Struct):
    """A revision of a StatefulSet or DaemonSet; `data` is a patch that holds the pod template."""

    metadata: Meta
    revision: int = 0
    data: Any = None


class ContainerWaiting(Struct):
    """Why a container does not run yet."""

    reason: str | None = None
    message: str | None = None


class Terminated(Struct):
    """How a container's run ended."""

    exit_code: int | None = None
    signal: int | None = None
    reason: str | None = None
    message: str | None = None
    started_at: str | None = None
    finished_at: str | None = None


class ContainerState(Struct):
    """One of them is set."""

    waiting: ContainerWaiting | None = None
    terminated: Terminated | None = None
    running: dict[str, Any] | None = None


class ContainerStatus(Struct):
    """A container's state now, and how its run before ended."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState | None = None
    last_state: ContainerState | None = None


class ContainerPort(Struct):
    """A port that a container declares."""

    name: str | None = None
    container_port: int | None = None


class HttpProbe(Struct):
    """Where a probe asks."""

    path: str | None = None
    # A number, or the name of a port that the container declares.
    port: int | str | None = None


class ContainerProbe(Struct):
    """A probe of a container."""

    http_get: HttpProbe | None = None
    tcp_socket: HttpProbe | None = None


class PodContainer(Struct):
    """A container as its pod's template has it."""

    name: str = ""
    ports: list[ContainerPort] | None = None
    liveness_probe: ContainerProbe | None = None
    readiness_probe: ContainerProbe | None = None
    startup_probe: ContainerProbe | None = None
    # Of an init container "Always": it runs beside the others, and is not meant to end.
    restart_policy: str | None = None


class PodClaim(Struct):
    """The claim behind a volume."""

    claim_name: str = ""


class PodVolume(Struct):
    """A volume of a pod. Only claims are read."""

    persistent_volume_claim: PodClaim | None = None


class PodSpec(Struct):
    """Where a pod runs, and what of."""

    node_name: str | None = None
    init_containers: list[PodContainer] | None = None
    containers: list[PodContainer] | None = None
    volumes: list[PodVolume] | None = None


class PodStatus(Struct):
    """How a pod is."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    conditions: list[KubernetesCondition] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    container_statuses: list[ContainerStatus] | None = None
    start_time: str | None = None


class Pod(Struct):
    """A pod."""

    metadata: Meta
    spec: PodSpec | None = None
    status: PodStatus | None = None

    @property
    def node(self) -> str | None:
        """The node it runs on."""
        return self.spec.node_name if self.spec else None


class NodeSystem(Struct):
    """What a node runs."""

    kubelet_version: str | None = None
    kernel_version: str | None = None
    container_runtime_version: str | None = None
    os_image: str | None = None


class NodeStatus(Struct):
    """How a node is."""

    conditions: list[KubernetesCondition] | None = None
    node_info: NodeSystem | None = None


class Taint(Struct):
    """What keeps pods off a node."""

    key: str = ""
    effect: str | None = None
    time_added: str | None = None


class NodeSpec(Struct):
    """Whether a node takes pods."""

    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class Node(Struct):
    """A node."""

    metadata: Meta
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class KubernetesReference(Struct):
    """The object that an event or autoscaler is about."""

    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class ScalerSpec(Struct):
    """What an autoscaler scales."""

    scale_target_ref: KubernetesReference | None = None
    min_replicas: int | None = None
    max_replicas: int | None = None


class ScalerStatus(Struct):
    """What it did last."""

    last_scale_time: str | None = None
    current_replicas: int | None = None
    desired_replicas: int | None = None
    conditions: list[KubernetesCondition] | None = None


class Scaler(Struct):
    """autoscaling/v2 HorizontalPodAutoscaler."""

    metadata: Meta
    spec: ScalerSpec | None = None
    status: ScalerStatus | None = None


class KubernetesEventSeries(Struct):
    """How often an event came."""

    count: int | None = None
    last_observed_time: str | None = None


class KubernetesEventSource(Struct):
    """Who reported an event."""

    component: str | None = None
    host: str | None = None


class KubernetesEvent(Struct):
    """An event in the words of events.k8s.io/v1 and of core/v1: the second's are those that come
    second."""

    metadata: Meta
    type: str | None = None
    reason: str | None = None
    event_time: str | None = None
    series: KubernetesEventSeries | None = None
    regarding: KubernetesReference | None = None
    involved_object: KubernetesReference | None = None
    note: str | None = None
    message: str | None = None
    deprecated_source: KubernetesEventSource | None = None
    source: KubernetesEventSource | None = None
    deprecated_first_timestamp: str | None = None
    first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    last_timestamp: str | None = None
    deprecated_count: int | None = None
    count: int | None = None

    @property
    def about(self) -> KubernetesReference:
        """The object."""
        return self.regarding or self.involved_object or KubernetesReference()

    @property
    def text(self) -> str:
        """What it says."""
        return short(self.note or self.message or "", 400)

    @property
    def host(self) -> str | None:
        """The node that reported it."""
        source = self.deprecated_source or self.source
        return source.host if source else None

    @property
    def first(self) -> datetime | None:
        """When it came first."""
        # The reporter fills the fields of one API only, so try all of them.
        timestamps = (self.deprecated_first_timestamp, self.first_timestamp, self.event_time)
        return next((at for text in timestamps if (at := moment(text))), self.metadata.created)

    @property
    def last(self) -> datetime | None:
        """When it came last."""
        timestamps = (
            self.series.last_observed_time if self.series else None,
            self.deprecated_last_timestamp,
            self.last_timestamp,
        )
        return next((at for text in timestamps if (at := moment(text))), self.first)

    @property
    def times(self) -> int:
        """How often it came."""
        # A count that is absent or 0 stands for one occurrence.
        counted = self.series.count if self.series else None
        return max(1, counted or self.deprecated_count or self.count or 1)
