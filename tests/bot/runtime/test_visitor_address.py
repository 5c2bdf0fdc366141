"""Whose address a request has, and how often one may try."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from faultline.bot.runtime.throttle import PER_ADDRESS, WINDOW_S, Throttle, client_address


def request(client: str, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    return Request(
        {"type": "http", "headers": headers, "client": (client, 1), "method": "GET", "path": "/"}
    )


@pytest.mark.parametrize(
    ("client", "forwarded", "seen"),
    [
        ("203.0.113.9", ("1.2.3.4",), "203.0.113.9"),
        ("10.0.0.1", (), "10.0.0.1"),
        ("10.0.0.1", ("1.2.3.4",), "1.2.3.4"),
        ("10.0.0.1", ("6.6.6.6, 1.2.3.4, 10.0.0.2",), "1.2.3.4"),
        ("10.0.0.1", ("6.6.6.6", "1.2.3.4"), "1.2.3.4"),
        ("10.0.0.1", ("1.2.3.4, nonsense",), "10.0.0.1"),
        ("::ffff:10.0.0.1", ("2001:db8::1",), "2001:db8::1"),
        ("10.0.0.1", (",".join(["10.0.0.1"] * 10_000),), "10.0.0.1"),
    ],
)
def test_a_forwarded_address_counts_only_from_a_trusted_proxy(
    client: str, forwarded: tuple[str, ...], seen: str
) -> None:
    assert client_address(request(client, *forwarded), ("10.0.0.0/8",)) == seen


def test_a_client_in_the_network_of_the_proxies_cannot_choose_its_address() -> None:
    """The proxy is named by its address: the client beside it is the first that is not trusted."""
    forged = request("10.0.0.1", "6.6.6.6, 10.4.4.4")
    assert client_address(forged, ("10.0.0.1",)) == "10.4.4.4"
    assert client_address(request("10.4.4.4", "6.6.6.6"), ("10.0.0.1",)) == "10.4.4.4"


def test_the_first_failures_of_an_address_are_answered_and_then_it_waits() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for _ in range(PER_ADDRESS):
        assert throttle.failed("1.2.3.4") == 0
    assert throttle.failed("1.2.3.4") > 0
    assert throttle.wait_s("1.2.3.4") > 0
    assert throttle.wait_s("1.2.3.5") == 0
    now[0] = WINDOW_S
    assert throttle.failed("1.2.3.4") == 0


def test_a_network_of_ipv6_is_one_visitor() -> None:
    throttle = Throttle(lambda: 0.0)
    for n in range(PER_ADDRESS):
        throttle.failed(f"2001:db8:0:1::{n:x}")
    assert throttle.wait_s("2001:db8:0:1::ffff") > 0
    assert throttle.wait_s("2001:db8:0:2::1") == 0


def test_failures_of_many_addresses_keep_no_other_out() -> None:
    throttle = Throttle(lambda: 0.0)
    for n in range(1_000):
        throttle.failed(f"10.{n // 250}.{n % 250}.1")
    assert throttle.wait_s("198.51.100.1") == 0
