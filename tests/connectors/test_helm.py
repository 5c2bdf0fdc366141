"""What Helm released, as the connector of Kubernetes reads it over real HTTP: by the labels of
Helm's secrets alone, where the settings ask for it, one change with the rollout that followed.

Labels and names are as pkg/storage/driver/secrets.go of helm/helm writes them.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.kubernetes_objects import ROLLED_OUT, Object, listed, utc, workload
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins import kubernetes as stand_in

SECRETS = "/api/v1/namespaces/shop/secrets"
MADE_BY_HELM = {
    "meta.helm.sh/release-name": "checkout",
    "meta.helm.sh/release-namespace": "shop",
}


def cluster(server: LocalServer, notes: dict[str, str], labels: dict[str, str]) -> None:
    """The cluster of the incident, in which checkout has these annotations and labels."""
    stand_in.serve(server)
    made = workload("Deployment", "checkout", stand_in.checkout("1.5.0", "256Mi", "a"))
    made["metadata"]["labels"] = {"app": "checkout", **labels}
    made["metadata"]["annotations"] = notes
    server.on("/apis/apps/v1/namespaces/shop/deployments", listed([made]))


def secret(number: int, made: datetime, status: str, **own: Any) -> Object:
    """The metadata of a release's secret."""
    labels = {
        "name": "checkout",
        "owner": "helm",
        "status": status,
        "version": str(number),
        "modifiedAt": str(int((made + timedelta(seconds=30)).timestamp())),
    }
    name = f"sh.helm.release.v1.checkout.v{number}"
    meta = {"name": name, "namespace": "shop", "creationTimestamp": utc(made), "labels": labels}
    return {"metadata": {**meta, **own}}


def history() -> list[Object]:
    """A release just before the rollout, and one of three days ago."""
    return [
        secret(12, ROLLED_OUT - timedelta(seconds=20), "deployed"),
        secret(11, ALERT_AT - timedelta(days=3), "superseded"),
    ]


def collected(server: LocalServer, folder: Path, **own: Any) -> Collected:
    """What is collected for an alert about checkout."""
    values = stand_in.settings(server.url)
    values["kubernetes"] |= {"helm": True, **own}
    connector = CONNECTOR.configured(Settings.model_validate(values))
    assert connector is not None
    alert = Alert(source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    request = request_for(folder, services=("checkout", "cart"), alert=alert)
    return asyncio.run(collect_from(connector, request))


def titles(found: Collected) -> list[str]:
    """Of the deploys of checkout, the newest first."""
    rows = found.tables["changes"].filter(service="checkout", kind="deploy")
    return rows.sort("time", descending=True)["title"].to_list()


def test_a_release_is_one_change_with_the_rollout_that_followed(
    server: LocalServer, tmp_path: Path
) -> None:
    cluster(server, MADE_BY_HELM, {"helm.sh/chart": "checkout-2.1.0"})
    server.on(SECRETS, listed(history()))
    found = collected(server, tmp_path)
    first = titles(found)[0]
    assert first.startswith("Helm released checkout: revision 12 (")
    assert "checkout:1.4.0 -> " in first
    rows = found.tables["changes"].filter(service="checkout", kind="deploy")
    assert rows["time"].max() == ROLLED_OUT
    (item,) = (one for one in found.items if "/secrets" in one.query)
    assert item.changes == ("checkout (release 12)",)
    assert item.details == {"checkout": "chart checkout-2.1.0"}


def test_only_the_metadata_of_helms_own_secrets_is_asked_for(
    server: LocalServer, tmp_path: Path
) -> None:
    cluster(server, MADE_BY_HELM, {})
    server.on(SECRETS, listed(history()))
    collected(server, tmp_path)
    (asked,) = (one for one in server.asked if one.path == SECRETS)
    assert asked.query["labelSelector"] == ["owner=helm,name=checkout"]
    assert "as=PartialObjectMetadataList" in asked.headers["Accept"]
    assert asked.method == "GET"


def test_a_release_that_failed_or_hangs_says_so(server: LocalServer, tmp_path: Path) -> None:
    cluster(server, MADE_BY_HELM, {"helm.sh/chart": "checkout-2.0.4"})
    server.on(SECRETS, listed([secret(13, ALERT_AT - timedelta(hours=2), "pending-upgrade")]))
    told = [one for one in titles(collected(server, tmp_path)) if one.startswith("Helm")]
    assert told == ["Helm released checkout: revision 13 (pending-upgrade since 10:00 UTC)"]


@pytest.mark.parametrize(
    ("notes", "labels"),
    [
        ({}, {}),
        ({**MADE_BY_HELM, "meta.helm.sh/release-name": "a,name!=b"}, {}),
        (
            MADE_BY_HELM,
            {
                "helm.toolkit.fluxcd.io/name": "checkout",
                "helm.toolkit.fluxcd.io/namespace": "shop",
            },
        ),
    ],
)
def test_what_helm_did_not_make_or_flux_tells_of_is_not_asked_for(
    server: LocalServer, tmp_path: Path, notes: dict[str, str], labels: dict[str, str]
) -> None:
    cluster(server, notes, labels)
    collected(server, tmp_path)
    assert SECRETS not in server.paths()


def test_without_the_setting_no_secret_is_asked_for(server: LocalServer, tmp_path: Path) -> None:
    cluster(server, MADE_BY_HELM, {})
    collected(server, tmp_path, helm=False)
    assert SECRETS not in server.paths()


def test_a_refusal_is_a_gap_and_bad_objects_tell_nothing(
    server: LocalServer, tmp_path: Path
) -> None:
    cluster(server, MADE_BY_HELM, {})
    server.on(SECRETS, Reply({"kind": "Status"}, status=403))
    (gap,) = [one for one in collected(server, tmp_path).missing if "/secrets" in one.query]
    assert "not permitted" in gap.reason
    at = ALERT_AT - timedelta(hours=1)
    bad = [
        secret(1, at, "deployed", labels=None),
        secret(2, at, "deployed", creationTimestamp="soon"),
        secret(3, at, "deployed", name="db-password"),
    ]
    server.on(SECRETS, listed(bad))
    assert not [one for one in titles(collected(server, tmp_path)) if "Helm" in one]
