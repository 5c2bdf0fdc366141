"""The faults of a cluster's objects: workloads and what they are given, nodes, and how requests
reach a service.
"""

from __future__ import annotations

from faultline.analysis.kinds.state_fault import Depth, state_fault

# Workloads of a cluster and what they are given: starts, ends, probes, placing, quotas, volumes,
# autoscalers.

STARTS = (
    state_fault(
        "image_unavailable",
        0.95,
        Depth.SETTING,
        "cannot pull its image",
        "{object} cannot start, because its image cannot be pulled: {value}",
        less="{object} cannot start, because its image cannot be pulled",
        step="Check the image name and tag of {subject}, and its right to pull from the registry.",
        logged_as=("image_pull_failed",),
    ),
    state_fault(
        "reference_missing",
        0.95,
        Depth.SETTING,
        "needs a ConfigMap or Secret that does not exist",
        "{object} cannot start: {value}",
        less="{object} cannot start: a ConfigMap, a Secret or one of its keys does not exist",
        step="Restore the missing object, or correct its name in the pod template of {subject}.",
        logged_as=("container_config_error", "volume_mount_failed"),
    ),
    state_fault(
        "container_refused",
        0.9,
        Depth.SETTING,
        "has a container that cannot be created",
        "{object} cannot start: {value}",
        less="{object} cannot start",
        step="Read the container's message, and correct the pod template of {subject}.",
        logged_as=("container_config_error",),
    ),
    state_fault(
        "start_blocked",
        0.85,
        Depth.INSTANCE,
        "does not start, because an init container does not end",
        "{object} does not start: {value}",
        less="{object} does not start: an init container does not end",
        step="Read what the init container of {subject} waits for.",
    ),
    state_fault(
        "scaled_to_zero",
        0.95,
        Depth.SETTING,
        "is scaled to zero",
        "{object} is set to run {value} instances",
        less="{object} is set to run no instance",
        step="Find out who set the replicas of {subject} to zero, and set them back.",
    ),
)

ENDS = (
    state_fault(
        "killed_for_memory",
        0.95,
        Depth.INSTANCE,
        "is killed for exceeding its memory limit",
        "{object} was killed for exceeding its memory limit ({value})",
        less="{object} was killed for exceeding its memory limit",
        step="Raise the memory limit of {subject} for now, take a heap profile before it is full "
        "again, and compare its memory use before and after the last rollout.",
        logged_as=("container_out_of_memory", "host_out_of_memory", "crash_loop"),
    ),
    state_fault(
        "crash_loop",
        0.9,
        Depth.INSTANCE,
        "keeps crashing",
        "{object} keeps crashing ({value})",
        less="{object} keeps crashing",
        step="Read why the containers of {subject} crash: their last log lines (kubectl logs "
        "--previous).",
        logged_as=("crash_loop",),
    ),
    state_fault(
        "crashed",
        0.75,
        Depth.INSTANCE,
        "crashed",
        "{object} crashed: {value}",
        less="{object} crashed",
        step="Read the last log lines of the crashed container of {subject} "
        "(kubectl logs --previous).",
    ),
    state_fault(
        "evicted",
        0.7,
        Depth.INSTANCE,
        "was evicted from its node",
        "{object} was evicted: {value}",
        less="{object} was evicted",
        step="Find out what its node ran out of, and what {subject} requests of it.",
        logged_as=("pod_evicted",),
    ),
    state_fault(
        "job_failed",
        0.85,
        Depth.INSTANCE,
        "has a job that failed",
        "{object} failed: {value}",
        less="{object} failed",
        step="Read the output of the last failed pod of the job of {subject}.",
    ),
)

PROBES = (
    state_fault(
        "probe_misconfigured",
        0.95,
        Depth.SETTING,
        "has a probe that asks for a path or port it does not serve",
        "The probe of {object} asks {value}, and the containers serve {expected}",
        less="{object} does not serve what its probe asks for",
        step="Correct the path or port of the probe of {subject}.",
        logged_as=("probe_failed",),
    ),
    state_fault(
        "liveness_failing",
        0.85,
        Depth.INSTANCE,
        "is restarted because its liveness probe fails",
        "{object} fails its liveness or startup probe: {value}",
        less="{object} fails its liveness or startup probe",
        step="Find out what the probe of {subject} waits for, and whether its time is too short.",
        logged_as=("probe_failed", "crash_loop"),
    ),
    state_fault(
        "readiness_failing",
        0.65,
        Depth.EFFECT,
        "is not ready to take requests",
        "{object} fails its readiness probe: {value}",
        less="{object} is not ready",
        step="Find out what the readiness probe of {subject} waits for.",
        # Such a probe may fail for something that the service calls.
        travels=True,
        logged_as=("probe_failed",),
    ),
)

PLACING = (
    state_fault(
        "placement_impossible",
        0.9,
        Depth.SETTING,
        "asks for a kind of node that does not exist",
        "{object} cannot be placed: {value}",
        less="No node satisfies what {object} asks for",
        step="Compare the node selector, affinity and tolerations of {subject} with the nodes.",
        logged_as=("pod_unschedulable",),
    ),
    state_fault(
        "unschedulable",
        0.85,
        Depth.INSTANCE,
        "has instances that fit on no node",
        "{object} cannot be placed: {value}",
        less="{object} fits on no node",
        step="Compare what {subject} requests with what the nodes have left, and add capacity.",
        logged_as=("pod_unschedulable",),
    ),
    state_fault(
        "replicas_missing",
        0.6,
        Depth.EFFECT,
        "runs fewer instances than it should",
        "{object} has {value} of {expected} instances",
        less="{object} has fewer instances than it should",
        step="Read the events of {subject} and of its replica sets.",
    ),
    state_fault(
        "sync_failed",
        0.85,
        Depth.SETTING,
        "does not get what is in Git, because its sync fails",
        "{object} cannot be synced: {value}",
        less="{object} cannot be synced",
        step="Read why the sync of {subject} fails, and correct its manifests in Git.",
    ),
    state_fault(
        "rollout_stuck",
        0.65,
        Depth.EFFECT,
        "has a rollout that is stuck",
        "The rollout of {object} is stuck: {value}",
        less="The rollout of {object} is stuck",
        step="Read why the new pods of {subject} do not become ready, or roll back.",
    ),
)

LIMITS = (
    state_fault(
        "quota_exceeded",
        0.97,
        Depth.SETTING,
        "has run out of quota for new pods",
        "{object} refuses new pods: {value}",
        less="{object} refuses new pods",
        step="Raise the quota of {subject}, or free what uses it up.",
        logged_as=("resource_quota",),
    ),
    state_fault(
        "limit_range_refused",
        0.95,
        Depth.SETTING,
        "refuses pods of this size",
        "{object} refuses pods: {value}",
        less="{object} refuses pods of this size",
        step="Compare the limit range of {subject} with what the pods request.",
    ),
    state_fault(
        "webhook_unanswered",
        0.97,
        Depth.SETTING,
        "has new pods refused, because an admission webhook does not answer",
        "{object} does not answer, so new pods are refused: {value}",
        less="{object} does not answer, so new pods are refused",
        step="Bring back what serves the admission webhook that refuses the pods of {subject}.",
    ),
    state_fault(
        "webhook_denied",
        0.95,
        Depth.SETTING,
        "has new pods denied by an admission webhook",
        "{object} denies new pods: {value}",
        less="{object} denies new pods",
        step="Compare the pods of {subject} with the policy that denies them.",
    ),
    state_fault(
        "namespace_terminating",
        0.97,
        Depth.SETTING,
        "is being deleted",
        "{object} is being deleted",
        step="Find out who deleted {subject}, and bring its objects back elsewhere.",
    ),
)

VOLUMES = (
    state_fault(
        "volume_unavailable",
        0.95,
        Depth.SETTING,
        "waits for a volume",
        "{object} is {value}",
        less="{object} is not bound to a volume",
        step="Check the storage class, the provisioner and the zone of the volume of {subject}.",
        logged_as=("pod_unschedulable",),
    ),
    state_fault(
        "volume_not_attached",
        0.9,
        Depth.SETTING,
        "cannot attach or mount its volume",
        "{object} cannot mount its volume: {value}",
        less="{object} cannot mount its volume",
        step="Find the node that still holds the volume of {subject}, and what its driver says.",
        logged_as=("volume_mount_failed",),
    ),
    state_fault(
        "volume_full",
        0.9,
        Depth.SETTING,
        "has a volume that is full",
        "{object} is full: {value}",
        less="{object} is full",
        step="Free space on the volume of {subject}, or make it larger.",
    ),
)

SCALING = (
    state_fault(
        "autoscaler_at_maximum",
        0.6,
        Depth.INSTANCE,
        "has reached its maximum of instances",
        "{object} is at its maximum of {value} and needs more",
        less="{object} is at its maximum and needs more",
        step="Find out why {subject} needs more instances, and raise the maximum if that is right.",
    ),
    state_fault(
        "autoscaler_blind",
        0.6,
        Depth.SETTING,
        "cannot scale without its metrics",
        "{object} cannot scale: {value}",
        less="{object} cannot read its metrics",
        step="Check the metrics server, and the metric that the autoscaler of {subject} names.",
    ),
    state_fault(
        "disruption_blocked",
        0.3,
        Depth.EFFECT,
        "can't lose another instance",
        "{object} allows no disruption",
        step="Find out which instances of {subject} are not healthy.",
    ),
)


# Nodes of a cluster.

NODES = (
    state_fault(
        "node_not_ready",
        0.97,
        Depth.SETTING,
        "is not ready",
        "{object} is not ready: {value}",
        less="{object} is not ready",
        step="Drain {subject}, then look at its kubelet, its network and its machine.",
        logged_as=("node_not_ready",),
    ),
    state_fault(
        "node_under_pressure",
        0.9,
        Depth.SETTING,
        "is running out of a resource",
        "{object} has {value}",
        less="{object} is running out of a resource",
        step="Find out what uses up the resource of {subject}, and move pods off it.",
        logged_as=("disk_pressure", "memory_pressure"),
    ),
    state_fault(
        "node_cordoned",
        0.9,
        Depth.SETTING,
        "takes no new pods",
        "{object} takes no new pods: it was cordoned or tainted ({value})",
        less="{object} takes no new pods: it was cordoned or tainted",
        step="Find out who cordoned {subject} and why, and uncordon it if that is over.",
    ),
    state_fault(
        "node_drained",
        0.9,
        Depth.SETTING,
        "is drained",
        "{object} is drained and takes no new jobs: {value}",
        less="{object} is drained and takes no new jobs",
        step="Read why {subject} was drained, and keep the job off it until that is mended.",
    ),
)


# How requests reach a service: Services, ingresses, routes, network policies, certificates.

ROUTES = (
    state_fault(
        "name_resolution_failing",
        0.95,
        Depth.SETTING,
        "fails to resolve names",
        "{object} fails to resolve names: {value}",
        less="{object} fails to resolve names",
        step="Read the log of {subject}, and check its upstream servers, its CPU and its network.",
    ),
    state_fault(
        "probes_failing",
        0.85,
        Depth.INSTANCE,
        "does not answer probes",
        "{object} does not answer probes: {value}",
        less="{object} does not answer probes",
        step="Look at the status page of {subject}, and fail over or switch off what needs it.",
    ),
    state_fault(
        "selector_matches_nothing",
        0.97,
        Depth.SETTING,
        "has a Service that selects none of its pods",
        "{object} selects {value}, which no pod has; the pods have {expected}",
        less="{object} selects no pod",
        step="Compare the selector of the Service of {subject} with the labels of its pods, and "
        "correct whichever changed.",
    ),
    state_fault(
        "port_not_served",
        0.97,
        Depth.SETTING,
        "gets its traffic on a port where nothing listens",
        "{object} sends to port {value}, and its containers declare {expected}",
        less="{object} sends to a port that no container declares",
        step="Correct the targetPort of the Service of {subject}, or the port of its containers.",
    ),
    state_fault(
        "route_to_nothing",
        0.95,
        Depth.SETTING,
        "has a route that leads nowhere",
        "{object} leads to {value}, which does not exist",
        less="{object} leads to a Service or port that does not exist",
        step="Correct the backend of the route to {subject}, or restore the Service.",
    ),
    state_fault(
        "traffic_blocked",
        0.95,
        Depth.SETTING,
        "is cut off by a network policy",
        "{object} lets nothing through from {value} to {expected}",
        less="{object} lets no traffic through",
        step="Read the network policies that select {subject}, and allow its callers again.",
    ),
    state_fault(
        "certificate_expired",
        0.95,
        Depth.SETTING,
        "has a certificate that is not valid",
        "{object} is not valid: {value}",
        less="{object} is not valid",
        step="Renew the certificate of {subject}, and find out why its issuer did not.",
    ),
    state_fault(
        "certificate_expires_soon",
        0.3,
        Depth.SETTING,
        "has a certificate that expires soon",
        "{object} expires soon: {value}",
        less="{object} expires soon",
        step="Renew the certificate of {subject} now, and find out why its issuer did not.",
    ),
    state_fault(
        "no_ready_endpoints",
        0.7,
        Depth.EFFECT,
        "has no ready instance",
        "{object} has no ready endpoint",
        step="Find out why no instance of {subject} is ready: its events and its probes.",
    ),
)
