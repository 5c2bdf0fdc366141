"""Argo CD: checkout was synced to a new revision four minutes before the onset and is degraded
since; its staging application and the chart of a database stand beside it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from tests.connectors.conftest import ONSET
from tests.connectors.local_http import LocalServer, Reply

APPLICATIONS = "/api/v1/applications"
OLD, NEW = "4c1e7a90b2d35f6e8a1b0c9d7e6f5a4b3c2d1e0f", "9f2c1d7e5b3a48f0c6d1e2f3a4b5c6d7e8f90123"
SYNCED = ONSET - timedelta(minutes=4)
REPOSITORY = "https://github.com/acme/deploy.git"


def settings(url: str) -> dict[str, Any]:
    """One server."""
    return {"argocd": {"url": url, "token": "eyJhbGciOiJIUzI1NiJ9.0a1b2c3d"}}


def stamp(at: datetime) -> str:
    """As Kubernetes writes a time."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def synced(number: int, at: datetime, revision: str, **more: Any) -> dict[str, Any]:
    """An entry of a history as the specification has it."""
    made = {
        "id": number,
        "deployStartedAt": stamp(at - timedelta(seconds=20)),
        "deployedAt": stamp(at),
        "revision": revision,
        "source": {"repoURL": REPOSITORY, "path": "checkout/prod", "targetRevision": "main"},
        "initiatedBy": {"username": "dana"},
    }
    return made | more


def application(
    name: str, namespace: str, history: list[dict[str, Any]], **status: Any
) -> dict[str, Any]:
    """An application as the specification has it."""
    destination = {"server": "https://kubernetes.default.svc", "namespace": namespace}
    source = {"repoURL": REPOSITORY, "path": f"{name}/prod", "targetRevision": "main"}
    made = {
        "sync": {"status": "Synced", "revision": NEW},
        "health": {"status": "Healthy"},
        "history": history,
    }
    return {
        "metadata": {"name": name, "namespace": "argocd", "uid": f"u-{name}"},
        "spec": {"destination": destination, "source": source, "project": "shop"},
        "status": made | status,
    }


def applications() -> list[dict[str, Any]]:
    """Those of the shop."""
    degraded = {
        "status": "Degraded",
        "message": "Deployment checkout exceeded its progress deadline",
        "lastTransitionTime": stamp(ONSET),
    }
    history = [
        synced(7, SYNCED - timedelta(days=3), OLD),
        synced(8, SYNCED, NEW),
    ]
    chart = {"repoURL": "https://charts.example.com", "chart": "postgresql"}
    database = [
        synced(1, SYNCED - timedelta(days=30), "15.5.0", source=chart),
        synced(
            2,
            SYNCED - timedelta(hours=5),
            "15.5.1",
            source=chart,
            initiatedBy={"automated": True},
        ),
    ]
    return [
        application("checkout", "shop", history, health=degraded),
        application("checkout-staging", "shop-staging", [synced(9, SYNCED, NEW)]),
        application("orders-db", "shop", database),
    ]


def serve(server: LocalServer) -> None:
    """All calls succeed."""
    server.on(APPLICATIONS, Reply(answer(applications())))


def answer(items: list[dict[str, Any]] | None) -> dict[str, Any]:
    """A list of applications."""
    return {"metadata": {"resourceVersion": "123"}, "items": items}
