"""Which service answers at an address."""

from __future__ import annotations

import pytest

from faultline.analysis.case.addresses import AddressBook

BOOK = AddressBook(
    {"web", "payments", "kafka", "cart-api"},
    hosts={
        "10.0.3.7": "orders-db",
        "shop.example.com": "web",
        "10.0.0.1:6443": "apiserver",
        "pay": "payments",
    },
    namespace="prod",
    namespaces={"payments": {"prod", "staging"}, "kafka": {"data"}},
)


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("payments", "payments"),
        ("payments:8080", "payments"),
        ("http://payments:8080/v1/charge?x=1", "payments"),
        ("https://user:secret@payments.prod:8443", "payments"),
        ("dns:///payments:8080", "payments"),
        ("jdbc:postgresql://orders-db.prod.svc:5432/orders", "orders-db"),
        ("payments.prod.svc.cluster.local.", "payments"),
        ("kafka-0.kafka.data.svc.cluster.local:9092", "kafka"),
        ("10.0.3.7:5432", "orders-db"),
        ("PAY:8080", "payments"),
        ("pay.prod.svc:8080", "payments"),
        ("10.0.0.1:6443", "apiserver"),
        ("10.0.3.8:5432", None),
        ("Shop.Example.com", "web"),
        ("api.stripe.com", "api.stripe.com"),
        ("payments-db.prod.internal", "payments-db.prod.internal"),
        ("localhost:9000", None),
        ("none", None),
        ("", None),
        ("http://", None),
    ],
)
def test_an_address_is_the_service_that_answers_there(address: str, service: str | None) -> None:
    assert BOOK.service_at(address) == service


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("payments.staging.svc.cluster.local", "payments.staging"),
        ("payments.staging:8080", "payments.staging"),
        ("kafka.data.svc", "kafka"),
        ("web.staging.svc", "web"),
    ],
)
def test_services_of_one_name_in_two_namespaces_are_kept_apart(address: str, service: str) -> None:
    assert BOOK.service_at(address) == service


@pytest.mark.parametrize(
    ("address", "service"),
    [
        ("api.stripe.com:443", "api.stripe.com"),
        ("https://API.stripe.com/v1/charges", "API.stripe.com"),
        ("api", "api"),
        ("api.prod:8080", "api"),
        ("api.prod.svc:8080", "api"),
        ("api.prod.internal", "api"),
        ("api.example.com", "web"),
        ("orders.example.com", "orders"),
    ],
)
def test_a_service_called_api_hides_nobody_else_s_api(address: str, service: str) -> None:
    book = AddressBook({"api", "orders", "web"}, hosts={"api.example.com": "web"})
    assert book.service_at(address) == service


def test_without_a_namespace_nothing_is_kept_apart() -> None:
    book = AddressBook({"payments"}, namespaces={"payments": {"prod", "staging"}})
    assert book.service_at("payments.staging.svc") == "payments"


@pytest.mark.parametrize(
    ("interface", "service"),
    [
        ("acme.payments.v1.PaymentsService", "payments"),
        ("acme.payments.v1.PaymentsService/Charge", "payments"),
        ("hipstershop.CartService", "cart-api"),
        ("grpc.health.v1.Health", None),
        ("acme.inventory.v1.Stock", None),
        ("", None),
    ],
)
def test_an_interface_is_that_of_the_one_service_of_its_name(
    interface: str, service: str | None
) -> None:
    assert BOOK.service_of_interface(interface) == service


def test_an_interface_that_two_services_share_is_nobody_s() -> None:
    book = AddressBook({"checkout-core", "checkout-web"})
    assert book.service_of_interface("acme.v1.CheckoutService") is None
    assert AddressBook({"checkout-core"}).service_of_interface("a.CheckoutService") == (
        "checkout-core"
    )
