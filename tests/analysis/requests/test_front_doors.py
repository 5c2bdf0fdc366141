from __future__ import annotations

import pytest

from faultline.analysis.requests.topology import front_doors, topology_of

CALLS = [("web", "payments-api"), ("web", "catalogue")]


@pytest.mark.parametrize(
    "host", ["payments.internal.example.com", "k8s-payments-1f2e.eu-west-1.elb.amazonaws.com"]
)
def test_a_host_that_names_a_service_its_caller_calls_too_is_that_services_front_door(
    host: str,
) -> None:
    assert front_doors(topology_of([*CALLS, ("web", host)])) == {host: "payments-api"}


def test_a_host_cut_short_by_the_load_balancer_is_known_by_its_piece() -> None:
    assert front_doors(
        topology_of([*CALLS, ("web", "prod-catal.eu-west-1.elb.amazonaws.com")])
    ) == {"prod-catal.eu-west-1.elb.amazonaws.com": "catalogue"}


@pytest.mark.parametrize(
    "host",
    [
        "payments-db.internal.example.com",
        "redis.payments.internal",
        "api.stripe.com",
        "service.example.com",
        "169.254.170.2",
        "payments",
    ],
)
def test_stores_strangers_and_plain_names_are_no_front_doors(host: str) -> None:
    assert front_doors(topology_of([*CALLS, ("web", host)])) == {}


def test_a_host_that_two_services_could_be_behind_is_left_out() -> None:
    edges = [("web", "payments-api"), ("web", "payments-worker"), ("web", "payments.example.com")]
    assert front_doors(topology_of(edges)) == {}


def test_a_host_that_calls_others_is_a_service_of_its_own() -> None:
    assert (
        front_doors(
            topology_of([*CALLS, ("web", "payments.example.com"), ("payments.example.com", "bank")])
        )
        == {}
    )


def test_a_service_nobody_calls_beside_the_host_is_not_behind_it() -> None:
    assert (
        front_doors(topology_of([("batch", "payments-api"), ("web", "payments.example.com")])) == {}
    )
