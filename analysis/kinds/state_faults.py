"""The faults that an object's own state shows: one entry per fact that a connector may report.

The objects are those of a Kubernetes cluster, databases of a cloud, and what exporters measure of
machines, volumes, databases, queues and certificates. A fact is a row of the table
`states` (docs/case-folder.md); its name is that of the fault here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from analysis.kinds.fault_kinds import FaultKind


class Depth(IntEnum):
    """How near a fact is to a cause. One of a lower depth explains those above it."""

    SETTING = 0
    """What somebody set, or what is broken itself: nothing in the cluster brings it about."""
    INSTANCE = 1
    """An instance that does not run; a setting, a node or its own code is why."""
    EFFECT = 2
    """What is missing for want of instances."""


@dataclass(frozen=True)
class StateFault:
    """One fact, the fault that it speaks of, and how it is said."""

    fault: FaultKind
    depth: Depth
    says: str
    """The sentence; may name `{object}`, `{value}` and `{expected}`."""
    says_less: str = ""
    """The sentence where the value is not known."""
    signatures: frozenset[str] = frozenset()
    """The known failures by which log lines, that connectors make of the cluster's events, say the
    same (`failure_signatures.toml`)."""

    @property
    def name(self) -> str:
        """The fact's name."""
        return self.fault.name


def _fact(
    name: str,
    weight: float,
    depth: Depth,
    phrase: str,
    says: str,
    *,
    step: str,
    less: str = "",
    travels: bool = False,
    logged_as: tuple[str, ...] = (),
) -> StateFault:
    """The subject has it by itself, unless it `travels` from what it calls."""
    fault = FaultKind(
        name=name,
        weight=weight,
        phrase=phrase,
        next_step=step,
        own=not travels,
        travels="fails" if travels else None,
        has_impact=depth is Depth.EFFECT,
        tables=("states",),
    )
    return StateFault(fault, depth, says, less, frozenset(logged_as))


_ROUTES = (
    _fact(
        "selector_matches_nothing",
        0.97,
        Depth.SETTING,
        "has a Service that selects none of its pods",
        "{object} selects {value}, which no pod has; the pods have {expected}",
        less="{object} selects no pod",
        step="Compare the selector of the Service of {subject} with the labels of its pods, and "
        "correct whichever changed.",
    ),
    _fact(
        "port_not_served",
        0.97,
        Depth.SETTING,
        "is routed to a port on which nothing listens",
        "{object} sends to port {value}, and its containers declare {expected}",
        less="{object} sends to a port that no container declares",
        step="Correct the targetPort of the Service of {subject}, or the port of its containers.",
    ),
    _fact(
        "route_to_nothing",
        0.95,
        Depth.SETTING,
        "is reached by a route that leads nowhere",
        "{object} leads to {value}, which is not there",
        less="{object} leads to a Service or port that is not there",
        step="Correct the backend of the route to {subject}, or bring the Service back.",
    ),
    _fact(
        "traffic_blocked",
        0.95,
        Depth.SETTING,
        "is cut off by a network policy",
        "{object} lets nothing through from {value} to {expected}",
        less="{object} lets no traffic through",
        step="Read the network policies that select {subject}, and allow its callers again.",
    ),
    _fact(
        "certificate_expired",
        0.95,
        Depth.SETTING,
        "has a certificate that is not valid",
        "{object} is not valid: {value}",
        less="{object} is not valid",
        step="Renew the certificate of {subject}, and find out why its issuer did not.",
    ),
    _fact(
        "certificate_expires_soon",
        0.3,
        Depth.SETTING,
        "has a certificate that expires soon",
        "{object} expires soon: {value}",
        less="{object} expires soon",
        step="Renew the certificate of {subject} now, and find out why its issuer did not.",
    ),
    _fact(
        "no_ready_endpoints",
        0.7,
        Depth.EFFECT,
        "has no instance that can take requests",
        "{object} has no ready endpoint",
        step="Find out why no instance of {subject} is ready: its events and its probes.",
    ),
)
_STARTS = (
    _fact(
        "image_unavailable",
        0.95,
        Depth.SETTING,
        "cannot pull its image",
        "{object} cannot start, because its image cannot be pulled: {value}",
        less="{object} cannot start, because its image cannot be pulled",
        step="Check the image name and tag of {subject}, and its right to pull from the registry.",
        logged_as=("image_pull_failed",),
    ),
    _fact(
        "reference_missing",
        0.95,
        Depth.SETTING,
        "needs a config map or a secret that is not there",
        "{object} cannot start without {value}, which is not there",
        less="{object} cannot start, because a config map, a secret or a key of it is not there",
        step="Bring the missing object back, or correct its name in the pod template of {subject}.",
        logged_as=("container_config_error", "volume_mount_failed"),
    ),
    _fact(
        "container_refused",
        0.9,
        Depth.SETTING,
        "has a container that cannot be created",
        "{object} cannot start: {value}",
        less="{object} cannot start",
        step="Read the container's message, and correct the pod template of {subject}.",
        logged_as=("container_config_error",),
    ),
    _fact(
        "scaled_to_zero",
        0.95,
        Depth.SETTING,
        "is scaled to no instance at all",
        "{object} is set to run {value} instances",
        less="{object} is set to run no instance",
        step="Find out who set the replicas of {subject} to zero, and set them back.",
    ),
)
_ENDS = (
    _fact(
        "killed_for_memory",
        0.95,
        Depth.INSTANCE,
        "is killed for using more memory than it may",
        "{object} was killed for using more memory than its limit; {value}",
        less="{object} was killed for using more memory than its limit",
        step="Compare the memory use of {subject} with its limit, before and after the last "
        "rollout.",
        logged_as=("container_out_of_memory", "host_out_of_memory", "crash_loop"),
    ),
    _fact(
        "crash_loop",
        0.9,
        Depth.INSTANCE,
        "ends again and again",
        "{object} ends again and again; {value}",
        less="{object} ends again and again",
        step="Read the last lines of the ended containers of {subject} (kubectl logs --previous).",
        logged_as=("crash_loop",),
    ),
    _fact(
        "crashed",
        0.75,
        Depth.INSTANCE,
        "crashed",
        "{object} crashed: {value}",
        less="{object} crashed",
        step="Read the last lines of the container of {subject} that ended "
        "(kubectl logs --previous).",
    ),
    _fact(
        "evicted",
        0.7,
        Depth.INSTANCE,
        "was evicted from its node",
        "{object} was evicted: {value}",
        less="{object} was evicted",
        step="Find out what its node ran out of, and what {subject} requests of it.",
        logged_as=("pod_evicted",),
    ),
    _fact(
        "job_failed",
        0.85,
        Depth.INSTANCE,
        "has a job that failed",
        "{object} failed: {value}",
        less="{object} failed",
        step="Read the output of the last failed pod of the job of {subject}.",
    ),
)
_PROBES = (
    _fact(
        "probe_misconfigured",
        0.95,
        Depth.SETTING,
        "has a probe that its containers cannot answer",
        "The probe of {object} asks {value}, and the containers serve {expected}",
        less="{object} does not serve what its probe asks for",
        step="Correct the path or port of the probe of {subject}.",
        logged_as=("probe_failed",),
    ),
    _fact(
        "liveness_failing",
        0.85,
        Depth.INSTANCE,
        "is restarted because its liveness probe fails",
        "{object} fails its liveness or startup probe: {value}",
        less="{object} fails its liveness or startup probe",
        step="Find out what the probe of {subject} waits for, and whether its time is too short.",
        logged_as=("probe_failed", "crash_loop"),
    ),
    _fact(
        "readiness_failing",
        0.65,
        Depth.EFFECT,
        "is not ready to take requests",
        "{object} fails its readiness probe: {value}",
        less="{object} is not ready",
        step="Find out what the readiness probe of {subject} waits for.",
        travels=True,
        logged_as=("probe_failed",),
    ),
)
_PLACING = (
    _fact(
        "placement_impossible",
        0.9,
        Depth.SETTING,
        "asks for a node that is not there",
        "{object} cannot be placed: {value}",
        less="No node satisfies what {object} asks for",
        step="Compare the node selector, affinity and tolerations of {subject} with the nodes.",
        logged_as=("pod_unschedulable",),
    ),
    _fact(
        "unschedulable",
        0.85,
        Depth.INSTANCE,
        "finds no node with room for its instances",
        "{object} cannot be placed: {value}",
        less="{object} finds no node with room for it",
        step="Compare what {subject} requests with what the nodes have left, and add capacity.",
        logged_as=("pod_unschedulable",),
    ),
    _fact(
        "replicas_missing",
        0.6,
        Depth.EFFECT,
        "runs fewer instances than it should",
        "{object} has {value} of {expected} instances",
        less="{object} has fewer instances than it should",
        step="Read the events of {subject} and of its replica sets.",
    ),
    _fact(
        "rollout_stuck",
        0.65,
        Depth.EFFECT,
        "has a rollout that does not get on",
        "The rollout of {object} does not get on: {value}",
        less="The rollout of {object} does not get on",
        step="Read why the new pods of {subject} do not become ready, or roll back.",
    ),
)
_LIMITS = (
    _fact(
        "quota_exceeded",
        0.97,
        Depth.SETTING,
        "refuses new pods by its quota",
        "{object} refuses new pods: {value}",
        less="{object} refuses new pods",
        step="Raise the quota of {subject}, or free what uses it up.",
        logged_as=("resource_quota",),
    ),
    _fact(
        "limit_range_refused",
        0.95,
        Depth.SETTING,
        "refuses pods of this size",
        "{object} refuses pods: {value}",
        less="{object} refuses pods of this size",
        step="Compare the limit range of {subject} with what the pods request.",
    ),
    _fact(
        "namespace_terminating",
        0.97,
        Depth.SETTING,
        "is being deleted",
        "{object} is being deleted",
        step="Find out who deleted {subject}, and bring its objects back elsewhere.",
    ),
)
_SATURATION = (
    _fact(
        "cpu_throttled",
        0.95,
        Depth.INSTANCE,
        "is throttled by its CPU limit",
        "{object} is throttled by its CPU limit: {value}",
        less="{object} is throttled by its CPU limit",
        step="Raise or remove the CPU limit of {subject}, or find out what uses more CPU.",
        logged_as=("cpu_throttled",),
    ),
    _fact(
        "memory_near_limit",
        0.5,
        Depth.INSTANCE,
        "has almost no memory left",
        "{object} has almost no memory left: {value}",
        less="{object} has almost no memory left",
        step="Find out what fills the memory of {subject}, and raise its limit if that is right.",
    ),
    _fact(
        "pool_exhausted",
        0.85,
        Depth.INSTANCE,
        "has used up its connections",
        "{object} has almost none left: {value}",
        less="{object} has used up its connections",
        step="Find out who holds the connections of {subject}: slow queries, leaks, more clients.",
        logged_as=(
            "pool_exhausted",
            "hikari_pool_exhausted",
            "sqlalchemy_pool_exhausted",
            "postgres_too_many_connections",
            "mysql_too_many_connections",
        ),
    ),
    _fact(
        "publishing_blocked",
        0.9,
        Depth.SETTING,
        "takes no messages until it has room again",
        "{object} blocks its publishers: {value}",
        less="{object} blocks its publishers",
        step="Free memory or disk of {subject}, and find out which queue grew.",
    ),
    _fact(
        "queue_without_consumers",
        0.85,
        Depth.EFFECT,
        "has messages and nobody who reads them",
        "{object} has {value} and no consumer",
        less="{object} has messages and no consumer",
        step="Find out why the consumers of {subject} are gone.",
    ),
    _fact(
        "consumers_behind",
        0.6,
        Depth.EFFECT,
        "is far behind with its messages",
        "{object} is behind: {value}",
        less="{object} is far behind with its messages",
        step="Check the consumers of {subject}: their errors, their speed, their number.",
    ),
    _fact(
        "requests_throttled",
        0.85,
        Depth.INSTANCE,
        "rejects requests beyond its capacity",
        "{object} rejects requests beyond its capacity: {value}",
        less="{object} rejects requests beyond its capacity",
        step="Raise the capacity or quota of {subject}, or find out who asks more of it, or of one "
        "key or shard.",
    ),
    _fact(
        "cpu_exhausted",
        0.85,
        Depth.INSTANCE,
        "has no CPU left",
        "{object} has no CPU left: {value}",
        less="{object} has no CPU left",
        step="Find out which commands keep {subject} busy, and give it more or larger nodes.",
    ),
    _fact(
        "ports_exhausted",
        0.9,
        Depth.INSTANCE,
        "has no port left for new connections",
        "{object} has no port left for new connections: {value}",
        less="{object} has no port left for new connections",
        step="Find out which destination {subject} has most connections to, reuse connections, and "
        "add addresses or gateways.",
    ),
    _fact(
        "dead_letters",
        0.6,
        Depth.EFFECT,
        "has messages that its consumers gave up on",
        "{object} has {value} that its consumers gave up on",
        less="{object} has messages that its consumers gave up on",
        step="Read a message of the dead-letter queue of {subject}, and the errors of its "
        "consumers.",
    ),
)
_VOLUMES = (
    _fact(
        "volume_unavailable",
        0.95,
        Depth.SETTING,
        "waits for a volume",
        "{object} is {value}",
        less="{object} is not bound to a volume",
        step="Check the storage class, the provisioner and the zone of the volume of {subject}.",
        logged_as=("pod_unschedulable",),
    ),
    _fact(
        "volume_not_attached",
        0.9,
        Depth.SETTING,
        "cannot attach or mount its volume",
        "{object} cannot mount its volume: {value}",
        less="{object} cannot mount its volume",
        step="Find the node that still holds the volume of {subject}, and what its driver says.",
        logged_as=("volume_mount_failed",),
    ),
    _fact(
        "volume_full",
        0.9,
        Depth.SETTING,
        "has a volume that is full",
        "{object} is full: {value}",
        less="{object} is full",
        step="Free space on the volume of {subject}, or make it larger.",
    ),
)
_SCALING = (
    _fact(
        "autoscaler_at_maximum",
        0.6,
        Depth.INSTANCE,
        "may not scale any further",
        "{object} is at its maximum of {value} and would need more",
        less="{object} is at its maximum and would need more",
        step="Find out why {subject} needs more instances, and raise the maximum if that is right.",
    ),
    _fact(
        "autoscaler_blind",
        0.6,
        Depth.SETTING,
        "cannot scale without its metrics",
        "{object} cannot scale: {value}",
        less="{object} cannot read its metrics",
        step="Check the metrics server, and the metric that the autoscaler of {subject} names.",
    ),
    _fact(
        "disruption_blocked",
        0.3,
        Depth.EFFECT,
        "may lose no further instance",
        "{object} allows no disruption",
        step="Find out which instances of {subject} are not healthy.",
    ),
)
_NODES = (
    _fact(
        "node_not_ready",
        0.97,
        Depth.SETTING,
        "is not ready, and what runs there with it",
        "{object} is not ready: {value}",
        less="{object} is not ready",
        step="Drain {subject}, then look at its kubelet, its network and its machine.",
        logged_as=("node_not_ready",),
    ),
    _fact(
        "node_under_pressure",
        0.9,
        Depth.SETTING,
        "runs out of a resource, and what runs there with it",
        "{object} has {value}",
        less="{object} runs out of a resource",
        step="Find out what uses up the resource of {subject}, and move pods off it.",
        logged_as=("disk_pressure", "memory_pressure"),
    ),
    _fact(
        "node_cordoned",
        0.9,
        Depth.SETTING,
        "takes no new pods",
        "{object} takes no new pods: it was cordoned or tainted ({value})",
        less="{object} takes no new pods: it was cordoned or tainted",
        step="Find out who cordoned {subject} and why, and uncordon it if that is over.",
    ),
)
_DATABASES = (
    _fact(
        "database_storage_full",
        0.97,
        Depth.SETTING,
        "is out of storage",
        "{object} is out of storage: {value}",
        less="{object} is out of storage",
        step="Give {subject} more storage, and find out what filled it.",
    ),
    _fact(
        "database_unavailable",
        0.95,
        Depth.SETTING,
        "is not available",
        "{object} is not available: its status is {value}",
        less="{object} is not available",
        step="Read the events of {subject}, and start or restore it.",
    ),
    _fact(
        "database_failed_over",
        0.9,
        Depth.SETTING,
        "failed over",
        "{object} failed over: {value}",
        less="{object} failed over",
        step="Check that clients of {subject} reconnect to the new writer, and why the old one "
        "went.",
    ),
    _fact(
        "database_restarted",
        0.85,
        Depth.SETTING,
        "was restarted",
        "{object} was restarted: {value}",
        less="{object} was restarted",
        step="Find out who or what restarted {subject}, and whether its clients reconnected.",
    ),
    _fact(
        "database_in_maintenance",
        0.7,
        Depth.SETTING,
        "is under maintenance",
        "{object} is under maintenance: {value}",
        less="{object} is under maintenance",
        step="Wait for the maintenance of {subject}, or move its window.",
    ),
    _fact(
        "database_access_changed",
        0.85,
        Depth.SETTING,
        "has other credentials or another security group",
        "Access to {object} was changed: {value}",
        less="Access to {object} was changed",
        step="Compare the credentials and security groups of {subject} with what its clients use.",
    ),
    _fact(
        "database_parameters_pending",
        0.5,
        Depth.SETTING,
        "runs with other parameters than it is set to",
        "{object} runs with other parameters than it is set to: {value}",
        less="{object} runs with other parameters than it is set to",
        step="Compare the parameter group of {subject} before and after, and restart it in a quiet "
        "hour.",
    ),
    _fact(
        "database_lagging",
        0.75,
        Depth.SETTING,
        "does not replicate",
        "{object} does not replicate: {value}",
        less="{object} does not replicate",
        step="Find out what {subject} waits for, and read from the writer meanwhile.",
    ),
)
_CLOUD = (
    _fact(
        "machine_impaired",
        0.9,
        Depth.SETTING,
        "runs on a machine that fails its checks",
        "{object} fails its checks: {value}",
        less="{object} fails its checks",
        step="Replace the machine of {subject}, and read its system log.",
    ),
    _fact(
        "machine_lost",
        0.85,
        Depth.SETTING,
        "lost a machine",
        "{object} lost a machine: {value}",
        less="{object} lost a machine",
        step="Find out who or what stopped the machine of {subject}, and whether it was replaced.",
    ),
    _fact(
        "launch_failed",
        0.9,
        Depth.SETTING,
        "cannot start new machines",
        "{object} cannot start a new machine: {value}",
        less="{object} cannot start new machines",
        step="Check the quotas, the launch template and the capacity of the zones of {subject}.",
    ),
    _fact(
        "node_group_degraded",
        0.85,
        Depth.SETTING,
        "has a cluster or node group in bad health",
        "{object} is in bad health: {value}",
        less="{object} is in bad health",
        step="Repair what the health issue of {subject} names: its roles, subnets, quotas, "
        "templates.",
    ),
    _fact(
        "provider_incident",
        0.8,
        Depth.SETTING,
        "uses a cloud service that has an incident",
        "{object} is open: {value}",
        less="{object} is open",
        step="Follow the event on the provider's page, and move {subject} to another zone or "
        "region if it can run there.",
    ),
)

FAMILIES: Mapping[str, tuple[StateFault, ...]] = {
    "route_state": _ROUTES,
    "start_state": _STARTS,
    "end_state": _ENDS,
    "probe_state": _PROBES,
    "placing_state": _PLACING,
    "limit_state": _LIMITS,
    "saturation_state": _SATURATION,
    "volume_state": _VOLUMES,
    "scaling_state": _SCALING,
    "node_state": _NODES,
    "database_state": _DATABASES,
    "cloud_state": _CLOUD,
}
"""By the kind of finding that tells of them."""


def _by_name(families: Iterable[tuple[StateFault, ...]]) -> dict[str, StateFault]:
    found: dict[str, StateFault] = {}
    for facts in families:
        for fact in facts:
            found[fact.name] = fact
    return found


STATE_FAULTS: Mapping[str, StateFault] = _by_name(FAMILIES.values())
FAMILY_OF: Mapping[str, str] = {
    fact.name: family for family, facts in FAMILIES.items() for fact in facts
}
OF_NODES = frozenset(fact.name for fact in _NODES)
OF_NAMESPACES = frozenset(fact.name for fact in _LIMITS)
"""Their subject is the namespace, whichever service is refused."""
