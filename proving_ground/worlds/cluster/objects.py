"""The objects of a world's cluster while all is well, in the shapes of the Kubernetes API."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from proving_ground.worlds.graph import Graph, Unit, UnitKind

Object = dict[str, Any]
STORES = (UnitKind.DATABASE, UnitKind.CACHE, UnitKind.QUEUE)
DAY_S = 86400.0
LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names (k8s.io/apimachinery/pkg/util/rand)."""
MANAGERS = ("kubectl-client-side-apply", "helm", "argocd-controller")
BY_NAMESPACE = {
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "replicasets": "/apis/apps/v1",
    "controllerrevisions": "/apis/apps/v1",
    "pods": "/api/v1",
    "services": "/api/v1",
    "configmaps": "/api/v1",
    "resourcequotas": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "events": "/apis/events.k8s.io/v1",
}


def time_text(seconds: float) -> str:
    """As metav1.Time writes it."""
    return datetime.fromtimestamp(int(seconds), UTC).isoformat().replace("+00:00", "Z")


def object_name(unit: str) -> str:
    """A unit's name as Kubernetes takes it (RFC 1123)."""
    return re.sub(r"[^a-z0-9]+", "-", unit.lower()).strip("-")


@dataclass
class ClusterObjects:
    """Every list of a cluster, by resource; `begun_s` is long before the world."""

    namespace: str
    begun_s: float
    rng: np.random.Generator
    lists: dict[str, list[Object]] = field(default_factory=dict)
    nodes: list[Object] = field(default_factory=list)

    def add(self, resource: str, made: Object) -> Object:
        """Add an object to a list."""
        self.lists.setdefault(resource, []).append(made)
        return made

    def meta(self, name: str, *, written_s: float | None = None, **more: Any) -> Object:
        """Metadata of an object of the namespace."""
        created = self.begun_s + float(self.rng.uniform(0, 20 * DAY_S))
        at = created if written_s is None else written_s
        writer = {
            "manager": str(self.rng.choice(MANAGERS)),
            "operation": "Update",
            "time": time_text(at),
        }
        return {
            "name": name,
            "namespace": self.namespace,
            "creationTimestamp": time_text(min(created, at)),
            "managedFields": [writer],
            **more,
        }

    def find(self, resource: str, name: str) -> Object:
        """The object of that name."""
        for manifest in self.lists.get(resource, ()):
            if manifest["metadata"]["name"] == name:
                return manifest
        raise KeyError(name)

    def pods_of(self, unit: str) -> list[Object]:
        """The pods of a unit."""
        return [
            pod
            for pod in self.lists.get("pods", ())
            if pod["metadata"]["labels"]["app"] == object_name(unit)
        ]

    def workload_of(self, unit: str) -> Object:
        """The Deployment or StatefulSet of a unit."""
        for resource in ("deployments", "statefulsets"):
            for workload in self.lists.get(resource, ()):
                if workload["metadata"]["name"] == object_name(unit):
                    return workload
        raise KeyError(unit)

    def touch(self, made: Object, at_s: float) -> None:
        """Note that somebody wrote the object."""
        made["metadata"]["managedFields"].append(
            {"manager": "kubectl-edit", "operation": "Update", "time": time_text(at_s)}
        )

    def event(
        self,
        kind: str,
        name: str,
        reason: str,
        note: str,
        first_s: float,
        last_s: float,
        count: int,
    ) -> None:
        """An event of the namespace, that came `count` times."""
        number = len(self.lists.get("events", ()))
        calm = reason in ("SuccessfulRescale", "ScalingReplicaSet", "Pulled")
        self.add(
            "events",
            {
                "metadata": {
                    "name": f"{name}.{number:x}",
                    "namespace": self.namespace,
                    "creationTimestamp": time_text(first_s),
                },
                "type": "Normal" if calm else "Warning",
                "reason": reason,
                "note": note,
                "regarding": {"kind": kind, "namespace": self.namespace, "name": name},
                "deprecatedFirstTimestamp": time_text(first_s),
                "deprecatedLastTimestamp": time_text(last_s),
                "deprecatedCount": count,
            },
        )

    def suffix(self, length: int = 5) -> str:
        """A generated part of a name."""
        return "".join(str(letter) for letter in self.rng.choice(list(LETTERS), length))


def well_cluster(graph: Graph, start_s: float, rng: np.random.Generator) -> ClusterObjects:
    """Every unit of ours with its workload, pods, Service and what goes with them."""
    made = ClusterObjects(object_name(graph.system) or "shop", start_s - 60 * DAY_S, rng)
    for machine in graph.machines:
        made.nodes.append(well_node(made, machine.name, machine.zone))
    for unit in graph.units:
        if unit.kind is not UnitKind.EXTERNAL:
            _add_unit(made, graph, unit)
    _add_policies(made, graph)
    hard = {"requests.cpu": "400", "pods": "1000"}
    used = {"requests.cpu": "120", "pods": str(len(made.lists["pods"]))}
    quota = {"metadata": made.meta("compute"), "spec": {"hard": hard}}
    made.add("resourcequotas", {**quota, "status": {"hard": hard, "used": used}})
    return made


def well_node(made: ClusterObjects, name: str, zone: str) -> Object:
    """A node that is ready."""
    since = made.begun_s + float(made.rng.uniform(0, 30 * DAY_S))
    good = {"MemoryPressure": "False", "DiskPressure": "False", "PIDPressure": "False"}
    conditions = []
    for kind, status in {**good, "Ready": "True"}.items():
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": f"Kubelet{kind}",
                "message": "as it should be",
                "lastTransitionTime": time_text(since),
            }
        )
    labels = {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name}
    metadata = {"name": name, "labels": labels, "creationTimestamp": time_text(since)}
    return {"metadata": metadata, "spec": {}, "status": {"conditions": conditions}}


def _add_unit(made: ClusterObjects, graph: Graph, unit: Unit) -> None:
    name, port = object_name(unit.name), int(made.rng.choice((8080, 8000, 3000, 9000)))
    labels = {"app": name}
    stateful = unit.kind in STORES
    spec = {
        "replicas": len(unit.pods),
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "app"}]}},
    }
    available = {
        "type": "Available",
        "status": "True",
        "lastTransitionTime": time_text(made.begun_s),
    }
    status = {
        "replicas": len(unit.pods),
        "readyReplicas": len(unit.pods),
        "conditions": [] if stateful else [available],
    }
    workload = {"metadata": made.meta(name, labels=labels), "spec": spec, "status": status}
    made.add("statefulsets" if stateful else "deployments", workload)
    for number, replica in enumerate(unit.pods):
        node = graph.machines[replica.machine].name
        pod_name = f"{name}-{number}" if stateful else f"{name}-5d8f7c9b6-{made.suffix()}"
        made.add("pods", well_pod(made, pod_name, name, node, port))
    if unit.kind is not UnitKind.WORKER:
        ports = [{"name": "http", "port": 80, "targetPort": port}]
        route = {"metadata": made.meta(name), "spec": {"selector": labels, "ports": ports}}
        made.add("services", route)
        ready = [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}} for _ in unit.pods]
        mark = {"kubernetes.io/service-name": name}
        slices = {"metadata": made.meta(f"{name}-{made.suffix()}", labels=mark)}
        made.add("endpointslices", {**slices, "endpoints": ready})
    if unit.kind is UnitKind.FRONT:
        made.add("ingresses", well_ingress(made, name))
    if unit.kind is UnitKind.DATABASE:
        _add_claim(made, name)
    if unit.autoscaled:
        made.add("horizontalpodautoscalers", well_scaler(made, name, unit.most_pods))
    if made.rng.random() < 0.3:
        healthy = {
            "disruptionsAllowed": 1,
            "currentHealthy": len(unit.pods),
            "desiredHealthy": max(1, len(unit.pods) - 1),
        }
        budget = {"metadata": made.meta(name), "spec": {"selector": {"matchLabels": labels}}}
        made.add("poddisruptionbudgets", {**budget, "status": healthy})


def well_pod(made: ClusterObjects, name: str, app: str, node: str, port: int) -> Object:
    """A pod that serves."""
    since = made.begun_s + float(made.rng.uniform(30 * DAY_S, 58 * DAY_S))
    probe = {"httpGet": {"path": "/ready", "port": port}}
    container = {
        "name": "app",
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": probe,
        "livenessProbe": {"httpGet": {"path": "/live", "port": port}},
    }
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": time_text(since + 20)}
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": time_text(since)}
    state = {"running": {"startedAt": time_text(since + 5)}}
    status = {"name": "app", "ready": True, "restartCount": 0, "state": state, "lastState": {}}
    metadata = made.meta(name, labels={"app": app}, written_s=since)
    metadata["creationTimestamp"] = time_text(since)
    return {
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
        "status": {
            "phase": "Running",
            "conditions": [placed, ready],
            "containerStatuses": [status],
            "startTime": time_text(since),
        },
    }


def well_ingress(made: ClusterObjects, *names: str) -> Object:
    """An Ingress with a path for each Service."""
    paths = []
    for name in names:
        backend = {"service": {"name": name, "port": {"number": 80}}}
        paths.append({"path": f"/{name}", "pathType": "Prefix", "backend": backend})
    rules = [{"host": "shop.example.com", "http": {"paths": paths}}]
    return {"metadata": made.meta(names[0]), "spec": {"rules": rules}}


def well_scaler(made: ClusterObjects, name: str, most: int) -> Object:
    """An autoscaler with room."""
    conditions = [
        {"type": "ScalingActive", "status": "True", "reason": "ValidMetricFound"},
        {"type": "ScalingLimited", "status": "False", "reason": "DesiredWithinRange"},
    ]
    for condition in conditions:
        condition["lastTransitionTime"] = time_text(made.begun_s)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return {
        "metadata": made.meta(name),
        "spec": {"scaleTargetRef": target, "maxReplicas": most},
        "status": {"conditions": conditions},
    }


def _add_claim(made: ClusterObjects, name: str) -> None:
    claim = f"data-{name}-0"
    made.add("persistentvolumeclaims", {"metadata": made.meta(claim), "status": {"phase": "Bound"}})
    for pod in made.lists["pods"]:
        if pod["metadata"]["labels"]["app"] == name:
            volume = {"name": "data", "persistentVolumeClaim": {"claimName": claim}}
            pod["spec"]["volumes"] = [volume]


def _add_policies(made: ClusterObjects, graph: Graph) -> None:
    """In some clusters each store admits exactly its callers."""
    if made.rng.random() < 0.5:
        return
    for number, unit in enumerate(graph.units):
        callers = {graph.units[graph.edges[edge].caller].name for edge in graph.callers_of[number]}
        if unit.kind in STORES and callers:
            made.add("networkpolicies", policy(made, unit.name, sorted(callers)))


def policy(
    made: ClusterObjects, unit: str, callers: list[str], written_s: float | None = None
) -> Object:
    """A network policy on a unit's pods that admits these callers."""
    peers = [{"podSelector": {"matchLabels": {"app": object_name(caller)}}} for caller in callers]
    spec = {
        "podSelector": {"matchLabels": {"app": object_name(unit)}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": peers}] if peers else [],
    }
    name = f"{object_name(unit)}-callers"
    return {"metadata": made.meta(name, written_s=written_s), "spec": spec}
