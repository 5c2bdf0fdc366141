"""What a cluster itself knows of changes: rollouts kept, replicas set, secrets written, node
pools."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR
from faultline.connectors.vendors.kubernetes.answers import Meta, Workload
from faultline.connectors.vendors.kubernetes.workloads import (
    ObservedWorkload,
    Ref,
    source_repository,
)
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.kubernetes_objects import (
    ROLLED_OUT,
    Object,
    event,
    listed,
    meta,
    node,
    owned,
    pod,
    replica_set,
    utc,
)
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins import kubernetes as stand_in
from tests.connectors.stand_ins.kubernetes import NEW_SET, SECRET_VALUE
from tests.connectors.test_kubernetes_states import document

EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"
LAST_WEEK = ALERT_AT - timedelta(days=7)
JOINED = ALERT_AT - timedelta(hours=2)


@pytest.fixture
def cluster(server: LocalServer) -> LocalServer:
    """The cluster of the incident."""
    stand_in.serve(server)
    return server


def changes(server: LocalServer, folder: Path, **kubernetes: Any) -> list[dict[str, Any]]:
    """The rows of changes that are collected for an alert about checkout."""
    given = stand_in.settings(server.url)
    given["kubernetes"] |= kubernetes
    connector = CONNECTOR.configured(Settings.model_validate(given))
    assert connector is not None
    alert = Alert(source="x", title="Checkout fails", started_at=ALERT_AT, service="checkout")
    request = request_for(folder, services=("checkout", "cart"), alert=alert)
    found = asyncio.run(collect_from(connector, request))
    return conform(found.tables["changes"], "changes", "changes").to_dicts()


def test_every_revision_that_is_kept_is_told(cluster: LocalServer, tmp_path: Path) -> None:
    sets = []
    for number in range(1, 6):
        made = stand_in.checkout(f"1.{number}.0", "512Mi", "a")
        at = ALERT_AT - timedelta(days=20 * (6 - number))
        sets.append(replica_set("checkout", f"set{number}", number, made, at))
    cluster.on("/apis/apps/v1/namespaces/shop/replicasets", listed(sets))
    rows = [row for row in changes(cluster, tmp_path) if row["service"] == "checkout"]
    deploys = [row for row in rows if row["kind"] == "deploy"]
    assert [row["time"] for row in deploys] == [
        ALERT_AT - timedelta(days=20 * days) for days in (5, 4, 3, 2, 1)
    ]
    assert "image checkout:1.4.0 -> checkout:1.5.0" in deploys[-1]["title"]


def test_a_stateful_set_that_went_back_counts_from_then(
    cluster: LocalServer, tmp_path: Path
) -> None:
    old = revision("cart-old", 4, "cart:8", LAST_WEEK)
    old["metadata"]["managedFields"] = [written(ROLLED_OUT, "kube-controller-manager")]
    new = revision("cart-new", 3, "cart:9", LAST_WEEK + timedelta(days=1))
    cluster.on("/apis/apps/v1/namespaces/shop/controllerrevisions", listed([old, new]))
    rows = [row for row in changes(cluster, tmp_path) if row["id"].startswith("cart-")]
    back = next(row for row in rows if row["id"] == "cart-old")
    assert back["time"] == ROLLED_OUT
    assert back["title"].startswith("Rollback of cart: image cart:9 -> cart:8")


def revision(name: str, number: int, image: str, at: Any) -> Object:
    """A ControllerRevision of cart."""
    own = meta(name, at=at, labels={"app": "cart"}, ownerReferences=owned("StatefulSet", "cart"))
    template = {"spec": {"containers": [{"name": "app", "image": image}]}}
    return {"metadata": own, "revision": number, "data": {"spec": {"template": template}}}


def written(at: Any, manager: str) -> Object:
    """A metav1.ManagedFieldsEntry."""
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": utc(at)}


@pytest.mark.parametrize(
    ("message", "at", "said"),
    [
        (f"Scaled up replica set {NEW_SET} from 2 to 5", ALERT_AT, "set from 2 to 5"),
        (f"Scaled down replica set {NEW_SET} to 0 from 2", ALERT_AT, "set from 2 to 0"),
        (f"Scaled up replica set {NEW_SET} to 5", ALERT_AT, "set to 5"),
        # A step of its rollout, and the set that the rollout took away.
        (f"Scaled up replica set {NEW_SET} from 1 to 2", ROLLED_OUT + timedelta(minutes=1), None),
        ("Scaled down replica set checkout-6b8c7d5f9 from 2 to 0", ALERT_AT, None),
    ],
)
def test_replicas_that_were_set_without_a_rollout_are_a_change(
    cluster: LocalServer, tmp_path: Path, message: str, at: Any, said: str | None
) -> None:
    told = event("Deployment", "checkout", "ScalingReplicaSet", message, at, at)
    cluster.on(EVENTS.format("shop"), listed([told]))
    rows = [row for row in changes(cluster, tmp_path) if row["service"] == "checkout"]
    scaled = [row["title"] for row in rows if row["kind"] == "scale"]
    expected = [f"Replicas of deployment shop/checkout {said}"] if said else []
    assert scaled == expected


def test_scalings_of_workloads_beside_it_are_changes_and_their_rollouts_are_not(
    cluster: LocalServer, tmp_path: Path
) -> None:
    messages = (
        ("mailer", "Scaled down replica set mailer-5f6d7c8b9 from 2 to 0"),
        ("search", "Scaled up replica set search-66b7d9c4f from 0 to 1"),
        ("search", "Scaled down replica set search-5f6d7c8b9 from 2 to 1"),
        ("audit", "Scaled up replica set audit-66b7d9c4f to 1"),
    )
    events = [
        event("Deployment", name, "ScalingReplicaSet", message, ALERT_AT, ALERT_AT)
        for name, message in messages
    ]
    cluster.on(EVENTS.format("shop"), listed(events))
    rows = [row for row in changes(cluster, tmp_path) if row["kind"] == "scale"]
    scalings = {(row["service"], row["before"], row["after"]) for row in rows}
    assert ("mailer", "2", "0") in scalings
    assert {"search", "audit"}.isdisjoint(service for service, _, _ in scalings)


def test_secrets_are_asked_for_where_that_is_set_and_by_their_metadata_alone(
    cluster: LocalServer, tmp_path: Path
) -> None:
    path = "/api/v1/namespaces/shop/secrets"
    own = {"metadata": meta("checkout-secrets", managedFields=[written(ONSET, "vault")])}
    other = {"metadata": meta("others", managedFields=[written(ONSET, "vault")])}
    values = {"data": {"token": SECRET_VALUE}}
    cluster.on(path, listed([own | values, other | values]))
    changes(cluster, tmp_path)
    assert path not in cluster.paths()
    rows = changes(cluster, tmp_path, secrets=True)
    titles = [row["title"] for row in rows if row["title"].startswith("Secret")]
    assert titles == ["Secret shop/checkout-secrets written by vault"]
    (asked,) = [one for one in cluster.asked if one.path == path]
    assert "PartialObjectMetadataList" in asked.headers["Accept"]
    assert SECRET_VALUE not in repr(rows)


NEWER = {"kubeletVersion": "v1.35.1", "kernelVersion": "6.12.30"}


def test_nodes_that_join_with_other_software_are_a_change_of_the_services_on_them(
    cluster: LocalServer, tmp_path: Path
) -> None:
    new = [node(name, at=JOINED, runs=NEWER) for name in ("node-3", "node-4")]
    alike = node("node-5", at=JOINED)
    cluster.on("/api/v1/nodes", listed([node("node-1"), *new, alike]))
    names = ("node-1", "node-3", "node-4", "node-5")
    pods = [pod(f"checkout-{name}", "checkout", name, []) for name in names]
    cluster.on("/api/v1/namespaces/shop/pods", listed(pods))
    rows = [row for row in changes(cluster, tmp_path) if "node" in row["title"]]
    (row,) = rows
    assert (row["time"], row["service"], row["kind"]) == (JOINED, "checkout", "config")
    assert row["title"] == (
        "2 new nodes in node pool general: kubelet v1.34.2 -> v1.35.1, "
        "kernel 6.1.140 -> 6.12.30 (node-3, node-4)"
    )


def test_a_node_that_left_is_a_change_of_those_whose_events_came_from_it(
    cluster: LocalServer, tmp_path: Path
) -> None:
    said = "Node node-1 event: Removing Node node-1 from Controller"
    removed = event("Node", "node-1", "RemovingNode", said, ONSET, ONSET)
    stranger = event("Node", "node-9", "RemovingNode", said, ONSET, ONSET)
    cluster.on(EVENTS.format("default"), listed([removed, stranger]))
    rows = [row for row in changes(cluster, tmp_path) if row["title"].startswith("Node ")]
    told = {(row["service"], row["time"], row["title"]) for row in rows}
    assert ("checkout", ONSET, "Node node-1 was removed from the cluster") in told
    assert "node-9" not in repr(rows)


REMOVED = event("Node", "a", "RemovingNode", "Removing Node a", ONSET, ONSET)
# Kubelets write null here, against the published schema.
REMOVED["eventTime"] = utc(ONSET)


@pytest.mark.parametrize(
    ("file", "schema", "given"),
    [
        ("apps-v1.json.gz", "apps.v1.ReplicaSet", replica_set("a", "b", 1, {}, ONSET)),
        ("apps-v1.json.gz", "apps.v1.ControllerRevision", revision("a", 1, "i", ONSET)),
        ("core-v1.json.gz", "core.v1.Node", node("a", at=ONSET, runs=NEWER)),
        ("events-v1.json", "events.v1.Event", REMOVED),
    ],
)
def test_these_objects_are_those_of_the_published_api(
    shared: Path, file: str, schema: str, given: Object
) -> None:
    known = document(shared, file)["components"]["schemas"]
    name = f"#/components/schemas/io.k8s.api.{schema}"
    wanted = {"$ref": name, "components": {"schemas": known}}
    present = {key: value for key, value in given.items() if value is not None}
    jsonschema.Draft202012Validator(wanted).validate(present)


@pytest.mark.parametrize(
    ("annotations", "address"),
    [
        (
            {"backstage.io/source-location": "url:https://github.com/acme/checkout/"},
            "https://github.com/acme/checkout/",
        ),
        ({"github.com/project-slug": "acme/checkout"}, "https://github.com/acme/checkout"),
        (
            {"org.opencontainers.image.source": "https://gitlab.example.com/acme/checkout"},
            "https://gitlab.example.com/acme/checkout",
        ),
        ({"github.com/project-slug": "acme/checkout <script>"}, ""),
        ({"owner": "acme/checkout"}, ""),
    ],
)
def test_annotations_of_a_workload_name_its_repository(
    annotations: dict[str, str], address: str
) -> None:
    made = Workload(Meta(name="checkout", annotations=annotations))
    observed = ObservedWorkload(Ref("checkout", "shop"), "Deployment", made)
    assert source_repository(observed) == address
