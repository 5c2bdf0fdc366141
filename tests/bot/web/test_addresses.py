"""Whose address a request has, and how often one may try."""

from __future__ import annotations

import pytest
from starlette.requests import Request

from bot.web.addresses import client_address
from bot.web.throttle import IN_ALL, PER_ADDRESS, WINDOW_S, Throttle


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


def test_failures_from_one_address_keep_that_address_out_for_a_while() -> None:
    now = [0.0]
    throttle = Throttle(lambda: now[0])
    for _ in range(PER_ADDRESS):
        assert throttle.wait_s("1.2.3.4") == 0
        throttle.failed("1.2.3.4")
    assert throttle.wait_s("1.2.3.4") > 0
    assert throttle.wait_s("1.2.3.5") == 0
    now[0] = WINDOW_S
    assert throttle.wait_s("1.2.3.4") == 0


def test_a_network_of_ipv6_is_one_visitor() -> None:
    throttle = Throttle(lambda: 0.0)
    for n in range(PER_ADDRESS):
        throttle.failed(f"2001:db8:0:1::{n:x}")
    assert throttle.wait_s("2001:db8:0:1::ffff") > 0
    assert throttle.wait_s("2001:db8:0:2::1") == 0


def test_failures_of_many_addresses_keep_strangers_out_and_not_those_who_got_in_before() -> None:
    throttle = Throttle(lambda: 0.0)
    throttle.got_in("192.0.2.1")
    for n in range(IN_ALL):
        throttle.failed(f"10.0.{n}.1")
    assert throttle.wait_s("198.51.100.1") > 0
    assert throttle.wait_s("192.0.2.1") == 0
