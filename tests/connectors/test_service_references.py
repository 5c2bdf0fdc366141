"""Who calls whom by a cluster's objects: the connector against a local server that answers in the
shapes of the API."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jsonschema
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Alert
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Collected, collect_from
from faultline.connectors.vendors.kubernetes import CONNECTOR
from faultline.connectors.vendors.kubernetes.service_references import ServicesThere, _services_in
from tests.connectors.collected_cases import calls_in
from tests.connectors.conftest import ALERT_AT, request_for
from tests.connectors.kubernetes_objects import (
    SPACE,
    Object,
    container,
    meta,
    pod,
    template,
    workload,
)
from tests.connectors.local_http import LocalServer
from tests.connectors.stand_ins.kubernetes import TOKEN
from tests.connectors.test_kubernetes_states import _without_nulls, document, serve

PASSWORD = "hunter2-cart-orders-db"
ENV = {
    "CART_ADDR": "cart:7070",
    "PAYMENTS_URL": "http://payments.shop.svc.cluster.local/charge?retries=2",
    "DATABASE": f"postgres://shop:{PASSWORD}@orders-db:5432/orders?sslmode=require",
    "BROKERS": "kafka-0.kafka:9092,kafka-1.kafka:9092",
    "SEARCH": "$(SEARCH_API_SERVICE_HOST):8080",
    "REDIS_HOST": "sessions",
    "MAIL_URL": "https://api.mail.example.com/v1",
    "ELSEWHERE": "http://ledger.finance.svc.cluster.local",
    "MODE": "ads",
    "WORDS": "web, ads and flags",
    "LICENCE": PASSWORD,
    "OTEL_SERVICE_NAME": "checkout",
    "SELF_URL": "http://checkout:8080",
}
ARGUMENTS = ["--ledger-address=ledger:9000", "--mode=flags", "-c", "wget http://rates:8080/all"]
EXPECTED = ["cart", "kafka", "ledger", "orders-db", "payments", "rates", "search-api", "sessions"]


def service(name: str, app: str | None = None) -> Object:
    ports = [{"port": 80, "targetPort": 8080}]
    return {"metadata": meta(name), "spec": {"selector": {"app": app or name}, "ports": ports}}


def objects() -> dict[str, list[Object]]:
    """checkout, which is given the addresses of others; an ingress and a route to it."""
    env = [{"name": name, "value": value} for name, value in ENV.items()]
    env.append({"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "ads", "key": "t"}}})
    made = template("checkout", "registry.example.com/shop/checkout:1", "1Gi", env)
    made["spec"]["containers"][0]["args"] = ARGUMENTS
    names = (*EXPECTED, "ads", "flags", "web")
    backend = {"service": {"name": "checkout-http", "port": {"number": 80}}}
    path = {"path": "/", "pathType": "Prefix", "backend": backend}
    rules = [{"host": "shop.example.com", "http": {"paths": [path]}}]
    route = {
        "parentRefs": [{"name": "public"}],
        "rules": [{"backendRefs": [{"name": "checkout-http", "port": 80}, {"name": "gone"}]}],
    }
    return {
        "deployments": [workload("Deployment", "checkout", made)],
        "pods": [pod("checkout-1", "checkout", "node-1", [container()])],
        "services": [service("checkout-http", "checkout"), *(service(name) for name in names)],
        "ingresses": [
            {"metadata": meta("shop"), "spec": {"ingressClassName": "nginx", "rules": rules}}
        ],
        "httproutes": [{"metadata": meta("shop"), "spec": route}],
    }


def collect(server: LocalServer, folder: Path) -> Collected:
    given = {
        "kubernetes": {"url": server.url, "token": TOKEN},
        "services": {"checkout": {"kubernetes": [f"{SPACE}/deployment/checkout"]}},
    }
    connector = CONNECTOR.configured(Settings.model_validate(given))
    assert connector is not None
    alert = Alert(source="x", title="fails", started_at=ALERT_AT, service="checkout")
    request = request_for(folder, services=("checkout",), alert=alert)
    return asyncio.run(collect_from(connector, request))


def test_addresses_routes_and_ingresses_are_calls_and_no_value_is_kept(
    server: LocalServer, tmp_path: Path
) -> None:
    serve(server, objects())
    found = collect(server, tmp_path)
    callees = [("checkout", name) for name in EXPECTED]
    # A Service is what its pods are called in the settings.
    routed = [("ingress-nginx", "checkout"), ("public", "checkout")]
    assert calls_in(found, "kubernetes") == [*callees, *routed]
    [item] = [one for one in found.items if one.kind == "topology"]
    assert item.rows == len(callees) + len(routed)
    everything = repr((found.items, found.missing, [t.rows() for t in found.tables.values()]))
    for secret in (PASSWORD, "sslmode", "mail.example.com"):
        assert secret not in everything
    table = conform(found.tables["topology"], "topology", "topology")
    assert table["last_seen"].unique().to_list() == [ALERT_AT]


POLICY = {
    "podSelector": {"matchLabels": {"app": "checkout"}},
    "policyTypes": ["Ingress", "Egress"],
    "ingress": [{"from": [{"podSelector": {"matchLabels": {"app": "web"}}}, {"podSelector": {}}]}],
    "egress": [{"to": [{"podSelector": {"matchExpressions": [
        {"key": "app", "operator": "In", "values": ["payments"]}
    ]}}]}],
}  # fmt: skip


def test_a_policy_that_names_both_sides_tells_of_their_call(
    server: LocalServer, tmp_path: Path
) -> None:
    names = ("checkout", "web", "payments", "batch")
    made = {
        "deployments": [
            workload("Deployment", name, template(name, "a:1", "1Gi")) for name in names
        ],
        "pods": [pod(f"{name}-1", name, "node-1", [container()]) for name in names],
        "networkpolicies": [
            {"metadata": meta("checkout"), "spec": POLICY},
            {"metadata": meta("deny-all"), "spec": {"podSelector": {}, "policyTypes": ["Egress"]}},
        ],
    }
    serve(server, made)
    given = {
        "kubernetes": {"url": server.url, "token": TOKEN},
        "services": {name: {"kubernetes": [f"{SPACE}/deployment/{name}"]} for name in names},
    }
    connector = CONNECTOR.configured(Settings.model_validate(given))
    assert connector is not None
    request = request_for(tmp_path, services=names)
    found = asyncio.run(collect_from(connector, request))
    assert calls_in(found, "network_policies") == [("checkout", "payments"), ("web", "checkout")]


@pytest.mark.parametrize(
    ("resource", "name", "schema"),
    [
        ("ingresses", "networking-v1.json.gz", "io.k8s.api.networking.v1.Ingress"),
        ("services", "core-v1.json.gz", "io.k8s.api.core.v1.Service"),
        ("deployments", "apps-v1.json.gz", "io.k8s.api.apps.v1.Deployment"),
    ],
)
def test_these_objects_are_those_of_the_published_api(
    shared: Path, resource: str, name: str, schema: str
) -> None:
    known = document(shared, name)["components"]["schemas"]
    wanted = {"$ref": f"#/components/schemas/{schema}", "components": {"schemas": known}}
    for one in objects()[resource]:
        jsonschema.Draft202012Validator(wanted).validate(_without_nulls(one))


THERE = ServicesThere({("shop", "cart"): "cart", ("shop", "a"): "a", ("pay", "api"): "payments"})


@pytest.mark.parametrize(
    ("name", "value", "callees"),
    [
        ("X", "api.pay:80", ["payments"]),
        ("X", "https://api.pay.svc", ["payments"]),
        ("X", "https://api.pay.example.com", []),
        ("X", "https://cart.example.com/", []),
        ("X", "https://example.com/cart", []),
        ("X", "https://example.com/?next=cart:80", []),
        ("X", "shopping-cart:80", []),
        ("X", "https://example.com/?service=cart", []),
        ("X", "http://a:80 cart", ["a"]),
        ("X", "host=cart port=5432 password=x", ["cart"]),
        ("X", "cart.shop.svc.cluster.local", ["cart"]),
        ("X", "grpc://user:pa@ss@cart:1", ["cart"]),
        ("CART_ADDR", "cart", ["cart"]),
        ("CART", "cart", []),
        ("DB_ADDR", "10.0.0.1:80", []),
        ("X", "$(CART_SERVICE_HOST)", ["cart"]),
        ("X", "\u202ecart\x00://\ud800", []),
    ],
)
def test_a_host_is_an_address_of_a_known_service(name: str, value: str, callees: list[str]) -> None:
    assert list(_services_in(name, value, "shop", THERE)) == callees
