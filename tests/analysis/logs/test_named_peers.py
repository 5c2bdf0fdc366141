from __future__ import annotations

import pytest

from faultline.analysis.logs.named_peers import named_peers


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (
            "dial tcp: lookup api.stripe.com on 10.96.0.10:53: no such host",
            ["api.stripe.com"],
        ),
        ("getaddrinfo ENOTFOUND smtp.sendgrid.net", ["smtp.sendgrid.net"]),
        ("upstream card-provider returned 503", ["card-provider"]),
        ("rate limit of maps-api exceeded", ["maps-api"]),
        ("call to auth0 failed: 500 Internal Server Error", ["auth0"]),
        ("request to stripe: stripe returned 429", ["stripe"]),
        ("GET https://user:pw@api.bank.example/v1/pay: 502", ["api.bank.example"]),
        ("connection to orders-db:5432 refused", ["orders-db"]),
        ('connection to server at "postgres" (10.0.0.7), port 5432 failed', ["postgres"]),
        ('could not translate host name "postgres" to address', ["postgres"]),
        ("Can't connect to MySQL server on 'orders-db' (111)", ["orders-db"]),
        ("upstream request timeout", []),
        ("the connection was refused", []),
        ("connection to server timed out", []),
        ("call to the database failed", []),
        ("request failed after 3 retries", []),
        ("connection to server was lost", []),
        ("at com.shop.Cart.add(Cart.java:42)", []),
        ("response from handler.py:77 was empty", []),
        ("2026-03-01T12:00:00Z error", []),
    ],
)
def test_whom_a_failing_line_names(line: str, names: list[str]) -> None:
    assert list(named_peers(line)) == names


def test_of_many_names_three_are_kept() -> None:
    line = " ".join(f"http://host-{n}.example/" for n in range(9))
    assert len(named_peers(line)) == 3
