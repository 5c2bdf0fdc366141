"""What goes wrong with objects: each function leaves the traces that a real cluster would keep.

The same functions make a fault's traces and innocent oddities: only when they began, and whether
anybody needs what is broken, tells the two apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proving_ground.worlds.cluster.objects import (
    ClusterObjects,
    Object,
    object_name,
    policy,
    time_text,
)


@dataclass(frozen=True)
class TroubleSpan:
    """When something is so, in seconds since 1970: from its beginning to when it was looked at."""

    since_s: float
    now_s: float

    @property
    def repeats(self) -> int:
        """How often an event came that comes about every half minute, and ever more rarely."""
        return max(1, min(400, int((self.now_s - self.since_s) / 45)))


def _event(made: ClusterObjects, pod: Object, reason: str, note: str, span: TroubleSpan) -> None:
    name = pod["metadata"]["name"]
    made.event("Pod", name, reason, note, span.since_s + 5, span.now_s - 10, span.repeats)


def unready(pods: Sequence[Object], span: TroubleSpan) -> None:
    """Pods that take no requests."""
    for pod in pods:
        ready = _condition(pod, "Ready")
        ready |= {
            "status": "False",
            "reason": "ContainersNotReady",
            "lastTransitionTime": time_text(span.since_s + 20),
        }
        for status in pod["status"].get("containerStatuses", ()):
            status["ready"] = False


def count(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """Let workload, endpoints and budget follow from which pods are ready."""
    pods = made.pods_of(unit)
    ready = [pod for pod in pods if _condition(pod, "Ready")["status"] == "True"]
    workload = made.workload_of(unit)
    workload["status"]["readyReplicas"] = len(ready)
    replicas = workload["spec"]["replicas"]
    for condition in workload["status"]["conditions"]:
        if condition["type"] == "Available" and len(ready) < max(1, round(replicas * 0.75)):
            condition |= {"status": "False", "lastTransitionTime": time_text(span.since_s + 30)}
    name = object_name(unit)
    for endpointslice in made.lists.get("endpointslices", ()):
        if (
            endpointslice["metadata"]["labels"]["kubernetes.io/service-name"] == name
            and endpointslice["endpoints"]
        ):
            placed = [pod for pod in pods if pod["spec"].get("nodeName")]
            endpointslice["endpoints"] = [
                {"addresses": ["10.0.0.1"], "conditions": {"ready": pod in ready}} for pod in placed
            ]
    for budget in made.lists.get("poddisruptionbudgets", ()):
        if budget["metadata"]["name"] == name:
            short = len(ready) < budget["status"]["desiredHealthy"]
            allowed = 0 if short else 1
            budget["status"] |= {"currentHealthy": len(ready), "disruptionsAllowed": allowed}


def _condition(pod: Object, kind: str) -> Object:
    for condition in pod["status"]["conditions"]:
        if condition["type"] == kind:
            current: Object = condition
            return current
    added: Object = {"type": kind, "status": "False", "lastTransitionTime": ""}
    pod["status"]["conditions"].append(added)
    return added


def waits(
    made: ClusterObjects, pods: Sequence[Object], span: TroubleSpan, reason: str, text: str
) -> None:
    """New pods whose container never starts."""
    for pod in pods:
        pod["metadata"]["creationTimestamp"] = time_text(span.since_s)
        pod["status"]["phase"] = "Pending"
        state = {"waiting": {"reason": reason, "message": text}}
        pod["status"]["containerStatuses"][0] |= {"state": state, "ready": False}
        _event(made, pod, "Failed", f"Error: {reason}: {text}", span)
    unready(pods, span)


def no_image(made: ClusterObjects, unit: str, pods: Sequence[Object], span: TroubleSpan) -> None:
    """The new image is not in the registry."""
    text = f'Back-off pulling image "registry.example.com/{object_name(unit)}:v99": not found'
    waits(made, pods, span, "ImagePullBackOff", text)
    count(made, unit, span)


def no_config(made: ClusterObjects, unit: str, pods: Sequence[Object], span: TroubleSpan) -> None:
    """A config map that the template names is not there."""
    text = f'configmap "{object_name(unit)}-settings" not found'
    waits(made, pods, span, "CreateContainerConfigError", text)
    count(made, unit, span)


def crashes(
    made: ClusterObjects, unit: str, pods: Sequence[Object], span: TroubleSpan, *, for_memory: bool
) -> None:
    """Containers that end again and again."""
    for number, pod in enumerate(pods):
        ended_s = span.now_s - float(made.rng.uniform(20, 240))
        restarts = 1 + int((span.now_s - span.since_s) / 150)
        ended = {
            "exitCode": 137 if for_memory else 1,
            "reason": "OOMKilled" if for_memory else "Error",
            "finishedAt": time_text(max(span.since_s, ended_s)),
        }
        waiting = {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}
        running = {"running": {"startedAt": time_text(ended_s + 10)}}
        status = pod["status"]["containerStatuses"][0]
        status |= {"restartCount": restarts, "lastState": {"terminated": ended}}
        if number % 2 and restarts > 2:
            status["state"] = running
        else:
            status |= {"state": {"waiting": waiting}, "ready": False}
            unready([pod], span)
        _event(made, pod, "BackOff", "Back-off restarting failed container app", span)
    count(made, unit, span)


def unplaced(
    made: ClusterObjects, unit: str, pods: Sequence[Object], span: TroubleSpan, message: str
) -> None:
    """New pods that no node takes."""
    for pod in pods:
        pod["metadata"]["creationTimestamp"] = time_text(span.since_s)
        pod["spec"].pop("nodeName", None)
        placed = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": time_text(span.since_s),
        }
        ready = {"type": "Ready", "status": "False", "lastTransitionTime": time_text(span.since_s)}
        pod["status"] = {"phase": "Pending", "conditions": [placed, ready]}
        _event(made, pod, "FailedScheduling", message, span)
    count(made, unit, span)


def wrong_probe(made: ClusterObjects, unit: str, pods: Sequence[Object], span: TroubleSpan) -> None:
    """A readiness probe that asks a port on which nothing listens."""
    for pod in pods:
        pod["spec"]["containers"][0]["readinessProbe"]["httpGet"]["port"] = 9999
        note = 'Readiness probe failed: Get "http://10.0.0.1:9999/ready": connection refused'
        _event(made, pod, "Unhealthy", note, span)
    unready(pods, span)
    count(made, unit, span)


def wrong_selector(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """The Service selects a label that no pod has."""
    name = object_name(unit)
    service = made.find("services", name)
    service["spec"]["selector"] = {"app": f"{name}-v2"}
    made.touch(service, span.since_s)
    for endpointslice in made.lists["endpointslices"]:
        if endpointslice["metadata"]["labels"]["kubernetes.io/service-name"] == name:
            endpointslice["endpoints"] = []


def wrong_port(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """The Service sends to a port that no container opens."""
    service = made.find("services", object_name(unit))
    service["spec"]["ports"][0]["targetPort"] = 8099
    made.touch(service, span.since_s)


def closed_policy(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """A policy that admits somebody else than the callers."""
    name = f"{object_name(unit)}-callers"
    networkpolicies = made.lists.get("networkpolicies", [])
    networkpolicies[:] = [
        networkpolicy
        for networkpolicy in networkpolicies
        if networkpolicy["metadata"]["name"] != name
    ]
    admitted = ["admin-console"] if made.rng.random() < 0.6 else []
    made.add("networkpolicies", policy(made, unit, admitted, span.since_s))


def missing_backend(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """An Ingress that leads to a Service of another name."""
    name = object_name(unit)
    backend = {"service": {"name": f"{name}-green", "port": {"number": 80}}}
    paths = [{"path": f"/{name}", "backend": backend}]
    rules = [{"host": f"{name}.example.com", "http": {"paths": paths}}]
    metadata = made.meta(f"{name}-public", written_s=span.since_s)
    made.add("ingresses", {"metadata": metadata, "spec": {"rules": rules}})


def used_up(made: ClusterObjects, unit: str, pods: Sequence[Object], span: TroubleSpan) -> None:
    """A quota that refuses the pods of a workload."""
    quota = made.find("resourcequotas", "compute")
    hard = quota["status"]["hard"]
    quota["status"]["used"] = {**quota["status"]["used"], "requests.cpu": hard["requests.cpu"]}
    workload = f"{object_name(unit)}-5d8f7c9b6"
    owners = [{"kind": "Deployment", "name": object_name(unit)}]
    labels = {"app": object_name(unit)}
    if not any(
        replicaset["metadata"]["name"] == workload
        for replicaset in made.lists.get("replicasets", ())
    ):
        metadata = made.meta(workload, labels=labels, ownerReferences=owners)
        made.add("replicasets", {"metadata": metadata, "spec": {"selector": {}}})
    note = (
        f'Error creating: pods "{workload}-{made.suffix()}" is forbidden: exceeded quota: compute, '
        f"requested: requests.cpu=2, used: requests.cpu={hard['requests.cpu']}, limited: "
        f"requests.cpu={hard['requests.cpu']}"
    )
    made.event("ReplicaSet", workload, "FailedCreate", note, span.since_s, span.now_s, span.repeats)
    for pod in pods:
        made.lists["pods"].remove(pod)
    count(made, unit, span)


def claim_pending(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """A new volume that nothing provides, and the pod that waits for it."""
    name = f"data-{object_name(unit)}-0"
    claim = made.find("persistentvolumeclaims", name)
    claim["status"]["phase"] = "Pending"
    claim["metadata"]["creationTimestamp"] = time_text(span.since_s)
    note = 'storageclass.storage.k8s.io "fast-ssd" not found'
    made.event(
        "PersistentVolumeClaim",
        name,
        "ProvisioningFailed",
        note,
        span.since_s,
        span.now_s,
        span.repeats,
    )
    message = "0/9 nodes are available: pod has unbound immediate PersistentVolumeClaims."
    unplaced(made, unit, made.pods_of(unit), span, message)


def capped(made: ClusterObjects, unit: str, span: TroubleSpan) -> None:
    """An autoscaler that may go no further."""
    name = object_name(unit)
    scalers = made.lists.setdefault("horizontalpodautoscalers", [])
    scalers[:] = [scaler for scaler in scalers if scaler["metadata"]["name"] != name]
    most = len(made.pods_of(unit))
    conditions = [
        {
            "type": "ScalingLimited",
            "status": "True",
            "reason": "TooManyReplicas",
            "message": "the desired replica count is more than the maximum replica count",
            "lastTransitionTime": time_text(span.since_s + 30),
        }
    ]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    scalers.append(
        {
            "metadata": made.meta(name, written_s=span.since_s),
            "spec": {"scaleTargetRef": target, "maxReplicas": most},
            "status": {
                "currentReplicas": most,
                "desiredReplicas": most,
                "conditions": conditions,
            },
        }
    )


def lost_node(made: ClusterObjects, name: str, span: TroubleSpan) -> None:
    """A node whose kubelet is silent; its pods count as not ready after a while."""
    node = _node(made, name)
    for condition in node["status"]["conditions"]:
        condition |= {
            "status": "Unknown",
            "reason": "NodeStatusUnknown",
            "message": "Kubelet stopped posting node status.",
            "lastTransitionTime": time_text(span.since_s + 40),
        }
    _of_node(made, name, span, hurt=1.0)


def pressed_node(made: ClusterObjects, name: str, span: TroubleSpan) -> None:
    """A node that runs out of memory or disk; some of its pods are hurt."""
    kind = str(made.rng.choice(("MemoryPressure", "DiskPressure")))
    for condition in _node(made, name)["status"]["conditions"]:
        if condition["type"] == kind:
            condition |= {
                "status": "True",
                "reason": "KubeletHasInsufficientResource",
                "lastTransitionTime": time_text(span.since_s + 15),
            }
    _of_node(made, name, span, hurt=0.4)


def _of_node(made: ClusterObjects, name: str, span: TroubleSpan, hurt: float) -> None:
    there = [pod for pod in made.lists["pods"] if pod["spec"].get("nodeName") == name]
    hit = [pod for pod in there if made.rng.random() < hurt]
    unready(hit, span)
    for app in sorted({pod["metadata"]["labels"]["app"] for pod in hit}):
        count(made, app, span)


def cordoned(made: ClusterObjects, name: str, span: TroubleSpan) -> None:
    """A node that takes no new pods."""
    taint = {
        "key": "node.kubernetes.io/unschedulable",
        "effect": "NoSchedule",
        "timeAdded": time_text(span.since_s),
    }
    _node(made, name)["spec"] = {"unschedulable": True, "taints": [taint]}


def drained(made: ClusterObjects, names: Sequence[str], span: TroubleSpan) -> None:
    """Nodes that were emptied: their pods wait for others, which have no room."""
    for name in names:
        cordoned(made, name, span)
    gone = [pod for pod in made.lists["pods"] if pod["spec"].get("nodeName") in names]
    total = len(made.nodes)
    message = (
        f"0/{total} nodes are available: {len(names)} node(s) were unschedulable, "
        f"{total - len(names)} Insufficient cpu."
    )
    for app in sorted({pod["metadata"]["labels"]["app"] for pod in gone}):
        gones = [pod for pod in gone if pod["metadata"]["labels"]["app"] == app]
        unplaced(made, app, gones, span, message)


def _node(made: ClusterObjects, name: str) -> Object:
    for node in made.nodes:
        if node["metadata"]["name"] == name:
            return node
    raise KeyError(name)
