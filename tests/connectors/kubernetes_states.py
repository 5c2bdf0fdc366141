"""A namespace in which everything that can be wrong with an object is wrong with some service, in
the documented shapes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.kubernetes_objects import (
    Object,
    container,
    event,
    meta,
    node,
    pod,
    template,
    utc,
    workload,
)

LONG_AGO = ALERT_AT - timedelta(days=30)
SERVICES = (
    "cart",
    "payments",
    "checkout",
    "search",
    "web",
    "orders",
    "mail",
    "ads",
    "flags",
    "stock",
    "batch",
)


def written(name: str, at: datetime = ONSET, **more: Any) -> Object:
    """Metadata of an object whose spec was last written at that time."""
    fields = [
        {
            "manager": "kubectl",
            "operation": "Update",
            "apiVersion": "v1",
            "time": utc(at),
            "fieldsV1": {},
        }
    ]
    return meta(name, at=LONG_AGO, managedFields=fields, **more)


def service(name: str, selects: str, port: int | str = 8080, **more: Any) -> Object:
    """A Service."""
    ports = [{"name": "http", "port": 80, "targetPort": port, "protocol": "TCP"}]
    return {
        "metadata": written(name, **more),
        "spec": {"selector": {"app": selects}, "ports": ports},
    }


def slice_of(name: str, *ready: bool) -> Object:
    """The endpoints of a Service."""
    endpoints = [{"addresses": ["10.0.0.1"], "conditions": {"ready": one}} for one in ready]
    return {
        "metadata": meta(f"{name}-x7k2p", labels={"kubernetes.io/service-name": name}),
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [],
    }


def running(app: str, node_name: str, *statuses: Object, ready: bool = True, **more: Any) -> Object:
    """A pod that declares port 8080."""
    made = pod(f"{app}-6b8c7d5f9-x2x4b", app, node_name, statuses or [container()], ready=ready)
    made["spec"]["containers"] = [
        {
            "name": "app",
            "image": f"registry.example.com/{app}:1",
            "ports": [{"name": "http", "containerPort": 8080}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 9090}},
        }
    ]
    made["spec"] |= more
    return made


def waiting(app: str, reason: str, message: str) -> Object:
    """A pod whose container waits."""
    return running(
        app, "node-1", container(waiting={"reason": reason, "message": message}), ready=False
    )


def pending(app: str, message: str) -> Object:
    """A pod that no node takes."""
    made = running(app, "")
    del made["spec"]["nodeName"]
    placed = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": utc(ONSET),
    }
    made["status"] = {"phase": "Pending", "conditions": [placed]}
    return made


def deployment(app: str, replicas: int = 2, ready: int = 2, *, stuck: bool = False) -> Object:
    """A Deployment."""
    made = workload("Deployment", app, template(app, f"registry.example.com/{app}:1", "512Mi"))
    made["metadata"] = written(app, labels={"app": app})
    made["spec"]["replicas"] = replicas
    conditions = [
        {
            "type": "Available",
            "status": "True" if ready >= replicas else "False",
            "reason": "MinimumReplicas",
            "message": "",
            "lastTransitionTime": utc(ONSET),
        }
    ]
    if stuck:
        conditions.append(
            {
                "type": "Progressing",
                "status": "False",
                "reason": "ProgressDeadlineExceeded",
                "message": "timed out",
                "lastTransitionTime": utc(ALERT_AT),
            }
        )
    made["status"] = {"replicas": replicas, "readyReplicas": ready, "conditions": conditions}
    return made


def ingress(name: str, *backends: tuple[str, int], secret: str = "") -> Object:
    """An Ingress with a path for each backend."""
    paths = []
    for number, (service_name, port) in enumerate(backends):
        backend = {"service": {"name": service_name, "port": {"number": port}}}
        paths.append({"path": f"/{number}", "pathType": "Prefix", "backend": backend})
    spec: Object = {"rules": [{"host": "shop.example.com", "http": {"paths": paths}}]}
    if secret:
        spec["tls"] = [{"hosts": ["shop.example.com"], "secretName": secret}]
    return {"metadata": written(name), "spec": spec}


def policy(name: str, app: str, *admitted: str) -> Object:
    """A NetworkPolicy on the pods of an app, for what comes in from these apps."""
    peers = [{"podSelector": {"matchLabels": {"app": one}}} for one in admitted]
    rules = [{"from": peers}] if peers else []
    spec = {
        "podSelector": {"matchLabels": {"app": app}},
        "policyTypes": ["Ingress"],
        "ingress": rules,
    }
    return {"metadata": written(name), "spec": spec}


def objects() -> dict[str, list[Object]]:
    """Lists by resource."""
    return {
        "deployments": [
            deployment("cart"),
            deployment("payments"),
            deployment("checkout", 4, 1),
            deployment("search", 0, 0),
            deployment("web", stuck=True, ready=1),
            deployment("orders", 1, 0),
            deployment("mail", 1, 0),
            deployment("ads", 1, 0),
            deployment("flags", 1, 0),
            deployment("stock", 1, 0),
        ],
        "jobs": [failed_job()],
        "pods": [
            running("cart", "node-1"),
            running("payments", "node-2"),
            running("checkout", "node-1"),
            running("web", "node-3", ready=False),
            with_claim(
                pending(
                    "orders",
                    "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
                )
            ),
            waiting("mail", "ImagePullBackOff", 'Back-off pulling image "mail:9": not found'),
            waiting("ads", "CreateContainerConfigError", 'configmap "ads-config" not found'),
            pending(
                "flags",
                "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
            ),
            pending("stock", "0/3 nodes are available: 3 Insufficient memory."),
        ],
        "services": [
            service("cart", "crat"),
            service("payments", "payments", 8081),
            service("checkout", "checkout"),
            service("web", "web"),
        ],
        "endpointslices": [
            slice_of("cart"),
            slice_of("payments", True),
            slice_of("checkout", True),
            slice_of("web", False),
        ],
        "ingresses": [ingress("shop", ("web-v2", 80), ("web", 80), secret="shop-tls")],
        "networkpolicies": [policy("checkout-callers", "checkout", "admin")],
        "resourcequotas": [quota()],
        "persistentvolumeclaims": [claim("orders-data", "Pending")],
        "poddisruptionbudgets": [budget("web")],
        "horizontalpodautoscalers": [scaler("web"), blind_scaler("payments")],
        "certificates": [certificate("shop-tls", ONSET)],
        "events": [
            event(
                "ReplicaSet",
                "checkout-7d9f8c6b5d",
                "FailedCreate",
                'Error creating: pods "checkout-7d9f8c6b5d-k8l5m" is forbidden: exceeded quota: '
                "compute, requested: requests.cpu=1, used: requests.cpu=20, limited: "
                "requests.cpu=20",
                ONSET,
                ALERT_AT,
                8,
            ),
            event(
                "PersistentVolumeClaim",
                "orders-data",
                "ProvisioningFailed",
                'storageclass.storage.k8s.io "fast" not found',
                ONSET,
                ALERT_AT,
                9,
            ),
            event(
                "Pod",
                "web-6b8c7d5f9-x2x4b",
                "Unhealthy",
                "Readiness probe failed: dial tcp 10.0.0.9:9090: connect: connection refused",
                ONSET,
                ALERT_AT,
                30,
            ),
        ],
        "replicasets": [replica_set_of("checkout")],
    }


def replica_set_of(app: str) -> Object:
    """The ReplicaSet of a Deployment."""
    owners = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": app, "uid": f"uid-{app}"}]
    own = meta(f"{app}-7d9f8c6b5d", labels={"app": app}, ownerReferences=owners)
    return {"metadata": own, "spec": {"selector": {"matchLabels": {"app": app}}}}


def failed_job() -> Object:
    """A Job that gave up."""
    made = workload("Job", "batch", template("batch", "registry.example.com/batch:1", "1Gi"))
    del made["spec"]["replicas"]
    made["status"] = {
        "conditions": [
            {
                "type": "Failed",
                "status": "True",
                "reason": "BackoffLimitExceeded",
                "message": "Job has reached the specified backoff limit",
                "lastTransitionTime": utc(ONSET),
            }
        ]
    }
    return made


def with_claim(made: Object) -> Object:
    """A pod with a volume that is a claim."""
    claim_of = {"claimName": "orders-data"}
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": claim_of}]
    return made


def claim(name: str, phase: str) -> Object:
    """A PersistentVolumeClaim."""
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast"}
    return {"metadata": meta(name, at=ONSET), "spec": spec, "status": {"phase": phase}}


def quota() -> Object:
    """A ResourceQuota that is used up."""
    hard = {"requests.cpu": "20", "pods": "100"}
    used = {"requests.cpu": "20", "pods": "40"}
    return {
        "metadata": meta("compute"),
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }


def budget(app: str) -> Object:
    """A PodDisruptionBudget below what it demands."""
    status = {
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 2,
        "expectedPods": 2,
        "observedGeneration": 1,
    }
    selector = {"matchLabels": {"app": app}}
    return {"metadata": meta(app), "spec": {"selector": selector}, "status": status}


def scaler(app: str) -> Object:
    """An autoscaler at its maximum."""
    return _scaler(app, "ScalingLimited", "True", "TooManyReplicas")


def blind_scaler(app: str) -> Object:
    """An autoscaler whose metrics cannot be read."""
    return _scaler(app, "ScalingActive", "False", "FailedGetResourceMetric")


def _scaler(app: str, kind: str, status: str, reason: str) -> Object:
    condition = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "as it says",
        "lastTransitionTime": utc(ONSET),
    }
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": app}
    return {
        "metadata": meta(app),
        "spec": {"scaleTargetRef": target, "maxReplicas": 6},
        "status": {"currentReplicas": 6, "desiredReplicas": 6, "conditions": [condition]},
    }


def certificate(name: str, until: datetime) -> Object:
    """A Certificate of cert-manager."""
    return {
        "metadata": meta(name),
        "spec": {"secretName": name, "dnsNames": ["shop.example.com"]},
        "status": {"notAfter": utc(until)},
    }


def nodes() -> list[Object]:
    """Node 3 is not ready, and 2 was cordoned."""
    cordoned = node("node-2")
    taint = {
        "key": "node.kubernetes.io/unschedulable",
        "effect": "NoSchedule",
        "timeAdded": utc(ONSET),
    }
    cordoned["spec"] = {"unschedulable": True, "taints": [taint]}
    return [node("node-1"), cordoned, node("node-3", Ready="False")]
