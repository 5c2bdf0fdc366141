"""Kubernetes: a rollout halves checkout's memory limit, and its containers are killed; cart is as
it always was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT, ONSET
from tests.connectors.kubernetes_objects import (
    ROLLED_OUT,
    SPACE,
    Object,
    container,
    event,
    killed,
    listed,
    meta,
    node,
    owned,
    pod,
    replica_set,
    template,
    utc,
    workload,
    written_log,
)
from tests.connectors.local_http import LocalServer

READING_POSTS: frozenset[str] = frozenset()
TOKEN = "k8s-token-1"
SECRET_VALUE = "postgres://user:hunter2@db/checkout"
NEW_SET = "checkout-7d9f8c6b5d"
LOG = f"/api/v1/namespaces/{SPACE}/pods/{{}}/log"
ENDED = [
    (ONSET + timedelta(minutes=2), "loading catalogue into memory"),
    (ONSET + timedelta(minutes=2, seconds=40), "Traceback (most recent call last):"),
    (ONSET + timedelta(minutes=2, seconds=40), '  File "/app/cart.py", line 7, in load'),
    (ONSET + timedelta(minutes=2, seconds=40), f"MemoryError: no room, {SECRET_VALUE}"),
    (ONSET + timedelta(minutes=2, seconds=41), ""),
]
"""What checkout wrote before it was killed."""
SERVED = [(ONSET + timedelta(seconds=30 * n), f"GET /cart/{n} 200") for n in range(40)]
CART_RUNS = ALERT_AT - timedelta(hours=3)


def settings(url: str) -> dict[str, Any]:
    """Two services, one of them by a selector."""
    page = "https://headlamp.example.com/c/main/{kind}s/{namespace}/{name}"
    services = {
        "checkout": {"kubernetes": ["shop/deployment/checkout"]},
        "cart": {"kubernetes": ["shop/app=cart"]},
    }
    return {"kubernetes": {"url": url, "token": TOKEN, "page": page}, "services": services}


def serve(server: LocalServer) -> None:
    """Every list that is asked for."""
    serve_states(server, {})
    for resource, objects in of_namespace().items():
        server.on(f"{GROUPS[resource]}/namespaces/{SPACE}/{resource}", listed(objects))
    server.on("/apis/events.k8s.io/v1/namespaces/default/events", listed(node_events()))
    server.on("/api/v1/nodes", listed([node("node-1"), node("node-2")]))
    for name in (f"{NEW_SET}-x2x4b", f"{NEW_SET}-k8l5m"):
        server.on(LOG.format(name), written_log(ENDED, ENDED))
    server.on(LOG.format("cart-0"), written_log(SERVED))


GROUPS = {
    "deployments": "/apis/apps/v1",
    "statefulsets": "/apis/apps/v1",
    "daemonsets": "/apis/apps/v1",
    "jobs": "/apis/batch/v1",
    "replicasets": "/apis/apps/v1",
    "controllerrevisions": "/apis/apps/v1",
    "pods": "/api/v1",
    "events": "/apis/events.k8s.io/v1",
    "horizontalpodautoscalers": "/apis/autoscaling/v2",
    "configmaps": "/api/v1",
}


STATE_GROUPS = {
    "services": "/api/v1",
    "endpointslices": "/apis/discovery.k8s.io/v1",
    "ingresses": "/apis/networking.k8s.io/v1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
    "resourcequotas": "/api/v1",
    "persistentvolumeclaims": "/api/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    "httproutes": "/apis/gateway.networking.k8s.io/v1",
    "certificates": "/apis/cert-manager.io/v1",
}


def serve_states(server: LocalServer, objects: dict[str, list[Object]]) -> None:
    """What routes to the workloads, limits them or holds their data."""
    for resource, group in STATE_GROUPS.items():
        path = f"{group}/namespaces/{SPACE}/{resource}"
        server.on(path, listed(objects.get(resource, [])))
    server.on("/api/v1/namespaces", listed([{"metadata": meta(SPACE, space=None)}]))


def of_namespace() -> dict[str, list[Object]]:
    """What the namespace holds."""
    old, new = checkout("1.4.0", "512Mi", "a"), checkout("1.5.0", "256Mi", SECRET_VALUE)
    cart = template("cart", "registry.example.com/cart:9", "1Gi")
    scaler = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "cart"},
        "maxReplicas": 9,
    }
    revision = {
        "metadata": meta(
            "cart-5c9", labels={"app": "cart"}, ownerReferences=owned("StatefulSet", "cart")
        )
    }
    return {
        "deployments": [workload("Deployment", "checkout", new)],
        "statefulsets": [workload("StatefulSet", "cart", cart)],
        "daemonsets": [],
        "jobs": [],
        "replicasets": [
            replica_set("checkout", "6b8c7d5f9", 41, old, ALERT_AT - timedelta(days=3)),
            replica_set(
                "checkout",
                "7d9f8c6b5d",
                42,
                new,
                ROLLED_OUT,
                **{"kubernetes.io/change-cause": "release 1.5.0"},
            ),
        ],
        "controllerrevisions": [{**revision, "revision": 3, "data": {"spec": {"template": cart}}}],
        "pods": pods(),
        "events": events(),
        "horizontalpodautoscalers": [
            {
                "metadata": meta("cart"),
                "spec": scaler,
                "status": {
                    "lastScaleTime": utc(CART_RUNS),
                    "currentReplicas": 2,
                    "desiredReplicas": 2,
                    "conditions": None,
                },
            }
        ],
        "configmaps": [
            config_map("checkout-config", ALERT_AT - timedelta(hours=9)),
            config_map("cart-config", ALERT_AT - timedelta(days=9)),
            config_map("another", ONSET),
        ],
    }


def checkout(version: str, memory: str, database: str) -> Object:
    """The template of checkout."""
    token: Object = {
        "name": "API_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "checkout-secrets", "key": "token"}},
    }
    env = [{"name": "DATABASE_URL", "value": database}, token]
    return template("checkout", f"registry.example.com/shop/checkout:{version}", memory, env)


def config_map(name: str, at: Any) -> Object:
    """A config map; its content must never be asked for."""
    fields = [
        {
            "manager": "helm",
            "operation": "Update",
            "apiVersion": "v1",
            "time": utc(at),
            "fieldsV1": {},
        }
    ]
    return {"metadata": meta(name, managedFields=fields), "data": {"password": SECRET_VALUE}}


def pods() -> list[Object]:
    """Two of checkout that are killed again and again, one of cart."""
    waits = {
        "reason": "CrashLoopBackOff",
        "message": "back-off 40s restarting failed container=app",
    }
    dying = [
        pod(
            f"{NEW_SET}-{suffix}",
            "checkout",
            "node-1",
            [container(4, ended=killed(at), waiting=waits)],
            ready=False,
        )
        for suffix, at in (
            ("x2x4b", ONSET + timedelta(minutes=3)),
            ("k8l5m", ONSET + timedelta(minutes=6)),
        )
    ]
    return [
        *dying,
        pod("cart-0", "cart", "node-2", [container()]),
        pod("search-0", "search", "node-2", [container()]),
    ]


def events() -> list[Object]:
    """Kubelets, the autoscaler and the rollout, for checkout and cart; somebody else's."""
    first = f"{NEW_SET}-x2x4b"
    back_off = f"Back-off restarting failed container app in pod {first}_shop(uid-1)"
    return [
        event("Pod", first, "BackOff", back_off, ONSET + timedelta(minutes=1), ALERT_AT, 24),
        event(
            "Pod",
            f"{NEW_SET}-gnnn2",
            "BackOff",
            back_off,
            ONSET + timedelta(minutes=2),
            ALERT_AT,
            9,
        ),
        event(
            "Pod",
            "cart-0",
            "Unhealthy",
            "Readiness probe failed: HTTP 503",
            CART_RUNS,
            ALERT_AT,
            60,
        ),
        event(
            "Deployment",
            "checkout",
            "ScalingReplicaSet",
            f"Scaled up replica set {NEW_SET} from 0 to 1",
            ROLLED_OUT,
            ROLLED_OUT,
        ),
        event(
            "HorizontalPodAutoscaler",
            "cart",
            "SuccessfulRescale",
            "New size: 3; reason: cpu resource utilization (percentage of request) above target",
            ALERT_AT - timedelta(hours=1),
            ALERT_AT - timedelta(hours=1),
        ),
        event("Pod", "search-0", "OOMKilling", "Memory cgroup out of memory", ONSET, ALERT_AT, 5),
    ]


def node_events() -> list[Object]:
    """One that says nothing bad, of a node that pods run on."""
    begun = ALERT_AT - timedelta(hours=2)
    return [event("Node", "node-1", "Pulled", "Node node-1 has pulled an image", begun, begun)]
