"""What the state of a cluster's objects says: the connector against a local server that answers in
the shapes of the API, and against Kubernetes' published OpenAPI documents."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import jsonschema
import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR, state_inquiry
from faultline.connectors.vendors.kubernetes.state_inquiry import STATE_LISTS
from tests.connectors import kubernetes_states as broken
from tests.connectors.conftest import ALERT_AT, ONSET, request_for
from tests.connectors.kubernetes_objects import SPACE, Object, listed, meta, refused
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.stand_ins.kubernetes import GROUPS, STATE_GROUPS, TOKEN

CALLS = (("web", "checkout"), ("checkout", "payments"))
EXPECTED = {
    ("Service", "cart", "selector_matches_nothing", "cart"),
    ("Service", "payments", "port_not_served", "payments"),
    ("NetworkPolicy", "checkout-callers", "traffic_blocked", "checkout"),
    ("ResourceQuota", "compute", "quota_exceeded", "checkout"),
    ("Deployment", "search", "scaled_to_zero", "search"),
    ("Deployment", "web", "rollout_stuck", "web"),
    ("Pod", "web-6b8c7d5f9-x2x4b", "probe_misconfigured", "web"),
    ("Service", "web", "no_ready_endpoints", "web"),
    ("Ingress", "shop", "route_to_nothing", "web"),
    ("Certificate", "shop-tls", "certificate_expired", "web"),
    ("PodDisruptionBudget", "web", "disruption_blocked", "web"),
    ("HorizontalPodAutoscaler", "web", "autoscaler_at_maximum", "web"),
    ("HorizontalPodAutoscaler", "payments", "autoscaler_blind", "payments"),
    ("Pod", "orders-6b8c7d5f9-x2x4b", "unschedulable", "orders"),
    ("PersistentVolumeClaim", "orders-data", "volume_unavailable", "orders"),
    ("Pod", "mail-6b8c7d5f9-x2x4b", "image_unavailable", "mail"),
    ("Pod", "ads-6b8c7d5f9-x2x4b", "reference_missing", "ads"),
    ("Pod", "flags-6b8c7d5f9-x2x4b", "placement_impossible", "flags"),
    ("Pod", "stock-6b8c7d5f9-x2x4b", "unschedulable", "stock"),
    ("Job", "batch", "job_failed", "batch"),
    ("Node", "node-3", "node_not_ready", "web"),
    ("Node", "node-2", "node_cordoned", "payments"),
}
"""Kind, name, fact and service of the rows that must be there; replicas that are missing follow."""


@pytest.fixture
def shop(server: LocalServer) -> LocalServer:
    """A namespace in which everything is broken."""
    serve(server, broken.objects())
    server.on("/api/v1/nodes", listed(broken.nodes()))
    return server


def serve(server: LocalServer, objects: dict[str, list[Object]]) -> None:
    """These objects; lists that are not among them are empty."""
    for resource, group in {**GROUPS, **STATE_GROUPS}.items():
        path = f"{group}/namespaces/{SPACE}/{resource}"
        server.on(path, listed(objects.get(resource, [])))
    server.on("/api/v1/namespaces", listed([{"metadata": meta(SPACE, space=None)}]))
    server.on("/apis/events.k8s.io/v1/namespaces/default/events", listed([]))


def collect(server: LocalServer, folder: Path, services: tuple[str, ...]) -> Collected:
    """What is collected for an alert about web."""
    workloads = {name: {"kubernetes": [f"{SPACE}/deployment/{name}"]} for name in services}
    if "batch" in workloads:
        workloads["batch"] = {"kubernetes": [f"{SPACE}/job/batch"]}
    cluster = {"url": server.url, "token": TOKEN, "logs": False}
    given = {"kubernetes": cluster, "services": workloads}
    connector = CONNECTOR.configured(Settings.model_validate(given))
    assert connector is not None
    alert = Alert(source="x", title="web fails", started_at=ALERT_AT, service="web")
    request = request_for(folder, services=services, alert=alert)
    scope = request.scope.model_copy(update={"calls": CALLS})
    changed = type(request)(request.alert, scope, request.files)
    return asyncio.run(collect_from(connector, changed))


def states(found: Collected) -> pl.DataFrame:
    """The table in its schema."""
    return conform(found.tables["states"], "states", "states")


def rows_of(found: Collected) -> set[tuple[str, str, str, str]]:
    """Kind, name, fact and service of every row."""
    return set(states(found).select("kind", "name", "fact", "service").rows())


def test_every_broken_object_is_a_fact_of_its_service(shop: LocalServer, tmp_path: Path) -> None:
    found = collect(shop, tmp_path, broken.SERVICES)
    assert found.missing == ()
    assert EXPECTED - rows_of(found) == set()
    others = {fact for _, _, fact, _ in rows_of(found) - EXPECTED}
    assert others <= {"replicas_missing", "node_cordoned", "node_not_ready"}


def test_a_fact_says_what_is_there_what_was_expected_and_since_when(
    shop: LocalServer, tmp_path: Path
) -> None:
    table = states(collect(shop, tmp_path, broken.SERVICES))
    row = table.filter(fact="selector_matches_nothing").row(0, named=True)
    assert (row["field"], row["value"], row["expected"]) == (
        "spec.selector",
        "app=crat",
        "app=cart",
    )
    assert row["since"] == ONSET
    assert row["query"] == "kubectl get --raw '/api/v1/namespaces/shop/services'"
    quota = table.filter(fact="quota_exceeded").row(0, named=True)
    assert "requests.cpu=20" in quota["value"]
    claim = table.filter(fact="volume_unavailable").row(0, named=True)
    assert "fast" in claim["value"]
    probe = table.filter(fact="probe_misconfigured").row(0, named=True)
    assert (probe["value"], probe["expected"]) == ("port 9090", "port 8080, http")


@pytest.mark.parametrize(
    ("refusal", "row"),
    [
        (
            "minimum cpu usage per Container is 100m, but request is 10m",
            (
                "LimitRange",
                SPACE,
                "limit_range_refused",
                "minimum cpu usage per Container is 100m, but request is 10m",
            ),
        ),
        (
            "unable to create new content in namespace shop because it is being terminated",
            ("Namespace", SPACE, "namespace_terminating", "because it is being terminated"),
        ),
        (
            "failed quota: compute: must specify limits.cpu",
            ("ResourceQuota", "compute", "quota_exceeded", "must specify limits.cpu"),
        ),
        (
            'failed calling webhook "pods.policy.example": failed to call webhook: Post '
            '"https://policy.policy-system.svc:443/validate?timeout=10s": context deadline '
            "exceeded",
            (
                "Webhook",
                "pods.policy.example",
                "webhook_unanswered",
                "policy.policy-system.svc: context deadline exceeded",
            ),
        ),
        (
            'admission webhook "pods.policy.example" denied the request: no limits set',
            ("Webhook", "pods.policy.example", "webhook_denied", "no limits set"),
        ),
        ("somebody said no", None),
    ],
)
def test_what_refuses_new_pods_is_read_from_events(
    server: LocalServer,
    tmp_path: Path,
    refusal: str,
    row: tuple[str, str, str, str] | None,
) -> None:
    note = f'Error creating: pods "checkout-7d9f8c6b5d-k8l5m" is forbidden: {refusal}'
    refused = broken.event(
        "ReplicaSet", "checkout-7d9f8c6b5d", "FailedCreate", note, ONSET, ALERT_AT, 8
    )
    serve(server, {**broken.objects(), "resourcequotas": [], "events": [refused]})
    server.on("/api/v1/nodes", listed(broken.nodes()))
    table = states(collect(server, tmp_path, broken.SERVICES))
    facts = [
        "limit_range_refused",
        "namespace_terminating",
        "quota_exceeded",
        "webhook_denied",
        "webhook_unanswered",
    ]
    table = table.filter(pl.col("fact").is_in(facts))
    rows = table.select("kind", "name", "fact", "value").rows()
    assert rows == ([row] if row is not None else [])


def test_a_policy_cuts_a_caller_off_from_the_service_that_its_variables_name(
    server: LocalServer, tmp_path: Path
) -> None:
    """Only the caller is in scope, and no catalogue says whom it calls."""
    caller = broken.deployment("checkout")
    container = caller["spec"]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "STOCK_URL", "value": "http://stock:80"}]
    objects = {
        "deployments": [caller],
        "pods": [broken.running("checkout", "node-1")],
        "services": [broken.service("checkout", "checkout"), broken.service("stock", "stock")],
        "endpointslices": [broken.slice_of("checkout", True), broken.slice_of("stock", True)],
        "networkpolicies": [broken.policy("stock-callers", "stock", "admin")],
    }
    serve(server, objects)
    server.on("/api/v1/nodes", listed([broken.node("node-1")]))
    row = ("NetworkPolicy", "stock-callers", "traffic_blocked", "stock")
    assert rows_of(collect(server, tmp_path, ("checkout",))) == {row}
    objects["networkpolicies"] = [broken.policy("stock-callers", "stock", "checkout")]
    serve(server, objects)
    assert rows_of(collect(server, tmp_path, ("checkout",))) == set()


def test_only_what_concerns_the_scope_is_told(shop: LocalServer, tmp_path: Path) -> None:
    found = collect(shop, tmp_path, ("payments",))
    assert {service for *_, service in rows_of(found)} <= {"payments", None}


def test_a_well_namespace_shows_no_fact(server: LocalServer, tmp_path: Path) -> None:
    well = {
        "deployments": [broken.deployment("web"), broken.deployment("checkout")],
        "pods": [broken.running("web", "node-1"), broken.running("checkout", "node-1")],
        "services": [broken.service("web", "web"), broken.service("checkout", "checkout", "http")],
        "endpointslices": [broken.slice_of("web", True), broken.slice_of("checkout", True)],
        "ingresses": [broken.ingress("shop", ("web", 80))],
        "networkpolicies": [broken.policy("checkout-callers", "checkout", "web")],
        "persistentvolumeclaims": [broken.claim("orders-data", "Bound")],
    }
    serve(server, well)
    server.on("/api/v1/nodes", listed([broken.node("node-1")]))
    assert rows_of(collect(server, tmp_path, ("web", "checkout"))) == set()


def test_no_secret_is_asked_for(shop: LocalServer, tmp_path: Path) -> None:
    collect(shop, tmp_path, broken.SERVICES)
    assert not [asked for asked in shop.asked if "secrets" in asked.path]


def test_a_list_that_is_refused_is_a_gap_and_the_others_stand(
    shop: LocalServer, tmp_path: Path
) -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies"
    shop.on(path, refused(403, "forbidden"))
    found = collect(shop, tmp_path, broken.SERVICES)
    assert [gap.kind for gap in found.missing] == ["states"]
    assert "networkpolicies" in found.missing[0].query
    left = EXPECTED - {row for row in EXPECTED if row[0] == "NetworkPolicy"}
    assert left - rows_of(found) == set()


def test_a_cluster_without_gateways_and_certificates_has_no_gap(
    shop: LocalServer, tmp_path: Path
) -> None:
    for resource in ("httproutes", "certificates"):
        path = f"{STATE_GROUPS[resource]}/namespaces/{SPACE}/{resource}"
        shop.on(path, refused(404, "the server could not find the requested resource"))
    assert collect(shop, tmp_path, broken.SERVICES).missing == ()


SCHEMA_OF = {
    "deployments": ("apps-v1.json.gz", "io.k8s.api.apps.v1.Deployment"),
    "jobs": ("batch-v1.json.gz", "io.k8s.api.batch.v1.Job"),
    "pods": ("core-v1.json.gz", "io.k8s.api.core.v1.Pod"),
    "services": ("core-v1.json.gz", "io.k8s.api.core.v1.Service"),
    "resourcequotas": ("core-v1.json.gz", "io.k8s.api.core.v1.ResourceQuota"),
    "persistentvolumeclaims": ("core-v1.json.gz", "io.k8s.api.core.v1.PersistentVolumeClaim"),
    "ingresses": ("networking-v1.json.gz", "io.k8s.api.networking.v1.Ingress"),
    "networkpolicies": ("networking-v1.json.gz", "io.k8s.api.networking.v1.NetworkPolicy"),
    "poddisruptionbudgets": ("policy-v1.json", "io.k8s.api.policy.v1.PodDisruptionBudget"),
    "horizontalpodautoscalers": (
        "autoscaling-v2.json.gz",
        "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
    ),
}


def document(shared: Path, name: str) -> Any:
    """One of the published documents."""
    raw = (shared / "specs" / "kubernetes-1.35" / name).read_bytes()
    return json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)


@pytest.mark.parametrize("resource", sorted(SCHEMA_OF))
def test_the_objects_of_these_tests_are_those_of_the_published_api(
    shared: Path, resource: str
) -> None:
    name, schema = SCHEMA_OF[resource]
    given = document(shared, name)
    known = given["components"]["schemas"]
    wanted = {"$ref": f"#/components/schemas/{schema}", "components": {"schemas": known}}
    for one in broken.objects()[resource]:
        jsonschema.Draft202012Validator(wanted).validate(_without_nulls(one))


def _without_nulls(value: Any) -> Any:
    """Go writes an absent value as null, which the schemas leave unsaid."""
    if isinstance(value, dict):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    if isinstance(value, list):
        return [_without_nulls(one) for one in value]
    return value


def test_every_list_is_one_of_the_published_api(shared: Path) -> None:
    paths: set[str] = set()
    for name in ("core-v1.json.gz", "networking-v1.json.gz", "policy-v1.json"):
        paths |= set(document(shared, name)["paths"])
    published = ("api/v1", "apis/networking.k8s.io/v1", "apis/policy/v1")
    for one in STATE_LISTS:
        if one.group in published:
            assert one.path("{namespace}") in paths


ABSENT = {"services", "endpointslices", "networkpolicies", "persistentvolumeclaims"}
"""Lists in which something that is not there would be a fact."""


@pytest.mark.parametrize("resource", sorted(ABSENT))
def test_what_a_cut_list_left_out_is_not_taken_for_missing(
    resource: str, server: LocalServer, tmp_path: Path
) -> None:
    pod = broken.running("web", "node-1")
    claims = {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}}
    pod["spec"]["volumes"] = [claims]
    well = {
        "deployments": [broken.deployment("web"), broken.deployment("checkout")],
        "pods": [pod, broken.running("checkout", "node-1")],
        "services": [broken.service("web", "web"), broken.service("checkout", "checkout", "http")],
        "endpointslices": [broken.slice_of("web", True), broken.slice_of("checkout", True)],
        "ingresses": [broken.ingress("shop", ("web", 80))],
        "networkpolicies": [
            broken.policy("nobody", "checkout", "stranger"),
            broken.policy("checkout-callers", "checkout", "web"),
        ],
        "persistentvolumeclaims": [broken.claim("web-data", "Bound")],
    }
    serve(server, well)
    server.on("/api/v1/nodes", listed([broken.node("node-1")]))
    path = f"{STATE_GROUPS[resource]}/namespaces/{SPACE}/{resource}"
    # A page without the object that matters, and always more to come.
    first = {"items": well[resource][:1] if resource == "networkpolicies" else []}
    server.on(path, lambda _: Reply({**first, "metadata": {"continue": "bW9yZQ=="}}))
    found = collect(server, tmp_path, ("web", "checkout"))
    assert rows_of(found) == set()
    (item,) = [one for one in found.items if one.kind == "states" and resource in one.query]
    assert item.cut


def test_without_the_right_to_read_endpoints_no_service_is_said_to_select_nothing(
    server: LocalServer, tmp_path: Path
) -> None:
    serve(server, broken.objects())
    server.on("/api/v1/nodes", listed(broken.nodes()))
    path = f"{STATE_GROUPS['endpointslices']}/namespaces/{SPACE}/endpointslices"
    server.on(path, refused(403, "endpointslices is forbidden"))
    found = collect(server, tmp_path, broken.SERVICES)
    assert "selector_matches_nothing" not in {fact for _, _, fact, _ in rows_of(found)}
    assert [one for one in found.missing if "endpointslices" in (one.query or "")]


def test_facts_beyond_what_is_kept_are_said_to_be_left_out(
    shop: LocalServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_inquiry, "MOST_FACTS", 3)
    found = collect(shop, tmp_path, ("web", "checkout", "payments", "cart"))
    in_namespace = states(found).filter(pl.col("kind") != "Node")
    assert in_namespace.height == 3
    assert [one for one in found.items if one.cut == "only 3 facts of a namespace are kept"]
