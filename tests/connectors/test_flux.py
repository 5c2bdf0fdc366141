"""What Flux applied, as the connector of Kubernetes reads it over real HTTP: asked for where labels
name it, one change with the rollout that followed, and what is not ready.

Objects are as Flux's API reference has them (helm.toolkit.fluxcd.io/v2,
kustomize.toolkit.fluxcd.io/v1).
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.kubernetes_objects import ROLLED_OUT, Object, listed, meta, utc, workload
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import kubernetes as stand_in

RELEASES = "/apis/helm.toolkit.fluxcd.io/v2/namespaces/shop/helmreleases"
KUSTOMIZATIONS = "/apis/kustomize.toolkit.fluxcd.io/v1/namespaces/flux-system/kustomizations"
OLD, NEW = "4c1e7a90b2d35f6e8a1b0c9d7e6f5a4b3c2d1e0f", "9f2c1d7e5b3a48f0c6d1e2f3a4b5c6d7e8f90123"


def cluster(server: LocalServer, labels: dict[str, str]) -> None:
    """The cluster of the incident, in which checkout has these labels."""
    stand_in.serve(server)
    made = workload("Deployment", "checkout", stand_in.checkout("1.5.0", "256Mi", "a"))
    made["metadata"]["labels"] = {"app": "checkout", **labels}
    server.on("/apis/apps/v1/namespaces/shop/deployments", listed([made]))


def collected(server: LocalServer, folder: Path, **own: Any) -> Collected:
    """What is collected for an alert about checkout."""
    values = stand_in.settings(server.url)
    values["kubernetes"] |= own
    connector = CONNECTOR.configured(Settings.model_validate(values))
    assert connector is not None
    alert = Alert(source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    request = request_for(folder, services=("checkout", "cart"), alert=alert)
    return asyncio.run(collect_from(connector, request))


def titles(found: Collected) -> list[str]:
    """Of the deploys of checkout, the newest first."""
    rows = found.tables["changes"].filter(service="checkout", kind="deploy")
    return rows.sort("time", descending=True)["title"].to_list()


def of_helm() -> dict[str, str]:
    """The labels that Flux gives to what a HelmRelease made."""
    return {
        "helm.toolkit.fluxcd.io/name": "checkout",
        "helm.toolkit.fluxcd.io/namespace": "shop",
    }


def release(number: int, at: Any, chart: str, app: str, status: str) -> Object:
    """An entry of a HelmRelease's history."""
    return {
        "name": "checkout",
        "namespace": "shop",
        "version": number,
        "chartName": "checkout",
        "chartVersion": chart,
        "appVersion": app,
        "configDigest": "sha256:12",
        "digest": "sha256:34",
        "firstDeployed": utc(ALERT_AT - timedelta(days=40)),
        "lastDeployed": utc(at),
        "status": status,
    }


def test_a_release_is_one_change_with_the_rollout_that_followed(
    server: LocalServer, tmp_path: Path
) -> None:
    cluster(server, of_helm())
    history = [
        release(12, ROLLED_OUT - timedelta(seconds=20), "2.1.0", "1.5.0", "deployed"),
        release(11, ALERT_AT - timedelta(days=3), "2.0.4", "1.4.0", "superseded"),
    ]
    server.on(RELEASES, listed([{"metadata": meta("checkout"), "status": {"history": history}}]))
    found = collected(server, tmp_path)
    first = titles(found)[0]
    assert first.startswith("Flux released checkout: chart checkout 2.0.4 -> 2.1.0, app 1.5.0 (")
    assert "checkout:1.4.0 -> " in first
    assert len([one for one in titles(found) if "2.1.0" in one]) == 1
    row = found.tables["changes"].filter(service="checkout", kind="deploy").sort("time").row(-1)
    assert row[0] == ROLLED_OUT
    asked = [one for one in server.asked if one.path == RELEASES]
    assert [one.query["fieldSelector"] for one in asked] == [["metadata.name=checkout"]]
    item = next(one for one in found.items if "helmreleases" in one.query)
    assert item.link == "https://headlamp.example.com/c/main/helmreleases/shop/checkout"
    assert item.changes == ("checkout 2.1.0 (release 12)",)


def test_a_kustomization_tells_commits_and_why_it_is_not_ready(
    server: LocalServer, tmp_path: Path
) -> None:
    cluster(
        server,
        {
            "kustomize.toolkit.fluxcd.io/name": "shop",
            "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
        },
    )
    failed_at = ONSET + timedelta(minutes=3)

    def applied(at: Any, revision: str, status: str) -> Object:
        return {
            "digest": "sha256:1",
            "firstReconciled": utc(at),
            "lastReconciled": utc(ALERT_AT),
            "lastReconciledDuration": "3.2s",
            "lastReconciledStatus": status,
            "totalReconciliations": 2,
            "metadata": {"revision": f"main@sha1:{revision}"},
        }

    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "HealthCheckFailed",
        "message": "timeout waiting for: [Deployment/shop/checkout status: 'InProgress']",
        "lastTransitionTime": utc(failed_at),
    }
    history = [
        applied(failed_at, NEW, "HealthCheckFailed"),
        applied(ALERT_AT - timedelta(hours=20), OLD, "ReconciliationSucceeded"),
    ]
    status = {"history": history, "conditions": [ready]}
    server.on(KUSTOMIZATIONS, listed([{"metadata": meta("shop"), "status": status}]))
    found = collected(server, tmp_path)
    told = " ".join(titles(found))
    assert f"Flux applied shop: {OLD[:12]} -> {NEW[:12]} (HealthCheckFailed)" in told
    assert f"Flux applied shop: {OLD[:12]}" in told
    item = next(one for one in found.items if "kustomizations" in one.query)
    assert item.details["Kustomization shop"].startswith(f"not ready since {utc(failed_at)}: ")


def test_a_cluster_without_flux_is_not_asked_and_a_refusal_is_a_gap(
    server: LocalServer, tmp_path: Path
) -> None:
    cluster(server, {})
    collected(server, tmp_path)
    assert not [path for path in server.paths() if "fluxcd" in path]
    cluster(server, of_helm())
    server.on(RELEASES, Reply({"kind": "Status"}, status=403))
    found = collected(server, tmp_path)
    (gap,) = [one for one in found.missing if "helmreleases" in one.query]
    assert "not permitted" in gap.reason
    assert len(titles(found)) == 2
    found = collected(server, tmp_path, without=["helmreleases"])
    assert not [one for one in found.missing if "helmreleases" in one.query]


@pytest.mark.parametrize("status", [None, {}, {"history": None}, {"history": [{}]}])
def test_an_object_without_a_history_tells_nothing(
    server: LocalServer, tmp_path: Path, status: Any
) -> None:
    cluster(server, of_helm())
    server.on(RELEASES, listed([{"metadata": meta("checkout"), "status": status}]))
    found = collected(server, tmp_path)
    assert not [one for one in titles(found) if "Flux" in one]
    assert not [one for one in found.missing if "helmreleases" in one.query]
