from __future__ import annotations

import json
from typing import Any

import polars as pl
import pytest

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.requests.critical_path import with_visits
from faultline.analysis.requests.error_origin import peer_calls, peer_named

BOOK = AddressBook({"web", "payments"})


@pytest.mark.parametrize(
    ("attributes", "peer"),
    [
        ({"peer.service": "card-provider"}, "card-provider"),
        ({"server.address": "api.stripe.com:443"}, "api.stripe.com"),
        ({"net.peer.name": "payments.prod.svc.cluster.local"}, "payments"),
        ({"peer.service": "ledger", "server.address": "10.0.0.7"}, "ledger"),
        ({"server.address": "10.0.0.7"}, None),
        ({"server.address": "fe80::1"}, None),
        ({"server.address": "[fe80::1]:443"}, None),
        ({"server.address": "dead.beef"}, "dead.beef"),
        ({"server.address": "x" * 254}, None),
        ({"peer.service": "card\nprovider"}, None),
        ({"server.address": "localhost:9000"}, None),
        ({"server.address": "shop.example.com", "span.kind": "server"}, None),
        ({"http.route": "/orders"}, None),
        (["peer.service"], None),
    ],
)
def test_whom_a_client_span_names(attributes: Any, peer: str | None) -> None:
    assert peer_named(json.dumps(attributes), BOOK) == peer


@pytest.mark.parametrize("text", ['{"peer.service": ', '{"peer.service":' + "[" * 100_000])
def test_attributes_that_cannot_be_read_name_nobody(text: str) -> None:
    assert peer_named(text, BOOK) is None


def span(
    number: str, parent: str | None, service: str, attributes: dict[str, str] | None = None
) -> dict[str, Any]:
    return {
        "trace_id": "t",
        "span_id": number,
        "parent_id": parent,
        "service": service,
        "operation": "op",
        "start": "2026-03-01T12:00:00Z",
        "duration_us": 1000.0,
        "status": None,
        "attributes": json.dumps(attributes) if attributes else None,
    }


def calls(*rows: dict[str, Any]) -> list[tuple[str, str]]:
    schema = {"parent_id": pl.String, "status": pl.String, "attributes": pl.String}
    table = pl.DataFrame(rows, schema_overrides=schema)
    table = table.with_columns(pl.col("start").str.to_datetime(time_unit="ns", time_zone="UTC"))
    return [
        (row["caller"], row["callee"])
        for row in peer_calls(with_visits(table)).iter_rows(named=True)
    ]


def test_a_call_below_which_nobody_sends_spans_leads_to_its_peer() -> None:
    found = calls(
        span("a", None, "web"),
        span("b", "a", "web", {"span.kind": "client", "peer.service": "card-provider"}),
    )
    assert found == [("web", "card-provider")]


def test_a_call_that_the_other_side_answers_with_a_span_of_its_own_names_no_second_peer() -> None:
    found = calls(
        span("a", None, "web"),
        span("b", "a", "web", {"span.kind": "client", "server.address": "lb-7.internal"}),
        span("c", "b", "payments"),
    )
    assert found == []


def test_the_host_that_a_request_asks_for_is_no_peer() -> None:
    assert calls(span("a", None, "web", {"server.address": "shop.example.com"})) == []
    root = span("a", None, "web", {"span.kind": "client", "server.address": "api.bank.example"})
    assert calls(root) == [("web", "api.bank.example")]
