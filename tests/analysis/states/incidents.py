"""Incidents told by facts about objects and by events alone: no metric, no span.

The expected answers were written before any of them was run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.analysis.cases import at

Rows = list[dict[str, Any]]
DAY = 24 * 60


@dataclass(frozen=True)
class StateIncident:
    """A case folder without metrics, and who is to blame for what."""

    name: str
    alert: dict[str, Any]
    states: Rows
    subject: str
    kind: str
    logs: Rows = field(default_factory=list)
    topology: Rows = field(default_factory=list)
    changes: Rows = field(default_factory=list)


def fact(kind: str, name: str, what: str, since: float, **more: str) -> dict[str, Any]:
    """A row of the table `states`; `since` in minutes from the alert."""
    spaces = {} if kind in ("Node", "DBInstance") else {"namespace": "shop"}
    return {"kind": kind, "name": name, "fact": what, "since": at(since), **spaces, **more}


def events(service: str, text: str, minutes: Sequence[float]) -> Rows:
    """Events of a service as the log lines that connectors make of them."""
    return [
        {"time": at(minute), "service": service, "message": text, "level": "WARNING"}
        for minute in minutes
    ]


def calls(*pairs: str) -> Rows:
    """Calls, each as "caller callee"."""
    return [dict(zip(("caller", "callee"), pair.split(), strict=True)) for pair in pairs]


SHOP = calls("web checkout", "web search", "checkout cart", "checkout payments", "cart cart-db")
OLD_CRASHES = [
    fact("Pod", "search-5", "crash_loop", -9 * DAY, service="search", place="node-3"),
    fact("Pod", "reports-1", "unschedulable", -4 * DAY, service="reports"),
]
NOW = (1, 3, 6, 10, 15, 20)

INCIDENTS = (
    StateIncident(
        "a selector that matches nothing",
        {"title": "checkout fails", "service": "checkout"},
        [
            *OLD_CRASHES,
            fact(
                "Service",
                "cart",
                "selector_matches_nothing",
                -6,
                service="cart",
                value="app=crat",
                expected="app=cart",
            ),
            fact("Service", "cart", "no_ready_endpoints", -6, service="cart"),
        ],
        "cart",
        "selector_matches_nothing",
        logs=events("checkout", "dial tcp 10.0.3.4:8080: connect: connection refused", NOW),
        topology=SHOP,
    ),
    StateIncident(
        "a port that nothing listens on",
        {"title": "web error rate is high", "service": "web"},
        [
            *OLD_CRASHES,
            fact(
                "Service",
                "payments",
                "port_not_served",
                -20,
                service="payments",
                value="8081",
                expected="8080",
            ),
        ],
        "payments",
        "port_not_served",
        logs=events("checkout", "POST payments:80: connection refused", NOW),
        topology=SHOP,
    ),
    StateIncident(
        "a node that is not ready",
        {"title": "checkout fails", "service": "checkout"},
        [
            *OLD_CRASHES,
            fact("Node", "node-7", "node_not_ready", -4, service="checkout", value="KubeletDown"),
            fact("Node", "node-7", "node_not_ready", -4, service="cart", value="KubeletDown"),
            fact("Pod", "cart-1", "readiness_failing", -3, service="cart", place="node-7"),
            fact("Pod", "checkout-1", "readiness_failing", -3, service="checkout", place="node-7"),
            fact("Pod", "checkout-2", "readiness_failing", -3, service="checkout", place="node-7"),
        ],
        "node-7",
        "node_not_ready",
        logs=events("checkout", "Node is not ready", (-3, -2, 2)),
        topology=SHOP,
    ),
    StateIncident(
        "a namespace whose quota is used up",
        {"title": "checkout is slow", "service": "checkout"},
        [
            *OLD_CRASHES,
            fact(
                "ResourceQuota",
                "compute",
                "quota_exceeded",
                -12,
                service="checkout",
                value="requests.cpu used 20 of 20",
            ),
            fact(
                "Deployment",
                "checkout",
                "replicas_missing",
                -12,
                service="checkout",
                value="1",
                expected="4",
            ),
        ],
        "namespace/shop",
        "quota_exceeded",
        logs=events(
            "checkout", 'pods "checkout-7d" is forbidden: exceeded quota: compute', (-10, -4, *NOW)
        ),
        topology=SHOP,
    ),
    StateIncident(
        "a network policy that cuts callers off",
        {"title": "web error rate is high", "service": "web"},
        [
            *OLD_CRASHES,
            fact(
                "NetworkPolicy",
                "payments-only-admin",
                "traffic_blocked",
                -8,
                service="payments",
                value="checkout",
                expected="payments",
            ),
        ],
        "payments",
        "traffic_blocked",
        logs=events("checkout", "context deadline exceeded calling payments", NOW),
        topology=SHOP,
    ),
    StateIncident(
        "an image that cannot be pulled",
        {"title": "payments has no ready instance", "service": "payments"},
        [
            *OLD_CRASHES,
            fact(
                "Pod",
                "payments-1",
                "image_unavailable",
                -5,
                service="payments",
                place="node-2",
                value="payments:9.9.9: not found",
            ),
            fact("Deployment", "payments", "rollout_stuck", 2, service="payments"),
            fact("Service", "payments", "no_ready_endpoints", -4, service="payments"),
        ],
        "payments",
        "image_unavailable",
        logs=events("payments", "Back-off pulling image payments:9.9.9", NOW),
        topology=SHOP,
    ),
    StateIncident(
        "a claim that stays pending below a caller's failing probe",
        {"title": "cart is not ready", "service": "cart"},
        [
            *OLD_CRASHES,
            fact(
                "PersistentVolumeClaim",
                "data-cart-db-0",
                "volume_unavailable",
                -15,
                service="cart-db",
                value="Pending: no storage class fast",
            ),
            fact("Pod", "cart-db-0", "unschedulable", -15, service="cart-db"),
            fact("Pod", "cart-1", "readiness_failing", -10, service="cart", place="node-1"),
        ],
        "cart-db",
        "volume_unavailable",
        logs=events("cart", "Readiness probe failed: HTTP probe failed with statuscode: 503", NOW),
        topology=SHOP,
    ),
    StateIncident(
        "a config map that is gone",
        {"title": "checkout fails", "service": "checkout"},
        [
            *OLD_CRASHES,
            fact(
                "Pod",
                "checkout-9",
                "reference_missing",
                -7,
                service="checkout",
                place="node-1",
                value='configmap "checkout-flags"',
            ),
            fact(
                "Deployment",
                "checkout",
                "replicas_missing",
                -6,
                service="checkout",
                value="0",
                expected="3",
            ),
            fact("Node", "node-1", "node_under_pressure", -6 * DAY, service="search"),
        ],
        "checkout",
        "reference_missing",
        topology=SHOP,
    ),
    StateIncident(
        "containers that are killed for their memory, two calls away",
        {"title": "web error rate is high", "service": "web"},
        [
            *OLD_CRASHES,
            fact(
                "Pod",
                "cart-1",
                "killed_for_memory",
                -9,
                service="cart",
                place="node-4",
                value="exit code 137, 6 restarts",
            ),
            fact("Pod", "checkout-1", "readiness_failing", -5, service="checkout", place="node-2"),
        ],
        "cart",
        "killed_for_memory",
        logs=[
            *events("cart", "container app terminated: OOMKilled, exit code 137", (-9, -4, 2, 9)),
            *events("checkout", "upstream connect error: connection reset by peer", NOW),
        ],
        topology=SHOP,
    ),
    StateIncident(
        "an ingress to a service that is not there",
        {"title": "probe of https://shop.example.com fails"},
        [
            *OLD_CRASHES,
            fact(
                "Ingress",
                "shop",
                "route_to_nothing",
                -3,
                service="web",
                value="Service web-v2, port 80",
            ),
        ],
        "web",
        "route_to_nothing",
    ),
    StateIncident(
        "a database without storage",
        {"title": "orders fails", "service": "orders"},
        [
            fact(
                "DBInstance",
                "orders-db",
                "database_storage_full",
                -11,
                service="orders-db",
                value="status storage-full",
            ),
            fact(
                "DBInstance",
                "reports-db",
                "database_parameters_pending",
                -20 * DAY,
                service="reports-db",
            ),
        ],
        "orders-db",
        "database_storage_full",
        logs=events("orders", "ERROR: could not extend file: No space left on device", NOW),
        topology=calls("orders orders-db", "reports reports-db"),
    ),
    StateIncident(
        "a database that failed over",
        {"title": "orders latency is high", "service": "orders"},
        [
            fact(
                "DBInstance",
                "orders-db",
                "database_failed_over",
                -2,
                service="orders-db",
                value="Multi-AZ instance failover completed",
            )
        ],
        "orders-db",
        "database_failed_over",
        logs=[
            *events("orders", "SSL connection has been closed unexpectedly", (-2, -1, 0, 1)),
            *events("orders-db", "RDS orders-db: Multi-AZ instance failover started", (-3,)),
        ],
        topology=calls("orders orders-db"),
    ),
    StateIncident(
        "a database whose password was reset",
        {"title": "orders fails", "service": "orders"},
        [
            fact(
                "DBInstance",
                "orders-db",
                "database_access_changed",
                -6,
                service="orders-db",
                value="Reset master credentials",
            )
        ],
        "orders-db",
        "database_access_changed",
        logs=events("orders", "FATAL: password authentication failed for user orders", NOW),
        topology=calls("orders orders-db"),
    ),
    StateIncident(
        "a database that was stopped",
        {"title": "orders fails", "service": "orders"},
        [
            fact(
                "DBInstance",
                "orders-db",
                "database_unavailable",
                -6,
                service="orders-db",
                value="stopped",
            ),
            fact("Pod", "orders-1", "readiness_failing", -4, service="orders", place="node-1"),
        ],
        "orders-db",
        "database_unavailable",
        logs=events("orders", "could not connect to server: Connection refused", NOW),
        topology=calls("orders orders-db"),
    ),
)
